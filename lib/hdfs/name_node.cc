#include "lib/hdfs/name_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "lib/hdfs/posix_error.h"
#include "lib/hdfs/wire_bytes.h"
#include "lib/hdfs/wire_convert.h"

namespace paceline::hdfs {
namespace {

using namespace std::chrono_literals;

constexpr uint32_t kCreate = 1, kOverwrite = 2, kAppend = 4, kNewBlock = 0x20, kShouldReplicate = 0x80;
constexpr uint32_t kIgnoreClientLocality = 2;  // blocks of a writer on a DataNode's host spread like everybody's
constexpr uint32_t kLiveDataNodes = 2;
constexpr uint64_t kLeaveTime = UINT64_MAX;  // -1
constexpr Duration kFirstCompleteWait = 5ms, kLongestCompleteWait = 400ms;
constexpr Duration kFirstReplicationWait = 20ms, kLongestReplicationWait = 2s;

wire::FsPermission Permission(FileMode mode) {
  wire::FsPermission permission;
  permission.set_perm(mode & 01777);
  return permission;
}

uint64_t ToMilliseconds(std::optional<WallTime> time) {
  if (!time.has_value()) return kLeaveTime;
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(time->time_since_epoch()).count();
  return static_cast<uint64_t>(std::max<int64_t>(ms, 0));
}

OpenFile ToOpenFile(const std::string& path, const wire::HdfsFileStatus& status) {
  const FileStatus ours = FromWire(status);
  return {.path = path,
          .file_id = ours.file_id,
          .length_bytes = ours.length_bytes,
          .block_size_bytes = ours.block_size_bytes,
          .replication = ours.replication,
          .is_erasure_coded = ours.is_erasure_coded,
          .is_encrypted = ours.is_encrypted};
}

}  // namespace

NameNode::NameNode(RpcClient::Options options, std::string client_name, const Clock& clock)
    : clock_(clock), client_name_(std::move(client_name)), rpc_(std::move(options), clock) {}

Status NameNode::Call(std::string_view method, const google::protobuf::MessageLite& request,
                      google::protobuf::MessageLite* response, const std::string& path, Deadline deadline,
                      std::stop_token stop) {
  std::string body;
  // False would mean a required field that we left out, or a string that is no UTF-8 in a way that protobuf refuses.
  if (!request.SerializeToString(&body)) return InternalError(fmt::format("{}: incomplete request", method));
  const std::string what = path.empty() ? std::string(method) : fmt::format("{} {}", method, path);
  ASSIGN_OR_RETURN(const std::string answer, rpc_.Call(method, body, what, deadline, std::move(stop)));
  if (!ParseMessage(answer, response)) return DataLossError(what + ": the answer is malformed");
  return Status();
}

Result<std::optional<FileStatus>> NameNode::GetFileInfo(const std::string& path, Deadline deadline) {
  wire::GetFileInfoRequest request;
  wire::GetFileInfoResponse response;
  request.set_src(path);
  RETURN_IF_ERROR(Call("getFileInfo", request, &response, path, deadline));
  if (!response.has_status()) return std::optional<FileStatus>();
  FileStatus status = FromWire(response.status());
  status.name = path.substr(path.rfind('/') + 1);
  return std::optional<FileStatus>(std::move(status));
}

Result<ListPage> NameNode::GetListing(const std::string& path, const std::string& start_after, Deadline deadline) {
  wire::GetListingRequest request;
  wire::GetListingResponse response;
  request.set_src(path);
  request.set_start_after(start_after);
  request.set_need_location(false);
  RETURN_IF_ERROR(Call("getListing", request, &response, path, deadline));
  if (!response.has_listing()) return PosixError(ENOENT, "getListing " + path);
  ListPage page;
  for (const wire::HdfsFileStatus& entry : response.listing().partial_listing())
    page.entries.push_back(FromWire(entry));
  page.has_more = response.listing().remaining_entries() > 0;
  return page;
}

Result<LocatedBlocks> NameNode::GetBlockLocations(const std::string& path, ByteRange range, Deadline deadline) {
  wire::GetBlockLocationsRequest request;
  wire::GetBlockLocationsResponse response;
  request.set_src(path);
  request.set_offset(range.offset);
  request.set_length(std::min<uint64_t>(range.length, INT64_MAX - range.offset));
  RETURN_IF_ERROR(Call("getBlockLocations", request, &response, path, deadline));
  if (!response.has_locations()) return PosixError(ENOENT, "getBlockLocations " + path);
  return FromWire(response.locations());
}

Result<ServerDefaults> NameNode::GetServerDefaults(Deadline deadline) {
  wire::GetServerDefaultsResponse response;
  RETURN_IF_ERROR(Call("getServerDefaults", wire::GetServerDefaultsRequest(), &response, "", deadline));
  const wire::FsServerDefaults& defaults = response.defaults();
  return ServerDefaults{.block_size_bytes = defaults.block_size(),
                        .bytes_per_checksum = defaults.bytes_per_checksum(),
                        .replication = defaults.replication(),
                        .checksum = static_cast<ChecksumType>(defaults.checksum_type()),
                        .encrypts_data_transfer = defaults.encrypt_data_transfer()};
}

Result<Capacity> NameNode::GetFsStats(Deadline deadline) {
  wire::GetFsStatsResponse response;
  RETURN_IF_ERROR(Call("getFsStats", wire::GetFsStatusRequest(), &response, "", deadline));
  return Capacity{
      .total_bytes = response.capacity(), .used_bytes = response.used(), .free_bytes = response.remaining()};
}

Result<std::vector<DataNode>> NameNode::LiveDataNodes(Deadline deadline) {
  wire::GetDatanodeReportRequest request;
  wire::GetDatanodeReportResponse response;
  request.set_type(kLiveDataNodes);
  RETURN_IF_ERROR(Call("getDatanodeReport", request, &response, "", deadline));
  std::vector<DataNode> nodes;
  for (const wire::DatanodeInfo& node : response.datanodes()) nodes.push_back(FromWire(node));
  return nodes;
}

Result<OpenFile> NameNode::Create(const std::string& path, const CreateSettings& settings, Deadline deadline) {
  wire::CreateRequest request;
  wire::CreateResponse response;
  request.set_src(path);
  *request.mutable_masked() = Permission(settings.permission);
  request.set_client_name(client_name_);
  request.set_create_flag(kCreate | kShouldReplicate | (settings.mode == CreateMode::kOverwrite ? kOverwrite : 0));
  request.set_create_parent(false);
  request.set_replication(settings.replication);
  request.set_block_size(settings.block_size_bytes);
  *request.mutable_unmasked() = Permission(settings.permission);
  RETURN_IF_ERROR(Call("create", request, &response, path, deadline));
  if (!response.has_status()) return InternalError("create " + path + ": the server is too old, it gives no file id");
  return ToOpenFile(path, response.status());
}

Result<NameNode::Appended> NameNode::Append(const std::string& path, AppendStart start, Deadline deadline) {
  wire::AppendRequest request;
  wire::AppendResponse response;
  request.set_src(path);
  request.set_client_name(client_name_);
  request.set_flag(start == AppendStart::kNewBlock ? kAppend | kNewBlock : kAppend);
  RETURN_IF_ERROR(Call("append", request, &response, path, deadline));
  if (!response.has_status()) return InternalError("append " + path + ": the server is too old, it gives no file id");
  Appended appended{.file = ToOpenFile(path, response.status())};
  if (!response.has_block()) return appended;
  if (start == AppendStart::kNewBlock) {
    appended.previous = FromWire(response.block().block());
  } else {
    appended.fill = FromWire(response.block());
  }
  return appended;
}

Result<LocatedBlock> NameNode::AddBlock(const OpenFile& file, const std::optional<ExtendedBlock>& previous,
                                        const Placement& placement, Deadline deadline) {
  wire::AddBlockRequest request;
  wire::AddBlockResponse response;
  request.set_src(file.path);
  request.set_client_name(client_name_);
  if (previous.has_value()) *request.mutable_previous() = ToWire(*previous);
  for (const DataNode& node : placement.exclude) *request.add_exclude_nodes() = ToWire(node);
  request.set_file_id(file.file_id);
  for (const std::string& node : placement.favored) request.add_favored_nodes(node);
  request.add_flags(kIgnoreClientLocality);
  for (Duration wait = kFirstReplicationWait;; wait = std::min(wait * 2, kLongestReplicationWait)) {
    const Status status = Call("addBlock", request, &response, file.path, deadline, file.stop);
    if (status.ok()) return FromWire(response.block());
    if (KindOf(status) != RemoteErrorKind::kNotReplicatedYet) return status;
    if (clock_.Now() + wait >= deadline.when()) return status;
    if (!clock_.SleepFor(wait, file.stop)) return CancelledError("addBlock " + file.path + ": stopped");
  }
}

Result<LocatedBlock> NameNode::GetAdditionalDatanode(const OpenFile& file, const LocatedBlock& block,
                                                     const std::vector<DataNode>& exclude, Deadline deadline) {
  wire::GetAdditionalDatanodeRequest request;
  wire::GetAdditionalDatanodeResponse response;
  request.set_src(file.path);
  *request.mutable_block() = ToWire(block.block);
  for (const DataNode& node : block.nodes) *request.add_existings() = ToWire(node);
  for (const DataNode& node : exclude) *request.add_excludes() = ToWire(node);
  request.set_num_additional_nodes(1);
  request.set_client_name(client_name_);
  for (const std::string& id : block.storage_ids) request.add_existing_storage_uuids(id);
  request.set_file_id(file.file_id);
  RETURN_IF_ERROR(Call("getAdditionalDatanode", request, &response, file.path, deadline, file.stop));
  return FromWire(response.block());
}

Status NameNode::AbandonBlock(const OpenFile& file, const ExtendedBlock& block, Deadline deadline) {
  wire::AbandonBlockRequest request;
  wire::AbandonBlockResponse response;
  *request.mutable_block() = ToWire(block);
  request.set_src(file.path);
  request.set_holder(client_name_);
  request.set_file_id(file.file_id);
  return Call("abandonBlock", request, &response, file.path, deadline, file.stop);
}

Result<LocatedBlock> NameNode::UpdateBlockForPipeline(const ExtendedBlock& block, Deadline deadline) {
  wire::UpdateBlockForPipelineRequest request;
  wire::UpdateBlockForPipelineResponse response;
  *request.mutable_block() = ToWire(block);
  request.set_client_name(client_name_);
  RETURN_IF_ERROR(Call("updateBlockForPipeline", request, &response, "", deadline));
  return FromWire(response.block());
}

Status NameNode::UpdatePipeline(const ExtendedBlock& old_block, const ExtendedBlock& new_block,
                                const std::vector<DataNode>& nodes, const std::vector<std::string>& storage_ids,
                                Deadline deadline) {
  wire::UpdatePipelineRequest request;
  wire::UpdatePipelineResponse response;
  request.set_client_name(client_name_);
  *request.mutable_old_block() = ToWire(old_block);
  *request.mutable_new_block() = ToWire(new_block);
  for (const DataNode& node : nodes) *request.add_new_nodes() = ToWire(node).id();
  for (const std::string& id : storage_ids) request.add_storage_ids(id);
  return Call("updatePipeline", request, &response, "", deadline);
}

Status NameNode::Fsync(const OpenFile& file, uint64_t last_block_length, Deadline deadline) {
  wire::FsyncRequest request;
  wire::FsyncResponse response;
  request.set_src(file.path);
  request.set_client(client_name_);
  request.set_last_block_length(static_cast<int64_t>(last_block_length));
  request.set_file_id(file.file_id);
  return Call("fsync", request, &response, file.path, deadline, file.stop);
}

Status NameNode::Complete(const OpenFile& file, const std::optional<ExtendedBlock>& last, Deadline deadline) {
  wire::CompleteRequest request;
  wire::CompleteResponse response;
  request.set_src(file.path);
  request.set_client_name(client_name_);
  if (last.has_value()) *request.mutable_last() = ToWire(*last);
  request.set_file_id(file.file_id);
  for (Duration wait = kFirstCompleteWait;; wait = std::min(wait * 2, kLongestCompleteWait)) {
    RETURN_IF_ERROR(Call("complete", request, &response, file.path, deadline, file.stop));
    if (response.result()) return Status();
    if (clock_.Now() + wait >= deadline.when()) {
      return DeadlineExceededError("complete " + file.path + ": its last block is not replicated yet");
    }
    if (!clock_.SleepFor(wait, file.stop)) return CancelledError("complete " + file.path + ": stopped");
  }
}

Status NameNode::ReportBadBlocks(const LocatedBlock& block, const DataNode& node, Deadline deadline) {
  wire::ReportBadBlocksRequest request;
  wire::ReportBadBlocksResponse response;
  LocatedBlock bad;
  bad.block = block.block;
  bad.offset = block.offset;
  for (size_t i = 0; i < block.nodes.size(); ++i) {
    if (block.nodes[i].Key() != node.Key()) continue;
    bad.nodes.push_back(block.nodes[i]);
    if (i < block.storage_ids.size()) bad.storage_ids.push_back(block.storage_ids[i]);
    if (i < block.storage_types.size()) bad.storage_types.push_back(block.storage_types[i]);
  }
  *request.add_blocks() = ToWire(bad);
  return Call("reportBadBlocks", request, &response, "", deadline);
}

Status NameNode::RenewLease(Deadline deadline) {
  wire::RenewLeaseRequest request;
  wire::RenewLeaseResponse response;
  request.set_client_name(client_name_);
  return Call("renewLease", request, &response, "", deadline);
}

Result<bool> NameNode::RecoverLease(const std::string& path, Deadline deadline) {
  wire::RecoverLeaseRequest request;
  wire::RecoverLeaseResponse response;
  request.set_src(path);
  request.set_client_name(client_name_);
  RETURN_IF_ERROR(Call("recoverLease", request, &response, path, deadline));
  return response.result();
}

Result<bool> NameNode::IsFileClosed(const std::string& path, Deadline deadline) {
  wire::IsFileClosedRequest request;
  wire::IsFileClosedResponse response;
  request.set_src(path);
  RETURN_IF_ERROR(Call("isFileClosed", request, &response, path, deadline));
  return response.result();
}

Status NameNode::Rename2(const std::string& from, const std::string& to, RenameMode mode, Deadline deadline) {
  wire::Rename2Request request;
  wire::Rename2Response response;
  request.set_src(from);
  request.set_dst(to);
  request.set_overwrite(mode == RenameMode::kOverwrite);
  return Call("rename2", request, &response, from + " to " + to, deadline);
}

Result<bool> NameNode::Delete(const std::string& path, RemoveMode mode, Deadline deadline) {
  wire::DeleteRequest request;
  wire::DeleteResponse response;
  request.set_src(path);
  request.set_recursive(mode == RemoveMode::kRecursive);
  RETURN_IF_ERROR(Call("delete", request, &response, path, deadline));
  return response.result();
}

Status NameNode::Mkdirs(const std::string& path, FileMode mode, MkdirsMode parents, Deadline deadline) {
  wire::MkdirsRequest request;
  wire::MkdirsResponse response;
  request.set_src(path);
  *request.mutable_masked() = Permission(mode);
  request.set_create_parent(parents == MkdirsMode::kMakeParents);
  *request.mutable_unmasked() = Permission(mode);
  RETURN_IF_ERROR(Call("mkdirs", request, &response, path, deadline));
  return response.result() ? Status() : PosixError(EIO, "mkdirs " + path + ": the NameNode says no without a reason");
}

Status NameNode::Concat(const std::string& target, std::span<const std::string> sources, Deadline deadline) {
  wire::ConcatRequest request;
  wire::ConcatResponse response;
  request.set_target(target);
  for (const std::string& source : sources) request.add_sources(source);
  return Call("concat", request, &response, target, deadline);
}

Result<bool> NameNode::Truncate(const std::string& path, uint64_t length, Deadline deadline) {
  wire::TruncateRequest request;
  wire::TruncateResponse response;
  request.set_src(path);
  request.set_new_length(length);
  request.set_client_name(client_name_);
  RETURN_IF_ERROR(Call("truncate", request, &response, path, deadline));
  return response.result();
}

Status NameNode::SetReplication(const std::string& path, uint32_t replication, Deadline deadline) {
  wire::SetReplicationRequest request;
  wire::SetReplicationResponse response;
  request.set_src(path);
  request.set_replication(replication);
  RETURN_IF_ERROR(Call("setReplication", request, &response, path, deadline));
  return response.result() ? Status() : PosixError(EISDIR, "setReplication " + path + ": no file");
}

Status NameNode::SetPermission(const std::string& path, FileMode mode, Deadline deadline) {
  wire::SetPermissionRequest request;
  wire::SetPermissionResponse response;
  request.set_src(path);
  *request.mutable_permission() = Permission(mode);
  return Call("setPermission", request, &response, path, deadline);
}

Status NameNode::SetOwner(const std::string& path, const std::string& owner, const std::string& group,
                          Deadline deadline) {
  wire::SetOwnerRequest request;
  wire::SetOwnerResponse response;
  request.set_src(path);
  if (!owner.empty()) request.set_username(owner);
  if (!group.empty()) request.set_groupname(group);
  return Call("setOwner", request, &response, path, deadline);
}

Status NameNode::SetTimes(const std::string& path, std::optional<WallTime> modified, std::optional<WallTime> accessed,
                          Deadline deadline) {
  wire::SetTimesRequest request;
  wire::SetTimesResponse response;
  request.set_src(path);
  request.set_mtime(ToMilliseconds(modified));
  request.set_atime(ToMilliseconds(accessed));
  return Call("setTimes", request, &response, path, deadline);
}

Status NameNode::SetXattr(const std::string& path, const std::string& name, std::string_view value, XattrMode mode,
                          Deadline deadline) {
  wire::SetXAttrRequest request;
  wire::SetXAttrResponse response;
  request.set_src(path);
  ASSIGN_OR_RETURN(*request.mutable_xattr(), XattrToWire(name));
  request.mutable_xattr()->set_value(std::string(value));
  request.set_flag(mode == XattrMode::kCreate ? 1 : mode == XattrMode::kReplace ? 2 : 3);
  return Call("setXAttr", request, &response, path, deadline);
}

Result<Xattrs> NameNode::GetXattrs(const std::string& path, Deadline deadline) {
  wire::GetXAttrsRequest request;
  wire::GetXAttrsResponse response;
  request.set_src(path);
  RETURN_IF_ERROR(Call("getXAttrs", request, &response, path, deadline));
  Xattrs attributes;
  for (const wire::XAttr& attribute : response.xattrs())
    attributes.emplace_back(XattrName(attribute), attribute.value());
  return attributes;
}

Status NameNode::RemoveXattr(const std::string& path, const std::string& name, Deadline deadline) {
  wire::RemoveXAttrRequest request;
  wire::RemoveXAttrResponse response;
  request.set_src(path);
  ASSIGN_OR_RETURN(*request.mutable_xattr(), XattrToWire(name));
  return Call("removeXAttr", request, &response, path, deadline);
}

Result<std::optional<DataEncryptionKey>> NameNode::GetDataEncryptionKey(Deadline deadline) {
  wire::GetDataEncryptionKeyResponse response;
  RETURN_IF_ERROR(Call("getDataEncryptionKey", wire::GetDataEncryptionKeyRequest(), &response, "", deadline));
  if (!response.has_key()) return std::optional<DataEncryptionKey>();
  const wire::DataEncryptionKey& key = response.key();
  return std::optional<DataEncryptionKey>(DataEncryptionKey{.key_id = key.key_id(),
                                                            .block_pool_id = key.block_pool_id(),
                                                            .nonce = key.nonce(),
                                                            .key = key.encryption_key(),
                                                            .algorithm = key.encryption_algorithm(),
                                                            .expiry_ms = key.expiry_date()});
}

}  // namespace paceline::hdfs
