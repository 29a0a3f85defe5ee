#include "lib/hdfs/block_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/hdfs/packet.h"
#include "lib/hdfs/wire_bytes.h"
#include "lib/hdfs/wire_convert.h"

namespace paceline::hdfs {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kMaxUnackedBytes = 8 << 20;
constexpr Duration kMaxTick = 250ms;
constexpr uint32_t kDisk = 1;
constexpr Duration kPatiencePerNode = 5s;

wire::OpWriteBlock SetupRequest(const DataNodeClient& client, const PipelineSetup& setup) {
  const LocatedBlock& block = setup.block;
  wire::OpWriteBlock request;
  wire::BaseHeader& base = *request.mutable_header()->mutable_base();
  *base.mutable_block() = ToWire(block.block);
  *base.mutable_token() = ToWire(block.token);
  request.mutable_header()->set_client_name(client.options().client_name);
  request.set_stage(static_cast<uint32_t>(setup.stage));
  request.set_pipeline_size(static_cast<uint32_t>(block.nodes.size()));
  request.set_min_bytes_received(setup.min_received);
  request.set_max_bytes_received(setup.max_received);
  request.set_latest_generation_stamp(setup.new_stamp);
  request.mutable_checksum()->set_type(static_cast<uint32_t>(setup.packets.checksum));
  request.mutable_checksum()->set_bytes_per_checksum(setup.packets.chunk_bytes);
  request.mutable_caching();
  request.set_storage_type(block.storage_types.empty() ? kDisk : block.storage_types[0]);
  request.set_allow_lazy_persist(false);
  request.set_pinning(false);
  request.add_target_pinnings(false);
  if (!block.storage_ids.empty()) request.set_storage_id(block.storage_ids[0]);
  for (size_t i = 1; i < block.nodes.size(); ++i) {
    *request.add_targets() = ToWire(block.nodes[i]);
    request.add_target_storage_types(i < block.storage_types.size() ? block.storage_types[i] : kDisk);
    request.add_target_pinnings(false);
    if (i < block.storage_ids.size()) request.add_target_storage_ids(block.storage_ids[i]);
  }
  return request;
}

// "10.0.0.1:9866" of the answer, perhaps with a host name in front: "host/10.0.0.1:9866".
std::vector<size_t> BadLink(const LocatedBlock& block, std::string_view link) {
  for (size_t i = 0; i < block.nodes.size(); ++i) {
    const DataNode& node = block.nodes[i];
    const std::string by_name = node.host_name + ":" + std::to_string(node.transfer_port);
    if (!link.empty() && (link.ends_with(node.Key()) || link.ends_with(by_name))) return {i};
  }
  return {};
}

// Asks the first node to set the pipeline up and waits for its answer, which comes when all nodes are ready.
PipelineFailure SetUp(DataNodeClient& client, const PipelineSetup& setup, ByteStream& stream, Deadline deadline) {
  const size_t nodes = setup.block.nodes.size();
  const std::string first = setup.block.nodes.front().Key();
  Status status = stream.Write(EncodeOperation(kOpWriteBlock, SetupRequest(client, setup)), client.Silence(deadline));
  const Duration patience = client.options().silence_limit + kPatiencePerNode * static_cast<int>(nodes - 1);
  const Deadline limit = deadline.Min(Deadline::After(client.clock(), patience));
  // Byte for byte, not through a larger buffer: what follows belongs to the thread that takes acknowledgements.
  BufferedReader reader(stream, 1);
  while (status.ok()) {
    status = reader.AwaitBytes(limit.Min(Deadline::After(client.clock(), client.options().probe_after)));
    if (status.code() != StatusCode::kDeadlineExceeded) break;
    std::vector<size_t> hung = client.SilentNodes(setup.block);
    if (!hung.empty()) return {status, std::move(hung)};
    if (!limit.Expired(client.clock())) status = Status();
  }
  std::string bytes;
  if (status.ok()) status = reader.ReadDelimited(&bytes, kMaxAnswerBytes, limit);
  // Silence may be that of any node behind the first one.
  if (!status.ok() && (status.code() == StatusCode::kUnavailable || nodes == 1)) return {status, {0}};
  if (!status.ok()) return {status, {}};
  wire::BlockOpResponse answer;
  if (!ParseMessage(bytes, &answer)) return {AbortedError("malformed answer of " + first), {0}};
  if (answer.status() == kDtAccessTokenError) return {PermissionDeniedError("block token: " + answer.message()), {}};
  if (answer.status() == kDtSuccess) return {};
  std::vector<size_t> bad = BadLink(setup.block, answer.first_bad_link());
  if (bad.empty()) bad = {0};
  return {AbortedError(fmt::format("{} refuses with status {}: {} {}", first, answer.status(), answer.first_bad_link(),
                                   answer.message())),
          std::move(bad)};
}

}  // namespace

