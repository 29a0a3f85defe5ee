// The NameNode's calls, typed: one method per call, named as in Hadoop's ClientProtocol, with our values in and out.
// Internal to lib/hdfs. Thread-safe. Every method blocks until its answer, at most until the deadline, retries and
// fails over as RpcClient does, and gives the errors of remote_error.h with "<call> <path>" in front.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/hdfs/block.h"
#include "lib/hdfs/file_system.h"
#include "lib/hdfs/rpc_client.h"

namespace google::protobuf {
class MessageLite;
}

namespace paceline::hdfs {

// A file open for writing.
struct OpenFile {
  std::string path;
  uint64_t file_id = 0;  // sent with each call, so that a rename by somebody else does not break the writer
  uint64_t length_bytes = 0;
  uint64_t block_size_bytes = 0;
  uint32_t replication = 0;
  bool is_erasure_coded = false, is_encrypted = false;
  std::stop_token stop;  // ends calls about this file: kCancelled
};

class NameNode {
 public:
  // `client_name` is the lease holder: unique per filesystem.
  NameNode(RpcClient::Options options, std::string client_name, const Clock& clock);

  const std::string& client_name() const { return client_name_; }

  // Nothing when there is no such file.
  Result<std::optional<FileStatus>> GetFileInfo(const std::string& path, Deadline deadline);
  Result<ListPage> GetListing(const std::string& path, const std::string& start_after, Deadline deadline);
  Result<LocatedBlocks> GetBlockLocations(const std::string& path, ByteRange range, Deadline deadline);
  Result<ServerDefaults> GetServerDefaults(Deadline deadline);
  Result<Capacity> GetFsStats(Deadline deadline);
  Result<std::vector<DataNode>> LiveDataNodes(Deadline deadline);

  struct CreateSettings {
    CreateMode mode = CreateMode::kOverwrite;
    FileMode permission = 0644;
    uint32_t replication = 0;
    uint64_t block_size_bytes = 0;
  };
  // Always as a replicated file, also in a directory with an erasure coding policy.
  Result<OpenFile> Create(const std::string& path, const CreateSettings& settings, Deadline deadline);
  enum class AppendStart { kLastBlock, kNewBlock };
  struct Appended {
    OpenFile file;
    std::optional<LocatedBlock> fill;       // the last block, when it is to be filled up
    std::optional<ExtendedBlock> previous;  // the last block, when a new one comes behind it
  };
  Result<Appended> Append(const std::string& path, AppendStart start, Deadline deadline);
  struct Placement {
    std::vector<DataNode> exclude;
    std::vector<std::string> favored;  // "host:port" of DataNodes
  };
  // `previous` is the file's last block with its final length, if it has one. Waits while the NameNode says that the
  // block before is not replicated yet.
  Result<LocatedBlock> AddBlock(const OpenFile& file, const std::optional<ExtendedBlock>& previous,
                                const Placement& placement, Deadline deadline);
  Result<LocatedBlock> GetAdditionalDatanode(const OpenFile& file, const LocatedBlock& block,
                                             const std::vector<DataNode>& exclude, Deadline deadline);
  Status AbandonBlock(const OpenFile& file, const ExtendedBlock& block, Deadline deadline);
  // The block with its new generation stamp and token; its nodes are not filled in.
  Result<LocatedBlock> UpdateBlockForPipeline(const ExtendedBlock& block, Deadline deadline);
  Status UpdatePipeline(const ExtendedBlock& old_block, const ExtendedBlock& new_block,
                        const std::vector<DataNode>& nodes, const std::vector<std::string>& storage_ids,
                        Deadline deadline);
  // Tells the NameNode the length of the last block; moves no data.
  Status Fsync(const OpenFile& file, uint64_t last_block_length, Deadline deadline);
  // Asks until the file is complete: every few milliseconds at first, more rarely later.
  Status Complete(const OpenFile& file, const std::optional<ExtendedBlock>& last, Deadline deadline);
  Status ReportBadBlocks(const LocatedBlock& block, const DataNode& node, Deadline deadline);

  Status RenewLease(Deadline deadline);
  // True when the file is closed now.
  Result<bool> RecoverLease(const std::string& path, Deadline deadline);
  Result<bool> IsFileClosed(const std::string& path, Deadline deadline);

  Status Rename2(const std::string& from, const std::string& to, RenameMode mode, Deadline deadline);
  // False when there was no such file.
  Result<bool> Delete(const std::string& path, RemoveMode mode, Deadline deadline);
  Status Mkdirs(const std::string& path, FileMode mode, MkdirsMode parents, Deadline deadline);
  Status Concat(const std::string& target, std::span<const std::string> sources, Deadline deadline);
  // True when done; false while the last block is being cut.
  Result<bool> Truncate(const std::string& path, uint64_t length, Deadline deadline);
  Status SetReplication(const std::string& path, uint32_t replication, Deadline deadline);
  Status SetPermission(const std::string& path, FileMode mode, Deadline deadline);
  Status SetOwner(const std::string& path, const std::string& owner, const std::string& group, Deadline deadline);
  Status SetTimes(const std::string& path, std::optional<WallTime> modified, std::optional<WallTime> accessed,
                  Deadline deadline);
  Status SetXattr(const std::string& path, const std::string& name, std::string_view value, XattrMode mode,
                  Deadline deadline);
  Result<Xattrs> GetXattrs(const std::string& path, Deadline deadline);
  Status RemoveXattr(const std::string& path, const std::string& name, Deadline deadline);
  // Nothing when the cluster does not encrypt.
  Result<std::optional<DataEncryptionKey>> GetDataEncryptionKey(Deadline deadline);

 private:
  Status Call(std::string_view method, const google::protobuf::MessageLite& request,
              google::protobuf::MessageLite* response, const std::string& path, Deadline deadline,
              std::stop_token stop = {});

  const Clock& clock_;
  const std::string client_name_;
  RpcClient rpc_;
};

}  // namespace paceline::hdfs
