#include "lib/hdfs/block_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "lib/hdfs/checksum.h"
#include "lib/hdfs/packet.h"
#include "lib/hdfs/wire_bytes.h"
#include "lib/hdfs/wire_convert.h"

namespace paceline::hdfs {
namespace {

constexpr uint32_t kMaxChunkBytes = 16 << 20;

}  // namespace

void ReadControl::Cancel() {
  is_cancelled_ = true;
  MutexLock lock(mutex_);
  if (stream_ != nullptr) stream_->Shutdown();  // does not block
}

void ReadControl::Attach(ByteStream* stream) {
  MutexLock lock(mutex_);
  stream_ = stream;
  if (is_cancelled_) stream->Shutdown();
}

void ReadControl::Detach() {
  MutexLock lock(mutex_);
  stream_ = nullptr;
}

// One operation on one connection.
class BlockReadCall {
 public:
  BlockReadCall(DataNodeClient& client, const LocatedBlock& block, ByteStream& stream, ReadControl& control,
                Deadline deadline)
      : client_(client), block_(block), stream_(stream), reader_(stream), control_(control), deadline_(deadline) {
    control_.Attach(&stream);
  }
  ~BlockReadCall() { control_.Detach(); }

  // Whether the DataNode has said anything: a failure before is that of an idle connection, perhaps.
  bool was_answered() const { return was_answered_; }
  bool is_reusable() const { return is_reusable_; }

  Status Run(uint64_t offset, std::span<std::byte> out) {
    begin_ = offset;
    out_ = out;
    RETURN_IF_ERROR(stream_.Write(Request(), client_.Silence(deadline_)));
    RETURN_IF_ERROR(ReadAnswer());
    control_.bytes_read_ = 0;
    for (bool is_last = false; !is_last;) RETURN_IF_ERROR(ReadPacket(&is_last));
    if (done_ != out_.size()) {
      return AbortedError(fmt::format("the DataNode sent {} of {} bytes", done_, out_.size()));
    }
    wire::ClientReadStatus verified;
    verified.set_status(type_ == ChecksumType::kNone ? kDtSuccess : kDtChecksumOk);
    std::string farewell;
    AppendDelimited(verified, &farewell);
    // The bytes are here; a failure now only means that this connection cannot be used again.
    is_reusable_ = stream_.Write(farewell, client_.Silence(deadline_)).ok();
    return Status();
  }

 private:
  std::string Request() const {
    wire::OpReadBlock request;
    wire::BaseHeader& base = *request.mutable_header()->mutable_base();
    *base.mutable_block() = ToWire(block_.block);
    *base.mutable_token() = ToWire(block_.token);
    request.mutable_header()->set_client_name(client_.options().client_name);
    request.set_offset(begin_);
    request.set_length(out_.size());
    request.set_send_checksums(true);
    request.mutable_caching();
    return EncodeOperation(kOpReadBlock, request);
  }

  Status ReadAnswer() {
    std::string bytes;
    RETURN_IF_ERROR(reader_.ReadDelimited(&bytes, kMaxAnswerBytes, client_.Silence(deadline_)));
    was_answered_ = true;
    wire::BlockOpResponse answer;
    if (!ParseMessage(bytes, &answer)) return AbortedError("the DataNode's answer is malformed");
    if (answer.status() == kDtAccessTokenError) return PermissionDeniedError("block token: " + answer.message());
    if (answer.status() != kDtSuccess) {
      return AbortedError(fmt::format("the DataNode refuses with status {}: {}", answer.status(), answer.message()));
    }
    const wire::ReadOpChecksumInfo& info = answer.read_checksum();
    type_ = static_cast<ChecksumType>(info.checksum().type());
    chunk_bytes_ = info.checksum().bytes_per_checksum();
    position_ = info.chunk_offset();
    if (info.checksum().type() > 2)
      return AbortedError(fmt::format("unknown checksum type {}", info.checksum().type()));
    if (chunk_bytes_ == 0 || chunk_bytes_ > kMaxChunkBytes || position_ > begin_ ||
        begin_ - position_ >= chunk_bytes_) {
      return AbortedError("the DataNode's chunks make no sense");
    }
    return Status();
  }