std::unique_ptr<BlockWriter> BlockWriter::Open(DataNodeClient& client, const PipelineSetup& setup, Deadline deadline,
                                               PipelineFailure* failure) {
  CHECK(!setup.block.nodes.empty());
  const DataNode& first = setup.block.nodes.front();
  Result<DataNodeClient::Connection> connection =
      client.Connect(first, setup.block, DataNodeClient::Reuse::kForbidden,
                     deadline.Min(Deadline::After(client.clock(), kWriteConnectLimit)));
  *failure =
      connection.ok() ? SetUp(client, setup, *connection->stream, deadline) : PipelineFailure{connection.status(), {0}};
  if (!failure->status.ok()) {
    failure->status = failure->status.Annotate(fmt::format("pipeline of block {}", setup.block.block.block_id));
    return nullptr;
  }
  std::unique_ptr<BlockWriter> writer(new BlockWriter(client, setup, std::move(connection->stream)));
  if (setup.stage == PipelineStage::kCloseRecovery) {
    writer->is_finished_ = true;
    return writer;
  }
  BlockWriter* self = writer.get();
  writer->acks_ = std::jthread([self](std::stop_token stop) { self->TakeAcks(std::move(stop)); });
  return writer;
}

BlockWriter::BlockWriter(DataNodeClient& client, const PipelineSetup& setup, std::unique_ptr<ByteStream> stream)
    : client_(client),
      block_(setup.block),
      stream_(std::move(stream)),
      cutter_(setup.packets, setup.max_received),
      acked_(setup.min_received),
      last_progress_(client.clock().Now()),
      last_sent_(last_progress_) {}

BlockWriter::~BlockWriter() {
  acks_.request_stop();
  stream_->Shutdown();
}

Status BlockWriter::Write(std::string_view data, Deadline deadline) {
  while (!data.empty()) {
    if (std::optional<OutgoingPacket> packet = cutter_.Add(&data)) {
      RETURN_IF_ERROR(Send(std::make_shared<const OutgoingPacket>(*std::move(packet)), deadline));
    }
  }
  return failure().status;
}

Status BlockWriter::Resend(const std::vector<std::shared_ptr<const OutgoingPacket>>& packets, Deadline deadline) {
  Status status;
  // Also those behind a failure: Send keeps what it cannot send.
  for (const auto& packet : packets) {
    const Status sent = Send(packet, deadline);
    if (status.ok()) status = sent;
  }
  return status;
}

