#include "lib/hdfs/rpc_retry.h"

#include <algorithm>

namespace paceline::hdfs {
namespace {

using namespace std::chrono_literals;

constexpr int kMaxTries = 15;
constexpr int kMaxSafeModeTries = 6;
constexpr Duration kFirstWait = 500ms;
constexpr Duration kLongestWait = 15s;

// Doubles from half a second, with a jitter of half to one and a half, as Hadoop's clients do.
Duration Wait(int step, double random) {
  Duration wait = kFirstWait;
  for (int i = 0; i < step && wait < kLongestWait; ++i) wait *= 2;
  wait = std::min(wait, kLongestWait);
  return std::chrono::duration_cast<Duration>(wait * (0.5 + random));
}

}  // namespace

RetryStep DecideRetry(const RpcTrouble& trouble, double random) {
  using Action = RetryStep::Action;
  using Kind = RpcOutcome::Kind;
  if (trouble.earlier_tries + 1 >= kMaxTries) return {};
  const bool has_other = trouble.namenodes > 1;
  if (!has_other && trouble.earlier_tries == 0 && trouble.kind != Kind::kTimedOut &&
      trouble.kind != Kind::kRemoteError && trouble.kind != Kind::kRefused) {
    // Most likely the idle connection had died: the second try is at once.
    return {Action::kSameServer, Duration::zero()};
  }
  // Each other server is asked at once; only when all of them have been, it is worth waiting.
  const int asked_all = trouble.earlier_tries - (trouble.namenodes - 1) + (has_other ? 0 : -1);
  const Duration wait = has_other && asked_all < 0 ? Duration::zero() : Wait(std::max(0, asked_all), random);
  const RetryStep elsewhere = {has_other ? Action::kOtherServer : Action::kSameServer, wait};
  switch (trouble.kind) {
    case Kind::kNotSent:
    case Kind::kLost:
    case Kind::kTimedOut: return elsewhere;
    case Kind::kRemoteError:
      if (trouble.remote == RemoteErrorKind::kStandby) return elsewhere;
      if (trouble.remote == RemoteErrorKind::kRetry) return {Action::kSameServer, Wait(trouble.earlier_tries, random)};
      if (trouble.remote == RemoteErrorKind::kSafeMode && trouble.earlier_tries + 1 < kMaxSafeModeTries) {
        return {Action::kSameServer, Wait(trouble.earlier_tries, random)};
      }
      return {};
    case Kind::kRefused:
    case Kind::kAnswer: return {};
  }
  return {};
}

}  // namespace paceline::hdfs
