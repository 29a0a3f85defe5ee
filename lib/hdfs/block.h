// Blocks, where they lie, and what opens them, as plain values: the face of the NameNode's answers for the code that
// moves bytes, which knows no protobuf. Values; no thread-safety needed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace paceline::hdfs {

struct SecurityToken {
  std::string identifier, password, kind, service;
};

struct ExtendedBlock {
  std::string pool_id;
  uint64_t block_id = 0;
  uint64_t generation_stamp = 0;
  uint64_t length_bytes = 0;
};

struct DataNode {
  std::string ip, host_name, uuid;
  uint16_t transfer_port = 0, info_port = 0, ipc_port = 0, info_secure_port = 0;
  std::string rack;
  uint32_t admin_state = 0;

  // "ip:port", by which a DataNode is known everywhere in this library.
  std::string Key() const { return ip + ":" + std::to_string(transfer_port); }
};

// Of an erasure-coded file, whose blocks are groups: see ec_policy.h.
struct EcPolicy {
  enum class Codec { kReedSolomon, kXor, kOther };
  std::string name;
  Codec codec = Codec::kOther;
  uint32_t data_units = 0, parity_units = 0;
  uint64_t cell_bytes = 0;
};

struct LocatedBlock {
  ExtendedBlock block;
  uint64_t offset = 0;  // in the file
  std::vector<DataNode> nodes;
  std::vector<std::string> storage_ids;  // as many as nodes, or none
  std::vector<uint32_t> storage_types;   // likewise
  SecurityToken token;
  bool is_corrupt = false;
  // Of a group: which unit each of `nodes` has, and the token that opens it.
  std::vector<uint8_t> unit_indexes;
  std::vector<SecurityToken> unit_tokens;

  uint64_t end() const { return offset + block.length_bytes; }
};

struct LocatedBlocks {
  uint64_t length_bytes = 0;  // without a last block under construction
  std::vector<LocatedBlock> blocks;
  bool is_under_construction = false;
  std::optional<LocatedBlock> last_block;
  bool is_last_block_complete = true;
  bool is_encrypted = false;
  std::optional<EcPolicy> ec_policy;  // the file is erasure coded, and its blocks are groups
};

enum class ChecksumType : uint32_t { kNone = 0, kCrc32 = 1, kCrc32c = 2 };

struct ServerDefaults {
  uint64_t block_size_bytes = 128 << 20;
  uint32_t bytes_per_checksum = 512;
  uint32_t replication = 3;
  ChecksumType checksum = ChecksumType::kCrc32c;
  bool encrypts_data_transfer = false;
};

struct DataEncryptionKey {
  uint32_t key_id = 0;
  std::string block_pool_id, nonce, key, algorithm;
  uint64_t expiry_ms = 0;
};

}  // namespace paceline::hdfs
