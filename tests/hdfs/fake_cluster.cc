#include "tests/hdfs/fake_cluster.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/hdfs/checksum.h"
#include "lib/hdfs/packet.h"
#include "lib/hdfs/proto/namenode.pb.h"
#include "lib/hdfs/wire_bytes.h"
#include "lib/hdfs/wire_convert.h"

namespace paceline::hdfs {
namespace {

constexpr uint32_t kChunk = 512;
constexpr size_t kReadPacket = 64 << 10;
constexpr uint64_t kStamp = 1;

// A message with its length in front, read from a connection. False at the end.
bool ReadMessage(fakes::ScriptedPeer::Link& link, google::protobuf::MessageLite* message) {
  size_t size = 0;
  for (int shift = 0;; shift += 7) {
    const std::optional<std::string> byte = link.Read(1);
    if (!byte.has_value()) return false;
    size |= static_cast<size_t>(byte->front() & 0x7f) << shift;
    if ((byte->front() & 0x80) == 0) break;
  }
  const std::optional<std::string> bytes = link.Read(size);
  return bytes.has_value() && ParseMessage(*bytes, message);
}

std::string Delimited(const google::protobuf::MessageLite& message) {
  std::string out;
  AppendDelimited(message, &out);
  return out;
}

std::string Exception(const std::string& name) { return "java.io." + name; }

}  // namespace

FakeCluster::FakeCluster(size_t datanodes) {
  for (size_t i = 0; i < datanodes; ++i) {
    auto node = std::make_unique<Node>();
    Node* self = node.get();
    node->peer = std::make_unique<fakes::ScriptedPeer>(
        [this, self](fakes::ScriptedPeer::Link& link) { ServeData(*self, link); });
    node->info.ip = "127.0.0.1";
    node->info.host_name = "localhost";
    node->info.uuid = fmt::format("uuid-{}", i);
    node->info.transfer_port = node->peer->port();
    nodes_.push_back(std::move(node));
  }
  namenode_ = std::make_unique<ScriptedNameNode>([this](const SeenCall& call) { return HandleCall(call); });
}

FakeCluster::~FakeCluster() {
  namenode_.reset();
  for (const auto& node : nodes_) node->peer.reset();
}

RpcClient::Options FakeCluster::RpcOptions() const {
  RpcClient::Options options;
  options.service.namenodes.push_back({"", "127.0.0.1", namenode_->port()});
  options.connection.identity = {MakeRpcClientId(), "alice"};
  return options;
}

std::optional<std::string> FakeCluster::Contents(const std::string& path) const {
  MutexLock lock(mutex_);
  const auto found = files_.find(path);
  if (found == files_.end()) return std::nullopt;
  std::string bytes;
  for (const uint64_t block : found->second.blocks) bytes += blocks_.at(block);
  return bytes;
}

std::vector<std::string> FakeCluster::Paths() const {
  MutexLock lock(mutex_);
  std::vector<std::string> paths;
  for (const auto& [path, file] : files_) paths.push_back(path);
  return paths;
}

int FakeCluster::Calls(const std::string& method) const {
  MutexLock lock(mutex_);
  const auto found = calls_.find(method);
  return found == calls_.end() ? 0 : found->second;
}

void FakeCluster::Refuse(const std::string& method, const std::string& exception) {
  MutexLock lock(mutex_);
  refused_[method] = exception;
}

LocatedBlock FakeCluster::PlantBlock(const std::string& bytes, uint64_t offset, const std::vector<size_t>& on) {
  LocatedBlock block;
  block.offset = offset;
  for (const size_t index : on) block.nodes.push_back(node(index));
  MutexLock lock(mutex_);
  block.block = {"BP-1", next_id_++, kStamp, bytes.size()};
  blocks_[block.block.block_id] = bytes;
  return block;
}

std::optional<std::string> FakeCluster::HandleCall(const SeenCall& call) {
  MutexLock lock(mutex_);
  ++calls_[call.method];
  const auto refused = refused_.find(call.method);
  if (refused != refused_.end()) return Failure(call, refused->second);
  const Result<std::string> body = Answer(call);
  return body.ok() ? Success(call, *body) : Failure(call, Exception(body.status().message()));
}

// The message of a failure is the exception's name.
Result<std::string> FakeCluster::Answer(const SeenCall& call) {
  if (call.method == "create") {
    wire::CreateRequest request;
    wire::CreateResponse response;
    if (!ParseMessage(call.body, &request)) return InternalError("IOException");
    files_[request.src()] = {.blocks = {}, .id = next_id_++};
    wire::HdfsFileStatus& status = *response.mutable_status();
    status.set_file_type(2);
    status.set_path("");
    status.set_length(0);
    status.mutable_permission()->set_perm(0644);
    status.set_owner("alice");
    status.set_group("alice");
    status.set_modification_time(0);
    status.set_access_time(0);
    status.set_block_replication(request.replication());
    status.set_block_size(request.block_size());
    status.set_file_id(files_[request.src()].id);
    return response.SerializeAsString();
  }
  if (call.method == "addBlock") return AnswerAddBlock(call.body);
  if (call.method == "concat") return AnswerConcat(call.body);
  if (call.method == "abandonBlock") {
    wire::AbandonBlockRequest request;
    if (!ParseMessage(call.body, &request)) return InternalError("IOException");
    std::vector<uint64_t>& blocks = files_[request.src()].blocks;
    blocks.erase(std::remove(blocks.begin(), blocks.end(), request.block().block_id()), blocks.end());
    return std::string();
  }
  if (call.method == "complete") {
    wire::CompleteResponse response;
    response.set_result(true);
    return response.SerializeAsString();
  }
  if (call.method == "rename2") {
    wire::Rename2Request request;
    if (!ParseMessage(call.body, &request) || files_.count(request.src()) == 0) {
      return InternalError("FileNotFoundException");
    }
    files_[request.dst()] = files_[request.src()];
    files_.erase(request.src());
    return std::string();
  }
  if (call.method == "delete") {
    wire::DeleteRequest request;
    wire::DeleteResponse response;
    if (!ParseMessage(call.body, &request)) return InternalError("IOException");
    response.set_result(files_.erase(request.src()) > 0);
    return response.SerializeAsString();
  }
  if (call.method == "getDatanodeReport") {
    wire::GetDatanodeReportResponse response;
    for (const auto& node : nodes_) *response.add_datanodes() = ToWire(node->info);
    return response.SerializeAsString();
  }
  if (call.method == "getBlockLocations") return InternalError("FileNotFoundException");
  return std::string();  // reportBadBlocks, renewLease: answers without content
}

Result<std::string> FakeCluster::AnswerAddBlock(const std::string& body) {
  wire::AddBlockRequest request;
  wire::AddBlockResponse response;
  if (!ParseMessage(body, &request)) return InternalError("IOException");
  const auto file = files_.find(request.src());
  if (file == files_.end()) return InternalError("FileNotFoundException");
  LocatedBlock block;
  block.block = {"BP-1", next_id_++, kStamp, 0};
  for (size_t i = 0; i < nodes_.size() && block.nodes.size() < 2; ++i) {
    const DataNode& candidate = nodes_[(next_node_ + i) % nodes_.size()]->info;
    const bool is_excluded =
        std::any_of(request.exclude_nodes().begin(), request.exclude_nodes().end(),
                    [&](const wire::DatanodeInfo& node) { return node.id().xfer_port() == candidate.transfer_port; });
    if (!is_excluded) block.nodes.push_back(candidate);
  }
  ++next_node_;
  if (block.nodes.empty()) return InternalError("IOException");
  file->second.blocks.push_back(block.block.block_id);
  *response.mutable_block() = ToWire(block);
  return response.SerializeAsString();
}

Result<std::string> FakeCluster::AnswerConcat(const std::string& body) {
  wire::ConcatRequest request;
  if (!ParseMessage(body, &request)) return InternalError("IOException");
  std::vector<uint64_t>& target = files_[request.target()].blocks;
  for (const std::string& source : request.sources()) {
    const auto found = files_.find(source);
    if (found == files_.end()) return InternalError("FileNotFoundException");
    target.insert(target.end(), found->second.blocks.begin(), found->second.blocks.end());
    files_.erase(found);
  }
  return std::string();
}

void FakeCluster::ServeData(Node& node, fakes::ScriptedPeer::Link& link) {
  while (true) {
    const std::optional<std::string> start = link.Read(3);
    if (!start.has_value()) return;
    if (node.fault == Fault::kHangs) return link.AwaitEnd();
    wire::BlockOpResponse refusal;
    refusal.set_status(kDtError);
    refusal.set_message("the test says so");
    const uint8_t operation = static_cast<uint8_t>(start->back());
    if (operation == kOpWriteBlock) {
      wire::OpWriteBlock request;
      if (!ReadMessage(link, &request)) return;
      ++node.operations;
      if (node.fault == Fault::kRefuses) return void(link.Write(Delimited(refusal)));
      return ServeWrite(node, request, link);
    }
    wire::OpReadBlock request;
    if (operation != kOpReadBlock || !ReadMessage(link, &request)) return;
    if (request.length() == 0 || node.fault == Fault::kRefuses) return void(link.Write(Delimited(refusal)));
    ++node.operations;
    if (node.fault == Fault::kHangsInRead) return link.AwaitEnd();
    ServeRead(node, request, link);
    wire::ClientReadStatus farewell;
    if (!ReadMessage(link, &farewell)) return;
  }
}

void FakeCluster::ServeWrite(Node& node, const wire::OpWriteBlock& request, fakes::ScriptedPeer::Link& link) {
  wire::BlockOpResponse ready;
  ready.set_status(kDtSuccess);
  ready.set_first_bad_link("");
  if (!link.Write(Delimited(ready))) return;
  std::string bytes;
  int64_t expected = 0;
  while (true) {
    const std::optional<std::string> sizes = link.Read(6);
    if (!sizes.has_value()) return;
    const Result<PacketSizes> size = ParsePacketSizes(*sizes);
    if (!size.ok()) return;
    const std::optional<std::string> header = link.Read(size->header_bytes), payload = link.Read(size->payload_bytes);
    if (!header.has_value() || !payload.has_value()) return;
    const Result<PacketHead> head = ParsePacketHead(*header);
    if (!head.ok()) return;
    const std::string data = payload->substr(payload->size() - head->data_bytes);
    std::string sums;
    AppendChecksums(ChecksumType::kCrc32c, kChunk, data, &sums);
    // A client that sends wrong sums, numbers or offsets is cut off, as by the real one.
    if (sums != payload->substr(0, payload->size() - data.size())) return;
    if (node.fault == Fault::kCutsInWrite) return;
    if (head->seqno != kHeartbeatSeqno && (head->seqno != expected++ || head->offset > bytes.size())) return;
    if (head->seqno != kHeartbeatSeqno) bytes.replace(head->offset, std::string::npos, data);
    if (head->is_last) {
      MutexLock lock(mutex_);
      blocks_[request.header().base().block().block_id()] = bytes;
    }
    if (node.fault == Fault::kSilentInWrite) continue;
    wire::PipelineAck ack;
    ack.set_seqno(head->seqno);
    for (uint32_t i = 0; i < request.pipeline_size(); ++i) {
      ack.add_reply(node.fault == Fault::kBlamesSecond && i == 1 ? kDtError : kDtSuccess);
    }
    if (!link.Write(Delimited(ack)) || head->is_last) return;
  }
}

void FakeCluster::ServeRead(Node& node, const wire::OpReadBlock& request, fakes::ScriptedPeer::Link& link) {
  std::string block;
  {
    MutexLock lock(mutex_);
    block = blocks_[request.header().base().block().block_id()];
  }
  const uint64_t start = request.offset() / kChunk * kChunk;
  const uint64_t end =
      std::min<uint64_t>((request.offset() + request.length() + kChunk - 1) / kChunk * kChunk, block.size());
  wire::BlockOpResponse response;
  response.set_status(kDtSuccess);
  response.mutable_read_checksum()->mutable_checksum()->set_type(static_cast<uint32_t>(ChecksumType::kCrc32c));
  response.mutable_read_checksum()->mutable_checksum()->set_bytes_per_checksum(kChunk);
  response.mutable_read_checksum()->set_chunk_offset(start);
  std::string out = Delimited(response);
  int64_t seqno = 0;
  for (uint64_t at = start; at < end; ++seqno) {
    std::string data = block.substr(at, std::min<uint64_t>(kReadPacket, end - at)), sums;
    AppendChecksums(ChecksumType::kCrc32c, kChunk, data, &sums);
    const PacketHead head{.offset = at, .seqno = seqno, .data_bytes = static_cast<uint32_t>(data.size())};
    at += data.size();
    if (node.fault == Fault::kCorrupts) data.front() = static_cast<char>(data.front() ^ 1);
    out += EncodePacketStart(head, sums) + data;
  }
  link.Write(out + EncodePacketStart({.offset = end, .seqno = seqno, .is_last = true}, ""));
}

}  // namespace paceline::hdfs