Status BlockWriter::Send(std::shared_ptr<const OutgoingPacket> packet, Deadline deadline) {
  const uint64_t size = packet->data.size();
  PacketHead head{.offset = packet->offset,
                  .is_last = packet->is_last,
                  .data_bytes = static_cast<uint32_t>(size),
                  .is_sync = packet->is_sync};
  {
    MutexLock lock(mutex_);
    bool is_late = false;
    while (failure_.status.ok() && !is_late &&
           (is_sending_ || (unacked_bytes_ > 0 && unacked_bytes_ + size > kMaxUnackedBytes))) {
      is_late = client_.clock().Now() >= deadline.when();
      if (!is_late) changed_.WaitUntil(lock, client_.clock(), deadline.when());
    }
    head.seqno = next_seqno_++;
    if (unacked_.empty()) last_progress_ = client_.clock().Now();
    // Before it is sent, and whether or not it can be: its bytes are nowhere else, and the next pipeline needs them.
    unacked_.push_back({head.seqno, packet});
    unacked_bytes_ += size;
    if (!failure_.status.ok()) return failure_.status;
    if (is_late) return DeadlineExceededError("the pipeline takes no bytes");
    is_sending_ = true;
  }
  const Status status =
      stream_->Write(EncodePacketStart(head, packet->checksums), packet->data, client_.Silence(Deadline::Infinite()));
  {
    MutexLock lock(mutex_);
    is_sending_ = false;
    last_sent_ = client_.clock().Now();
    changed_.NotifyAll();
  }
  // The acknowledgements that are on their way may know better which node it was.
  if (!status.ok()) Fail(status, {});
  return status;
}

Status BlockWriter::Flush(Durability durability, Deadline deadline) {
  std::optional<OutgoingPacket> packet = cutter_.Flush();
  if (!packet.has_value() && durability == Durability::kDisk) {
    // Nothing new to send, but the disks must be waited for: an empty packet carries the wish.
    packet.emplace();
    packet->offset = cutter_.position();
  }
  if (packet.has_value()) {
    packet->is_sync = durability == Durability::kDisk;
    RETURN_IF_ERROR(Send(std::make_shared<const OutgoingPacket>(*std::move(packet)), deadline));
  }
  return AwaitAcknowledged(deadline);
}

Status BlockWriter::AwaitAcknowledged(Deadline deadline) {
  MutexLock lock(mutex_);
  while (failure_.status.ok() && !unacked_.empty()) {
    if (client_.clock().Now() >= deadline.when()) return DeadlineExceededError("bytes are not acknowledged in time");
    changed_.WaitUntil(lock, client_.clock(), deadline.when());
  }
  return failure_.status;
}

Status BlockWriter::Finish(Deadline deadline) {
  if (is_finished_) return Status();
  RETURN_IF_ERROR(Flush(Durability::kMemory, deadline));
  OutgoingPacket last;
  last.offset = cutter_.position();
  last.is_last = true;
  RETURN_IF_ERROR(Send(std::make_shared<const OutgoingPacket>(std::move(last)), deadline));
  RETURN_IF_ERROR(AwaitAcknowledged(deadline));
  is_finished_ = true;
  return Status();
}

uint64_t BlockWriter::acknowledged() const {
  MutexLock lock(mutex_);
  return acked_;
}

PipelineFailure BlockWriter::failure() const {
  MutexLock lock(mutex_);
  return failure_;
}

std::vector<std::shared_ptr<const OutgoingPacket>> BlockWriter::TakeUnacknowledged() {
  std::vector<std::shared_ptr<const OutgoingPacket>> packets;
  {
    MutexLock lock(mutex_);
    for (Sent& sent : unacked_) {
      if (!sent.packet->is_last) packets.push_back(std::move(sent.packet));
    }
    unacked_.clear();
  }
  if (std::optional<OutgoingPacket> rest = cutter_.Flush()) {
    packets.push_back(std::make_shared<const OutgoingPacket>(*std::move(rest)));
  }
  return packets;
}

void BlockWriter::TakeAcks(std::stop_token stop) {
  BufferedReader reader(*stream_, 512);
  Status status;
  while (status.ok() && !stop.stop_requested()) {
    {
      MutexLock lock(mutex_);
      if (has_all_acks_) return;
    }
    status = TakeAck(reader);
  }
  if (!stop.stop_requested()) Fail(status, {});
}

