#include "lib/hdfs/rpc_connection.h"

#include <fmt/format.h>

#include "lib/hdfs/wire_bytes.h"

namespace paceline::hdfs {
namespace {

constexpr size_t kReadBytes = 64 << 10;
// A server that takes no bytes for this long is gone; the frames are small.
constexpr Duration kWriteLimit = std::chrono::seconds(20);

}  // namespace

Result<std::shared_ptr<RpcConnection>> RpcConnection::Open(const std::string& host, uint16_t port,
                                                           const Options& options, const Clock& clock,
                                                           Deadline deadline) {
  ASSIGN_OR_RETURN(std::unique_ptr<ByteStream> stream, ConnectTcp(host, port, clock, deadline));
  Result<std::shared_ptr<RpcConnection>> made = OpenOn(std::move(stream), host, options, clock, deadline);
  return std::move(made).Annotate(fmt::format("NameNode {}:{}", host, port));
}

Result<std::shared_ptr<RpcConnection>> RpcConnection::OpenOn(std::unique_ptr<ByteStream> stream,
                                                             const std::string& host, const Options& options,
                                                             const Clock& clock, Deadline deadline) {
  std::shared_ptr<RpcConnection> made(new RpcConnection(std::move(stream), options, clock));
  RETURN_IF_ERROR(made->Handshake(host, deadline));
  RpcConnection* connection = made.get();
  made->reader_ = std::jthread([connection](std::stop_token stop) { connection->ReadAnswers(std::move(stop)); });
  return made;
}

RpcConnection::~RpcConnection() {
  reader_.request_stop();
  stream_->Shutdown();
}

Status RpcConnection::Handshake(const std::string& host, Deadline deadline) {
  RpcIdentity identity = options_.identity;
  if (options_.security == nullptr) {
    const std::string hello = RpcPreamble(RpcAuth::kSimple) + RpcContextFrame(identity, options_.protocol);
    return stream_->Write(hello, deadline);
  }
  RETURN_IF_ERROR(stream_->Write(RpcPreamble(RpcAuth::kSasl), deadline));
  ASSIGN_OR_RETURN(protection_, options_.security->Negotiate(*stream_, host, deadline));
  identity.effective_user = options_.security->ContextUser();
  std::string context = RpcContextFrame(identity, options_.protocol);
  if (protection_ != nullptr) {
    wire::RpcSasl wrapped;
    wrapped.set_state(kSaslWrap);
    ASSIGN_OR_RETURN(*wrapped.mutable_token(), protection_->Wrap(context));
    context = RpcSaslFrame(wrapped);
  }
  return stream_->Write(context, deadline);
}

bool RpcConnection::is_usable() const {
  MutexLock lock(mutex_);
  return broken_.ok();
}

RpcOutcome RpcConnection::Call(const RpcCallHead& head, std::string_view body, Deadline deadline,
                               std::stop_token stop) {
  auto pending = std::make_shared<Pending>();
  {
    MutexLock lock(mutex_);
    if (!broken_.ok()) return {.kind = RpcOutcome::Kind::kNotSent, .failure = broken_};
    pending_[head.call_id] = pending;
  }
  // A failure to send breaks the connection, which ends this call with the others.
  if (const Status sent = Send(RpcCallFrame(options_.identity, head, body)); !sent.ok()) Break(sent);
  MutexLock lock(mutex_);
  while (!pending->is_done && clock_.Now() < deadline.when() && !stop.stop_requested()) {
    pending->done.WaitUntil(lock, clock_, deadline.when(), stop);
  }
  if (pending->is_done) return std::move(pending->outcome);
  pending_.erase(head.call_id);
  if (stop.stop_requested()) {
    return {.kind = RpcOutcome::Kind::kTimedOut, .failure = CancelledError(fmt::format("{}: stopped", head.method))};
  }
  return {.kind = RpcOutcome::Kind::kTimedOut,
          .failure = DeadlineExceededError(fmt::format("{}: no answer in time", head.method))};
}

Status RpcConnection::Send(std::string frame) {
  {
    MutexLock lock(mutex_);
    if (!broken_.ok()) return broken_;
    if (protection_ != nullptr) {
      // Under the lock: wrapped frames carry sequence numbers, so they must be queued in the order of their wrapping.
      wire::RpcSasl wrapped;
      wrapped.set_state(kSaslWrap);
      ASSIGN_OR_RETURN(*wrapped.mutable_token(), protection_->Wrap(frame));
      frame = RpcSaslFrame(wrapped);
    }
    outbox_ += frame;
    if (is_writing_) return Status();
    is_writing_ = true;
  }
  return WriteQueued();
}

Status RpcConnection::WriteQueued() {
  while (true) {
    std::string batch;
    {
      MutexLock lock(mutex_);
      if (outbox_.empty()) {
        is_writing_ = false;
        return Status();
      }
      batch.swap(outbox_);
    }
    const Status written = stream_->Write(batch, Deadline::After(clock_, kWriteLimit));
    if (written.ok()) continue;
    MutexLock lock(mutex_);
    is_writing_ = false;
    return written;
  }
}

void RpcConnection::ReadAnswers(std::stop_token stop) {
  std::string inbox, buffer(kReadBytes, '\0');
  Status failure;
  while (failure.ok()) {
    Result<size_t> got =
        stream_->ReadSome(buffer.data(), buffer.size(), Deadline::After(clock_, options_.ping_interval));
    if (stop.stop_requested()) {
      failure = CancelledError("the connection is being closed");
    } else if (got.ok() && *got == 0) {
      failure = UnavailableError("the NameNode closed the connection");
    } else if (got.ok()) {
      inbox.append(buffer, 0, *got);
      failure = TakeFrames(&inbox);
    } else if (got.status().code() == StatusCode::kDeadlineExceeded) {
      bool is_awaited;
      {
        MutexLock lock(mutex_);
        is_awaited = !pending_.empty();
      }
      // A ping makes TCP find out whether the server is still there; it is not answered.
      if (is_awaited) failure = Send(RpcPingFrame(options_.identity.client_id));
    } else {
      failure = got.status();
    }
  }
  Break(failure);
}

Status RpcConnection::TakeFrames(std::string* inbox) {
  std::string_view rest = *inbox;
  while (rest.size() >= 4) {
    RETURN_IF_ERROR(CheckFirstBytes(rest.substr(0, 4)));
    const uint32_t size = LoadBigEndian32(rest.data());
    if (size > kMaxRpcFrameBytes) return DataLossError(fmt::format("an RPC answer of {} bytes", size));
    if (rest.size() - 4 < size) break;
    RETURN_IF_ERROR(TakeAnswer(rest.substr(4, size)));
    rest.remove_prefix(4 + size);
  }
  inbox->erase(0, inbox->size() - rest.size());
  return Status();
}

Status RpcConnection::TakeAnswer(std::string_view frame) {
  ASSIGN_OR_RETURN(RpcAnswer answer, ParseRpcAnswer(frame));
  if (answer.call_id == kSaslCallId && protection_ != nullptr) {
    wire::RpcSasl wrapped;
    RETURN_IF_ERROR(DelimitedReader(answer.rest).Next("wrapped answer", &wrapped));
    ASSIGN_OR_RETURN(std::string inner, protection_->Unwrap(wrapped.token()));
    return TakeFrames(&inner);
  }
  RpcOutcome outcome;
  if (answer.header.status() == 0) {
    ASSIGN_OR_RETURN(const std::string_view body, DelimitedBody(answer.rest));
    outcome.body = body;
  } else {
    outcome.kind = answer.header.status() == 1 ? RpcOutcome::Kind::kRemoteError : RpcOutcome::Kind::kRefused;
    outcome.exception_class = answer.header.exception_class();
    outcome.message = answer.header.error_message();
  }
  MutexLock lock(mutex_);
  if (outcome.kind == RpcOutcome::Kind::kRefused) {
    // It says why for the whole connection, so every call gets to know.
    for (auto& [id, pending] : pending_) {
      pending->outcome = outcome;
      pending->is_done = true;
      pending->done.NotifyAll();
    }
    pending_.clear();
    return Status();
  }
  const auto found = pending_.find(answer.call_id);
  if (found == pending_.end()) return Status();  // given up by its caller
  found->second->outcome = std::move(outcome);
  found->second->is_done = true;
  found->second->done.NotifyAll();
  pending_.erase(found);
  return Status();
}

void RpcConnection::Break(const Status& why) {
  stream_->Shutdown();
  MutexLock lock(mutex_);
  if (broken_.ok()) broken_ = why;
  for (auto& [id, pending] : pending_) {
    pending->outcome = {.kind = RpcOutcome::Kind::kLost, .failure = why};
    pending->is_done = true;
    pending->done.NotifyAll();
  }
  pending_.clear();
}

}  // namespace paceline::hdfs
