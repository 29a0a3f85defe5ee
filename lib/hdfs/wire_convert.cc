#include "lib/hdfs/wire_convert.h"

#include <fmt/format.h>

#include <cerrno>

#include "lib/hdfs/ec_policy.h"
#include "lib/hdfs/posix_error.h"

namespace paceline::hdfs {
namespace {

constexpr uint32_t kDirectory = 1, kSymlink = 3;
constexpr uint32_t kFlagEncrypted = 2, kFlagErasureCoded = 4;
constexpr std::string_view kNamespaces[] = {"user", "trusted", "security", "system", "raw"};

WallTime FromMilliseconds(uint64_t ms) { return WallTime(std::chrono::milliseconds(ms)); }

}  // namespace

ExtendedBlock FromWire(const wire::ExtendedBlock& block) {
  return {block.pool_id(), block.block_id(), block.generation_stamp(), block.num_bytes()};
}

wire::ExtendedBlock ToWire(const ExtendedBlock& block) {
  wire::ExtendedBlock out;
  out.set_pool_id(block.pool_id);
  out.set_block_id(block.block_id);
  out.set_generation_stamp(block.generation_stamp);
  out.set_num_bytes(block.length_bytes);
  return out;
}

SecurityToken FromWire(const wire::Token& token) {
  return {token.identifier(), token.password(), token.kind(), token.service()};
}

wire::Token ToWire(const SecurityToken& token) {
  wire::Token out;
  out.set_identifier(token.identifier);
  out.set_password(token.password);
  out.set_kind(token.kind);
  out.set_service(token.service);
  return out;
}

DataNode FromWire(const wire::DatanodeInfo& node) {
  DataNode out;
  out.ip = node.id().ip_addr();
  out.host_name = node.id().host_name();
  out.uuid = node.id().datanode_uuid();
  out.transfer_port = static_cast<uint16_t>(node.id().xfer_port());
  out.info_port = static_cast<uint16_t>(node.id().info_port());
  out.ipc_port = static_cast<uint16_t>(node.id().ipc_port());
  out.info_secure_port = static_cast<uint16_t>(node.id().info_secure_port());
  out.rack = node.location();
  out.admin_state = node.admin_state();
  return out;
}

wire::DatanodeInfo ToWire(const DataNode& node) {
  wire::DatanodeInfo out;
  wire::DatanodeId& id = *out.mutable_id();
  id.set_ip_addr(node.ip);
  id.set_host_name(node.host_name);
  id.set_datanode_uuid(node.uuid);
  id.set_xfer_port(node.transfer_port);
  id.set_info_port(node.info_port);
  id.set_ipc_port(node.ipc_port);
  id.set_info_secure_port(node.info_secure_port);
  out.set_location(node.rack);
  out.set_admin_state(node.admin_state);
  return out;
}

LocatedBlock FromWire(const wire::LocatedBlock& block) {
  LocatedBlock out;
  out.block = FromWire(block.block());
  out.offset = block.offset();
  for (const wire::DatanodeInfo& node : block.locations()) out.nodes.push_back(FromWire(node));
  // Matched by position; a list of another length matches nothing.
  if (block.storage_ids_size() == block.locations_size()) {
    out.storage_ids.assign(block.storage_ids().begin(), block.storage_ids().end());
  }
  if (block.storage_types_size() == block.locations_size()) {
    out.storage_types.assign(block.storage_types().begin(), block.storage_types().end());
  }
  out.token = FromWire(block.block_token());
  out.is_corrupt = block.corrupt();
  for (const char index : block.block_indices()) out.unit_indexes.push_back(static_cast<uint8_t>(index));
  for (const wire::Token& token : block.block_tokens()) out.unit_tokens.push_back(FromWire(token));
  return out;
}

EcPolicy FromWire(const wire::ErasureCodingPolicy& policy) {
  if (const std::optional<EcPolicy> known = SystemEcPolicy(policy.id())) return *known;
  const std::string& codec = policy.schema().codec_name();
  return {.name = policy.has_name() ? policy.name() : fmt::format("number {}", policy.id()),
          .codec = codec == "rs"    ? EcPolicy::Codec::kReedSolomon
                   : codec == "xor" ? EcPolicy::Codec::kXor
                                    : EcPolicy::Codec::kOther,
          .data_units = policy.schema().data_units(),
          .parity_units = policy.schema().parity_units(),
          .cell_bytes = policy.cell_size()};
}

wire::LocatedBlock ToWire(const LocatedBlock& block) {
  wire::LocatedBlock out;
  *out.mutable_block() = ToWire(block.block);
  out.set_offset(block.offset);
  for (const DataNode& node : block.nodes) *out.add_locations() = ToWire(node);
  out.set_corrupt(block.is_corrupt);
  *out.mutable_block_token() = ToWire(block.token);
  for (const std::string& id : block.storage_ids) out.add_storage_ids(id);
  for (const uint32_t type : block.storage_types) out.add_storage_types(type);
  return out;
}

LocatedBlocks FromWire(const wire::LocatedBlocks& blocks) {
  LocatedBlocks out;
  out.length_bytes = blocks.file_length();
  for (const wire::LocatedBlock& block : blocks.blocks()) out.blocks.push_back(FromWire(block));
  out.is_under_construction = blocks.under_construction();
  if (blocks.has_last_block()) out.last_block = FromWire(blocks.last_block());
  out.is_last_block_complete = blocks.is_last_block_complete();
  out.is_encrypted = blocks.has_file_encryption_info();
  if (blocks.has_ec_policy()) out.ec_policy = FromWire(blocks.ec_policy());
  return out;
}

FileStatus FromWire(const wire::HdfsFileStatus& status) {
  FileStatus out;
  out.type = status.file_type() == kDirectory ? FileStatus::Type::kDirectory
             : status.file_type() == kSymlink ? FileStatus::Type::kSymlink
                                              : FileStatus::Type::kFile;
  out.name = status.path();
  out.length_bytes = status.length();
  out.mode = status.permission().perm() & 01777;
  out.owner = status.owner();
  out.group = status.group();
  out.modified = FromMilliseconds(status.modification_time());
  out.accessed = FromMilliseconds(status.access_time());
  out.replication = status.block_replication();
  out.block_size_bytes = status.block_size();
  out.file_id = status.file_id();
  out.symlink_target = status.symlink();
  out.is_encrypted = status.has_file_encryption_info() || (status.flags() & kFlagEncrypted) != 0;
  out.is_erasure_coded = status.has_ec_policy() || (status.flags() & kFlagErasureCoded) != 0;
  return out;
}

Result<wire::XAttr> XattrToWire(const std::string& name) {
  const size_t dot = name.find('.');
  wire::XAttr out;
  if (dot != std::string::npos && dot + 1 < name.size()) {
    for (uint32_t i = 0; i < std::size(kNamespaces); ++i) {
      if (name.compare(0, dot, kNamespaces[i]) != 0) continue;
      out.set_name_space(i);
      out.set_name(name.substr(dot + 1));
      return out;
    }
  }
  return PosixError(EOPNOTSUPP, "attribute " + name + ": names begin with user., trusted., security., system. or raw.");
}

std::string XattrName(const wire::XAttr& attribute) {
  const uint32_t space = attribute.name_space();
  return std::string(space < std::size(kNamespaces) ? kNamespaces[space] : "unknown") + "." + attribute.name();
}

}  // namespace paceline::hdfs