  Status ReadPacket(bool* is_last) {
    char sizes[6];
    RETURN_IF_ERROR(reader_.ReadFull(sizes, sizeof sizes, client_.Silence(deadline_)));
    ASSIGN_OR_RETURN(const PacketSizes size, ParsePacketSizes({sizes, sizeof sizes}));
    header_.resize(size.header_bytes);
    RETURN_IF_ERROR(reader_.ReadFull(header_.data(), header_.size(), client_.Silence(deadline_)));
    ASSIGN_OR_RETURN(const PacketHead head, ParsePacketHead(header_));
    const size_t sums = ChecksumBytes(type_, chunk_bytes_, head.data_bytes);
    if (head.seqno != next_seqno_++ || size.payload_bytes != sums + head.data_bytes ||
        (head.is_last && head.data_bytes != 0) || (head.data_bytes != 0 && head.offset != position_)) {
      return AbortedError("the DataNode's packets do not follow each other");
    }
    *is_last = head.is_last;
    sums_.resize(sums);
    RETURN_IF_ERROR(reader_.ReadFull(sums_.data(), sums, client_.Silence(deadline_)));
    return head.data_bytes == 0 ? Status() : ReadData(head.data_bytes);
  }

  // Straight into the caller's buffer when the packet lies inside of the range, by way of a buffer of ours when it
  // sticks out at an end, which only the first and the last packet do.
  Status ReadData(size_t size) {
    const uint64_t end = position_ + size;
    const bool fits = position_ >= begin_ && end <= begin_ + out_.size();
    char* into = nullptr;
    if (fits) {
      into = reinterpret_cast<char*>(out_.data()) + (position_ - begin_);
    } else {
      surplus_.resize(size);
      into = surplus_.data();
    }
    RETURN_IF_ERROR(reader_.ReadFull(into, size, client_.Silence(deadline_)));
    if (const auto bad = FirstBadChunk(type_, chunk_bytes_, {into, size}, sums_)) {
      return DataLossError(
          fmt::format("block {} at {}: the bytes do not fit their checksum", block_.block.block_id, position_ + *bad));
    }
    const uint64_t from = std::max(position_, begin_), to = std::min<uint64_t>(end, begin_ + out_.size());
    if (from < to) {
      if (!fits) std::memcpy(out_.data() + (from - begin_), into + (from - position_), to - from);
      done_ += to - from;
      control_.bytes_read_ = done_;
    }
    position_ = end;
    return Status();
  }

  DataNodeClient& client_;
  const LocatedBlock& block_;
  ByteStream& stream_;
  BufferedReader reader_;
  ReadControl& control_;
  const Deadline deadline_;

  uint64_t begin_ = 0;     // of the range, in the block
  uint64_t position_ = 0;  // of the next packet, in the block
  std::span<std::byte> out_;
  size_t done_ = 0;
  ChecksumType type_ = ChecksumType::kNone;
  uint32_t chunk_bytes_ = 0;
  int64_t next_seqno_ = 0;
  std::string header_, sums_, surplus_;
  bool was_answered_ = false, is_reusable_ = false;
};

Status ReadBlockRange(DataNodeClient& client, const DataNode& node, const LocatedBlock& block, uint64_t offset,
                      std::span<std::byte> out, ReadControl& control, Deadline deadline) {
  while (true) {
    if (control.is_cancelled()) return CancelledError("read stopped");
    Result<DataNodeClient::Connection> connection =
        client.Connect(node, block, DataNodeClient::Reuse::kAllowed, deadline);
    if (!connection.ok()) return connection.status();
    Status status;
    bool is_reusable = false, may_be_stale = false;
    {
      BlockReadCall call(client, block, *connection->stream, control, deadline);
      status = call.Run(offset, out);
      is_reusable = call.is_reusable();
      may_be_stale = !connection->is_fresh && !call.was_answered() && status.code() == StatusCode::kUnavailable;
    }
    if (is_reusable && !control.is_cancelled()) client.GiveBack(node, std::move(connection->stream));
    if (status.ok()) return status;
    if (control.is_cancelled()) return CancelledError("read stopped");
    if (!may_be_stale) return status.Annotate("DataNode " + node.Key());
  }
}

}  // namespace paceline::hdfs