Status BlockWriter::TakeAck(BufferedReader& reader) {
  // One byte decides whether there is an acknowledgement: it is waited for in short steps, the rest follows at once.
  if (!reader.has_buffered()) {
    const Status some =
        reader.AwaitBytes(Deadline::After(client_.clock(), std::min(kMaxTick, client_.options().probe_after)));
    if (some.code() == StatusCode::kDeadlineExceeded) return OnSilence(reader);
    RETURN_IF_ERROR(some);
  }
  std::string bytes;
  RETURN_IF_ERROR(reader.ReadDelimited(&bytes, kMaxAnswerBytes, client_.Silence(Deadline::Infinite())));
  wire::PipelineAck ack;
  if (!ParseMessage(bytes, &ack)) return AbortedError("a malformed acknowledgement");
  if (const int bad = FirstFailedNode(ack); bad != -1) {
    const Status status = AbortedError(fmt::format("node {} of the pipeline has failed", bad == -2 ? 0 : bad));
    Fail(status, {static_cast<size_t>(std::max(bad, 0))});
    return status;
  }
  MutexLock lock(mutex_);
  last_progress_ = client_.clock().Now();
  if (ack.seqno() == kHeartbeatSeqno) return Status();
  if (unacked_.empty() || unacked_.front().seqno != ack.seqno()) {
    return AbortedError(fmt::format("acknowledgement {} is out of order", ack.seqno()));
  }
  const Sent& sent = unacked_.front();
  acked_ = std::max(acked_, sent.packet->end());
  has_all_acks_ = sent.packet->is_last;
  unacked_bytes_ -= sent.packet->data.size();
  unacked_.pop_front();
  changed_.NotifyAll();
  return Status();
}

BlockWriter::SilenceStep BlockWriter::NextSilenceStep() {
  const TimePoint now = client_.clock().Now();
  if (!unacked_.empty()) {
    if (now - last_progress_ >= client_.options().silence_limit) return SilenceStep::kGiveUp;
    if (now - std::max(last_progress_, last_probe_) < client_.options().probe_after) return SilenceStep::kWait;
    last_probe_ = now;
    return SilenceStep::kProbe;
  }
  if (is_sending_ || now - last_sent_ < client_.options().heartbeat_interval) return SilenceStep::kWait;
  is_sending_ = true;
  last_sent_ = now;
  return SilenceStep::kHeartbeat;
}

Status BlockWriter::OnSilence(BufferedReader& reader) {
  SilenceStep step;
  {
    MutexLock lock(mutex_);
    step = NextSilenceStep();
  }
  if (step == SilenceStep::kGiveUp) return DeadlineExceededError("no acknowledgement for too long");
  if (step == SilenceStep::kProbe) {
    std::vector<size_t> hung = client_.SilentNodes(block_);
    // An acknowledgement that came meanwhile is worth more than what the probe says: it is of all nodes.
    if (hung.empty() || reader.AwaitBytes(Deadline::After(client_.clock(), 0s)).ok()) return Status();
    const Status status = DeadlineExceededError("a DataNode of the pipeline does not answer");
    Fail(status, std::move(hung));
    return status;
  }
  if (step == SilenceStep::kWait) return Status();
  const PacketHead heartbeat{.seqno = kHeartbeatSeqno};
  const Status status = stream_->Write(EncodePacketStart(heartbeat, ""), client_.Silence(Deadline::Infinite()));
  MutexLock lock(mutex_);
  is_sending_ = false;
  changed_.NotifyAll();
  return status;
}

void BlockWriter::Fail(const Status& status, std::vector<size_t> bad_nodes) {
  {
    MutexLock lock(mutex_);
    if (failure_.status.ok()) failure_.status = status;
    // A report that names the node is worth more than an earlier one that only saw the connection break.
    if (failure_.bad_nodes.empty()) failure_.bad_nodes = std::move(bad_nodes);
    changed_.NotifyAll();
  }
  // Afterwards, so that whoever finds the connection cut does not say that this was the reason.
  stream_->Shutdown();
}

}  // namespace paceline::hdfs
