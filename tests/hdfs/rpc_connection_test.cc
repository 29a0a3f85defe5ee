// RpcConnection and RpcClient against a server of the test on loopback that answers as it is told.
#include "lib/hdfs/rpc_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "lib/hdfs/rpc_client.h"
#include "lib/hdfs/wire_bytes.h"
#include "tests/hdfs/scripted_name_node.h"

namespace paceline::hdfs {
namespace {

using std::chrono::seconds;

class Rpc : public testing::Test {
 protected:
  std::unique_ptr<RpcClient> Client(const std::vector<uint16_t>& ports, Duration try_limit = seconds(10)) {
    RpcClient::Options options;
    for (const uint16_t port : ports) options.service.namenodes.push_back({"", "127.0.0.1", port});
    options.connection.identity = {MakeRpcClientId(), "alice"};
    options.try_limit = try_limit;
    return std::make_unique<RpcClient>(options, clock_);
  }
  Deadline In(Duration time) const { return Deadline::After(clock_, time); }
  RealClock clock_;
};

TEST_F(Rpc, HandsEachAnswerToItsCall) {
  Mutex mutex;
  std::vector<SeenCall> held;
  // Answers only when four calls are there, the last one first.
  ScriptedNameNode server([&](const SeenCall& call) -> std::optional<std::string> {
    MutexLock lock(mutex);
    held.push_back(call);
    std::string out;
    if (held.size() == 4) {
      for (auto it = held.rbegin(); it != held.rend(); ++it) out += Success(*it, it->body + "!");
    }
    return out;
  });
  const auto client = Client({server.port()});
  std::vector<std::string> answers(4);
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < answers.size(); ++i) {
      threads.emplace_back(
          [&, i] { answers[i] = client->Call("m", std::to_string(i), "m", In(seconds(20))).value_or("?"); });
    }
  }
  EXPECT_THAT(answers, testing::ElementsAre("0!", "1!", "2!", "3!"));
  EXPECT_GE(server.connections(), 1);
}

TEST_F(Rpc, ResendsALostCallWithTheSameIds) {
  std::vector<SeenCall> seen;
  ScriptedNameNode server([&](const SeenCall& call) -> std::optional<std::string> {
    seen.push_back(call);
    if (seen.size() == 1) return std::nullopt;  // the connection breaks before the answer
    return Success(call, "done");
  });
  const auto client = Client({server.port()});
  EXPECT_EQ(client->Call("concat", "x", "concat /a", In(seconds(20))).value_or("?"), "done");
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].header.call_id(), seen[1].header.call_id());
  EXPECT_EQ(seen[0].header.client_id(), seen[1].header.client_id());
  EXPECT_EQ(seen[0].header.client_id().size(), 16u);
  EXPECT_EQ(seen[0].header.retry_count(), 0);
  EXPECT_EQ(seen[1].header.retry_count(), 1);
  EXPECT_EQ(seen[0].body, seen[1].body);
  EXPECT_EQ(client->Call("m", "y", "m", In(seconds(20))).value_or("?"), "done");
  EXPECT_NE(seen[2].header.call_id(), seen[1].header.call_id());
}

TEST_F(Rpc, FailsOverToTheActiveNameNodeAndStaysThere) {
  int standby_calls = 0;
  ScriptedNameNode standby([&](const SeenCall& call) {
    ++standby_calls;
    return std::optional(Failure(call, "org.apache.hadoop.ipc.StandbyException"));
  });
  ScriptedNameNode active([&](const SeenCall& call) { return std::optional(Success(call, "active")); });
  const auto client = Client({standby.port(), active.port()});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client->Call("m", "", "m", In(seconds(20))).value_or("?"), "active");
  EXPECT_EQ(standby_calls, 1);
}

TEST_F(Rpc, GoesOnWhenANameNodeAnswersNothing) {
  ScriptedNameNode hung([&](const SeenCall&) { return std::optional<std::string>(""); });
  ScriptedNameNode active([&](const SeenCall& call) { return std::optional(Success(call, "active")); });
  const auto client = Client({hung.port(), active.port()}, std::chrono::milliseconds(200));
  EXPECT_EQ(client->Call("m", "", "m", In(seconds(20))).value_or("?"), "active");
}

TEST_F(Rpc, GivesErrorsOfTheServerTypedAndKeepsTheConnection) {
  ScriptedNameNode server([&](const SeenCall& call) -> std::optional<std::string> {
    if (call.method == "bad") return Failure(call, "java.io.FileNotFoundException");
    if (call.method == "fatal") return Failure(call, "org.apache.hadoop.security.authorize.AuthorizationException", 2);
    return Success(call, "ok");
  });
  const auto client = Client({server.port()});
  const Status missing = client->Call("bad", "", "bad /a", In(seconds(20))).status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_EQ(missing.message(), "bad /a: because (FileNotFoundException) [ENOENT]");
  EXPECT_EQ(client->Call("m", "", "m", In(seconds(20))).value_or("?"), "ok");
  EXPECT_EQ(server.connections(), 1);
  EXPECT_EQ(client->Call("fatal", "", "m", In(seconds(20))).status().code(), StatusCode::kPermissionDenied);
}

TEST_F(Rpc, EndsAtItsDeadline) {
  ScriptedNameNode hung([&](const SeenCall&) { return std::optional<std::string>(""); });
  const auto client = Client({hung.port()});
  EXPECT_EQ(client->Call("m", "", "m", In(std::chrono::milliseconds(300))).status().code(),
            StatusCode::kDeadlineExceeded);
}

TEST_F(Rpc, NamesAServerThatIsNotThere) {
  uint16_t port;
  {
    ScriptedNameNode gone([](const SeenCall&) { return std::nullopt; });
    port = gone.port();
  }
  const auto client = Client({port});
  const Status status = client->Call("m", "", "stat /a", In(std::chrono::milliseconds(300))).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), testing::HasSubstr("127.0.0.1:" + std::to_string(port)));
}

TEST_F(Rpc, DropsAServerThatTalksNonsense) {
  int calls = 0;
  ScriptedNameNode server([&](const SeenCall& call) -> std::optional<std::string> {
    if (++calls == 1) return std::string("\xff\xff\xff\xf0garbage");
    if (calls == 2) return Frame("\x05nonsense");
    return Success(call, "ok");
  });
  EXPECT_EQ(Client({server.port()})->Call("m", "", "m", In(seconds(20))).value_or("?"), "ok");
  EXPECT_EQ(calls, 3);
}

}  // namespace
}  // namespace paceline::hdfs
