#include "lib/hdfs/rpc_client.h"

#include <fmt/format.h>

#include <random>

namespace paceline::hdfs {
namespace {

Status ToStatus(const RpcOutcome& outcome, std::string_view what) {
  switch (outcome.kind) {
    case RpcOutcome::Kind::kRemoteError:
    case RpcOutcome::Kind::kRefused: return ToRemoteError(outcome.exception_class, outcome.message, what).status;
    default: return outcome.failure.Annotate(what);
  }
}

}  // namespace

std::string MakeRpcClientId() {
  std::random_device entropy;
  std::string id;
  while (id.size() < 16) {
    const uint32_t word = entropy();
    id.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
  return id;
}

RpcClient::RpcClient(Options options, const Clock& clock)
    : options_(std::move(options)), clock_(clock), random_(MakeRandomSource()) {
  CHECK(!options_.service.namenodes.empty());
  connections_.resize(options_.service.namenodes.size());
}

Result<std::string> RpcClient::Call(std::string_view method, std::string_view body, std::string_view what,
                                    Deadline deadline, std::stop_token stop) {
  RpcCallHead head{.protocol = options_.connection.protocol, .method = method};
  size_t server;
  {
    MutexLock lock(mutex_);
    // Drawn once and kept over all tries: the NameNode's retry cache answers a call that it has already carried out.
    head.call_id = next_call_id_;
    next_call_id_ = next_call_id_ == INT32_MAX ? 0 : next_call_id_ + 1;
    server = active_;
  }
  for (int tries = 0;; ++tries) {
    head.retry_count = tries;
    const Deadline limit = deadline.Min(Deadline::After(clock_, options_.try_limit));
    RpcOutcome outcome = TryOnce(server, head, body, limit, stop);
    if (outcome.kind == RpcOutcome::Kind::kAnswer) return std::move(outcome.body);
    if (stop.stop_requested()) return CancelledError(fmt::format("{}: stopped", what));
    RpcTrouble trouble{
        .kind = outcome.kind, .earlier_tries = tries, .namenodes = static_cast<int>(options_.service.namenodes.size())};
    if (outcome.kind == RpcOutcome::Kind::kRemoteError) {
      trouble.remote = ToRemoteError(outcome.exception_class, outcome.message, what).kind;
    }
    const RetryStep step = DecideRetry(trouble, Random());
    const TimePoint again = clock_.Now() + step.wait;
    if (step.action == RetryStep::Action::kGiveUp || again >= deadline.when()) return ToStatus(outcome, what);
    if (step.action == RetryStep::Action::kOtherServer) MoveOnFrom(server);
    if (!clock_.SleepUntil(again, stop)) return CancelledError(fmt::format("{}: stopped", what));
    MutexLock lock(mutex_);
    server = active_;
  }
}

RpcOutcome RpcClient::TryOnce(size_t server, const RpcCallHead& head, std::string_view body, Deadline deadline,
                              const std::stop_token& stop) {
  Result<std::shared_ptr<RpcConnection>> connection = ConnectionTo(server, deadline);
  if (!connection.ok()) {
    RpcOutcome outcome{.kind = RpcOutcome::Kind::kNotSent, .failure = connection.status()};
    // Not to be let in is no reason to knock again.
    if (connection.status().code() == StatusCode::kPermissionDenied ||
        connection.status().code() == StatusCode::kUnimplemented) {
      outcome.kind = RpcOutcome::Kind::kRefused;
      outcome.exception_class = "AccessControlException";
      outcome.message = connection.status().message();
    }
    return outcome;
  }
  return (*connection)->Call(head, body, deadline, stop);
}

Result<std::shared_ptr<RpcConnection>> RpcClient::ConnectionTo(size_t server, Deadline deadline) {
  {
    MutexLock lock(mutex_);
    const std::shared_ptr<RpcConnection>& held = connections_[server];
    if (held != nullptr && held->is_usable()) return held;
  }
  const NameNodeAddress& address = options_.service.namenodes[server];
  const Deadline limit = deadline.Min(Deadline::After(clock_, options_.connect_limit));
  ASSIGN_OR_RETURN(std::shared_ptr<RpcConnection> made,
                   RpcConnection::Open(address.host, address.port, options_.connection, clock_, limit));
  std::shared_ptr<RpcConnection> replaced;  // its end joins a thread: not under the lock
  MutexLock lock(mutex_);
  std::shared_ptr<RpcConnection>& held = connections_[server];
  if (held != nullptr && held->is_usable()) {
    replaced = std::move(made);  // another thread was quicker
    return held;
  }
  replaced = std::exchange(held, made);
  return made;
}

void RpcClient::MoveOnFrom(size_t server) {
  MutexLock lock(mutex_);
  if (active_ == server) active_ = (server + 1) % options_.service.namenodes.size();
}

double RpcClient::Random() {
  MutexLock lock(mutex_);
  return random_();
}

}  // namespace paceline::hdfs
