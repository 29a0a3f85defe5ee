#include "lib/hdfs/rpc_retry.h"

#include <gtest/gtest.h>

namespace paceline::hdfs {
namespace {

using namespace std::chrono_literals;
using Action = RetryStep::Action;
using Kind = RpcOutcome::Kind;
using Remote = RemoteErrorKind;

TEST(DecideRetry, FollowsItsTable) {
  const struct {
    const char* name;
    RpcTrouble trouble;
    Action action;
    Duration wait;
  } cases[] = {
      {"a failure of the call itself", {Kind::kRemoteError, Remote::kOther, 0, 2}, Action::kGiveUp, 0ms},
      {"not let in", {Kind::kRefused, Remote::kOther, 0, 2}, Action::kGiveUp, 0ms},
      {"standby: the other one at once", {Kind::kRemoteError, Remote::kStandby, 0, 2}, Action::kOtherServer, 0ms},
      {"both standby: a wait", {Kind::kRemoteError, Remote::kStandby, 1, 2}, Action::kOtherServer, 500ms},
      {"both standby again: a longer one", {Kind::kRemoteError, Remote::kStandby, 2, 2}, Action::kOtherServer, 1s},
      {"three: the third at once", {Kind::kRemoteError, Remote::kStandby, 1, 3}, Action::kOtherServer, 0ms},
      {"at most 15 s", {Kind::kRemoteError, Remote::kStandby, 12, 2}, Action::kOtherServer, 15s},
      {"15 tries", {Kind::kRemoteError, Remote::kStandby, 14, 2}, Action::kGiveUp, 0ms},
      {"no connection, one server: at once", {Kind::kNotSent, Remote::kOther, 0, 1}, Action::kSameServer, 0ms},
      {"no connection again: a wait", {Kind::kNotSent, Remote::kOther, 1, 1}, Action::kSameServer, 500ms},
      {"lost answer: resent elsewhere", {Kind::kLost, Remote::kOther, 0, 2}, Action::kOtherServer, 0ms},
      {"no answer in time: elsewhere", {Kind::kTimedOut, Remote::kOther, 0, 2}, Action::kOtherServer, 0ms},
      {"no answer in time, one server", {Kind::kTimedOut, Remote::kOther, 0, 1}, Action::kSameServer, 500ms},
      {"retriable: the same one, later", {Kind::kRemoteError, Remote::kRetry, 1, 2}, Action::kSameServer, 1s},
      {"safe mode: a few times", {Kind::kRemoteError, Remote::kSafeMode, 4, 2}, Action::kSameServer, 8s},
      {"safe mode: not for ever", {Kind::kRemoteError, Remote::kSafeMode, 5, 2}, Action::kGiveUp, 0ms},
  };
  for (const auto& c : cases) {
    const RetryStep step = DecideRetry(c.trouble, 0.5);
    EXPECT_EQ(step.action, c.action) << c.name;
    EXPECT_EQ(step.wait, c.wait) << c.name;
  }
  EXPECT_EQ(DecideRetry({Kind::kRemoteError, Remote::kRetry, 1, 2}, 0.0).wait, 500ms);
}

}  // namespace
}  // namespace paceline::hdfs
