#include "lib/hdfs/hdfs_file_system.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lib/hdfs/data_node_sasl.h"
#include "lib/hdfs/dead_writers.h"
#include "lib/hdfs/ec_reader.h"
#include "lib/hdfs/fetch_pool.h"
#include "lib/hdfs/file_blocks.h"
#include "lib/hdfs/file_writer.h"
#include "lib/hdfs/hdfs_reader.h"
#include "lib/hdfs/parallel_writer.h"
#include "lib/hdfs/part_names.h"
#include "lib/hdfs/path_text.h"
#include "lib/hdfs/pipeline_repair.h"
#include "lib/hdfs/posix_error.h"
#include "lib/hdfs/replica_length.h"
#include "lib/hdfs/rpc_sasl.h"
#include "lib/hdfs/write_context.h"
#include "lib/hdfs/write_plan.h"

namespace paceline::hdfs {
namespace {

using namespace std::chrono_literals;

constexpr Duration kDefaultsLife = 1h;
constexpr Duration kFirstPoll = 10ms, kLongestPoll = 500ms;
constexpr uint64_t kWholeFile = INT64_MAX;

std::string MakeClientName(const Clock& clock) {
  char host[256] = "unknown";
  gethostname(host, sizeof host - 1);
  return fmt::format("paceline_{}_{}_{:016x}", host, getpid(), MakeWriterId(clock).random);
}

// The NameNode says FileNotFoundException for a directory too.
Status NotAFile(const Status& status) {
  if (status.code() != StatusCode::kNotFound || status.message().find("is not a file") == std::string::npos)
    return status;
  return PosixError(EISDIR, status.message());
}

class HdfsFileSystem final : public FileSystem {
 public:
  struct Settings {
    std::unique_ptr<RpcSecurity> rpc_security;  // null without Kerberos
    std::unique_ptr<DataNodeSasl> datanode_security;
    RpcClient::Options rpc;
    DataNodeClient::Options datanodes;
    FetchPool::Options pool;
    std::shared_ptr<ByteBudget> budget;
    ReplacementRules replacement;
  };

  HdfsFileSystem(Settings settings, const FileSystemOptions& options, const Clock& clock)
      : clock_(clock),
        options_(options),
        replacement_(settings.replacement),
        rpc_security_(std::move(settings.rpc_security)),
        datanode_security_(std::move(settings.datanode_security)),
        rpc_connection_(settings.rpc.connection),
        namenode_(std::move(settings.rpc), settings.datanodes.client_name, clock),
        datanodes_(std::move(settings.datanodes), clock),
        pool_(settings.pool, datanodes_, namenode_, clock),
        budget_(std::move(settings.budget)),
        spread_(namenode_, clock),
        leases_(namenode_, clock) {
    if (datanode_security_ != nullptr) datanode_security_->SetNameNode(&namenode_);
  }

  Result<FileStatus> Stat(const std::string& path, Deadline deadline) override {
    ASSIGN_OR_RETURN(std::optional<FileStatus> status, namenode_.GetFileInfo(path, deadline));
    if (!status.has_value()) return PosixError(ENOENT, "stat " + path);
    return *std::move(status);
  }

  Result<ListPage> List(const std::string& path, const std::string& start_after, Deadline deadline) override {
    ASSIGN_OR_RETURN(ListPage page, namenode_.GetListing(path, start_after, deadline));
    // A file lists itself, without a name.
    if (page.entries.size() == 1 && page.entries[0].name.empty()) page.entries[0].name = NameOf(path);
    return page;
  }

  Status Mkdirs(const std::string& path, FileMode mode, MkdirsMode parents, Deadline deadline) override {
    return namenode_.Mkdirs(path, mode, parents, deadline);
  }

  Status Remove(const std::string& path, RemoveMode mode, Deadline deadline) override {
    ASSIGN_OR_RETURN(const bool was_there, namenode_.Delete(path, mode, deadline));
    return was_there ? Status() : PosixError(ENOENT, "remove " + path);
  }

  Status Rename(const std::string& from, const std::string& to, RenameMode mode, Deadline deadline) override {
    return namenode_.Rename2(from, to, mode, deadline);
  }

  Status SetMode(const std::string& path, FileMode mode, Deadline deadline) override {
    return namenode_.SetPermission(path, mode, deadline);
  }
  Status SetOwner(const std::string& path, const std::string& owner, const std::string& group,
                  Deadline deadline) override {
    return namenode_.SetOwner(path, owner, group, deadline);
  }
  Status SetTimes(const std::string& path, std::optional<WallTime> modified, std::optional<WallTime> accessed,
                  Deadline deadline) override {
    return namenode_.SetTimes(path, modified, accessed, deadline);
  }
  Status SetReplication(const std::string& path, uint32_t replication, Deadline deadline) override {
    return namenode_.SetReplication(path, replication, deadline);
  }

  Result<Xattrs> GetXattrs(const std::string& path, Deadline deadline) override {
    return namenode_.GetXattrs(path, deadline);
  }
  Status SetXattr(const std::string& path, const std::string& name, std::string_view value, XattrMode mode,
                  Deadline deadline) override {
    return namenode_.SetXattr(path, name, value, mode, deadline);
  }
  Status RemoveXattr(const std::string& path, const std::string& name, Deadline deadline) override {
    return namenode_.RemoveXattr(path, name, deadline);
  }

  Result<Capacity> StatCapacity(Deadline deadline) override { return namenode_.GetFsStats(deadline); }

  Result<std::unique_ptr<Reader>> Open(const std::string& path, Deadline deadline) override {
    Result<LocatedBlocks> located = namenode_.GetBlockLocations(path, {0, kWholeFile}, deadline);
    if (!located.ok()) return NotAFile(located.status());
    if (located->is_encrypted) {
      return PosixError(EOPNOTSUPP, "open " + path + ": lies in an encryption zone, whose keys this client cannot get");
    }
    // A group that is being written is left out, as its length is nobody's knowledge but the writer's.
    if (located->ec_policy.has_value()) return EcReader::Open(pool_, path, *located->ec_policy, located->blocks);
    uint64_t length = located->length_bytes;
    std::vector<LocatedBlock> blocks = std::move(located->blocks);
    if (located->last_block.has_value() && !located->is_last_block_complete) {
      ASSIGN_OR_RETURN(const uint64_t visible,
                       VisibleLength(rpc_connection_, *located->last_block, options_.connect_limit, clock_, deadline));
      located->last_block->block.length_bytes = visible;
      length += visible;
      if (visible > 0) blocks.push_back(*located->last_block);
    }
    auto file = std::make_shared<FileBlocks>(path, std::move(blocks), clock_);
    return std::unique_ptr<Reader>(new HdfsReader(pool_, std::move(file), length));
  }

  Result<std::unique_ptr<Writer>> Create(const std::string& path, const CreateOptions& options,
                                         Deadline deadline) override {
    ASSIGN_OR_RETURN(const std::optional<FileStatus> existing, namenode_.GetFileInfo(path, deadline));
    if (existing.has_value() && existing->type == FileStatus::Type::kDirectory) {
      return PosixError(EISDIR, "create " + path + ": is a directory");
    }
    if (existing.has_value() && options.mode == CreateMode::kFailIfExists) return PosixError(EEXIST, "create " + path);
    ASSIGN_OR_RETURN(std::shared_ptr<WriteContext> context, MakeWriteContext(deadline));
    const NameNode::CreateSettings settings{
        .permission = options.permission,
        .replication =
            options.replication != 0 ? options.replication : replication_.value_or(context->defaults.replication),
        .block_size_bytes = options.block_size_bytes != 0 ? options.block_size_bytes
                                                          : block_size_.value_or(context->defaults.block_size_bytes)};
    const WriterId id = MakeWriterId(clock_);
    Result<OpenFile> file = namenode_.Create(SiblingOf(path, TemporaryName(NameOf(path), id)), settings, deadline);
    if (!file.ok()) return file.status().Annotate("create " + path);
    if (file->is_encrypted) {
      namenode_.Delete(file->path, RemoveMode::kFileOrEmptyDirectory, deadline).status().IgnoreError();
      return PosixError(EOPNOTSUPP,
                        "create " + path + ": lies in an encryption zone, whose keys this client cannot get");
    }
    if (options_.layout == WriteLayout::kSingle || context->is_concat_refused->load()) {
      ASSIGN_OR_RETURN(std::unique_ptr<FileWriter> writer,
                       FileWriter::Make(std::move(context), {.file = *std::move(file)},
                                        {path, options.mode, options.stop}, deadline));
      return std::unique_ptr<Writer>(std::move(writer));
    }
    return std::unique_ptr<Writer>(new ParallelWriter(std::move(context), *std::move(file), {path, options, id}));
  }

  Result<std::unique_ptr<Writer>> Append(const std::string& path, Deadline deadline) override {
    ASSIGN_OR_RETURN(const FileStatus status, Stat(path, deadline));
    if (status.type == FileStatus::Type::kDirectory) return PosixError(EISDIR, "append to " + path);
    if (status.is_encrypted || status.is_erasure_coded) {
      return PosixError(EOPNOTSUPP, "append to " + path + ": is encrypted or erasure coded");
    }
    ASSIGN_OR_RETURN(std::shared_ptr<WriteContext> context, MakeWriteContext(deadline));
    for (Duration wait = kFirstPoll;; wait = std::min(wait * 2, kLongestPoll)) {
      // Into the last block also of a file that was joined: a block of its own would leave one in the middle that ends
      // within a chunk, which Hadoop's own client cannot append to (docs/decisions/0014).
      auto opened = namenode_.Append(path, NameNode::AppendStart::kLastBlock, deadline);
      if (opened.ok()) {
        ASSIGN_OR_RETURN(std::unique_ptr<FileWriter> writer,
                         FileWriter::Make(std::move(context), *std::move(opened), {}, deadline));
        return std::unique_ptr<Writer>(std::move(writer));
      }
      const bool is_passing = KindOf(opened.status()) == RemoteErrorKind::kRecoveryInProgress;
      if (!is_passing || clock_.Now() + wait >= deadline.when()) return NotAFile(opened.status());
      clock_.SleepFor(wait, {});
    }
  }

  Status Truncate(const std::string& path, uint64_t length, Deadline deadline) override {
    Result<bool> is_done = namenode_.Truncate(path, length, deadline);
    if (!is_done.ok()) return NotAFile(is_done.status());
    for (Duration wait = kFirstPoll; !*is_done; wait = std::min(wait * 2, kLongestPoll)) {
      if (clock_.Now() + wait >= deadline.when()) {
        return DeadlineExceededError("truncate " + path + ": the last block is still being cut");
      }
      clock_.SleepFor(wait, {});
      is_done = namenode_.IsFileClosed(path, deadline);
      if (!is_done.ok()) return is_done.status();
    }
    return Status();
  }

  Result<std::vector<BlockLocation>> Locate(const std::string& path, ByteRange range, Deadline deadline) override {
    Result<LocatedBlocks> located = namenode_.GetBlockLocations(path, range, deadline);
    if (!located.ok()) return NotAFile(located.status());
    // The block that is being written stands apart; its length is what the server knows of it.
    if (located->last_block.has_value() && !located->is_last_block_complete) {
      located->blocks.push_back(*located->last_block);
    }
    std::vector<BlockLocation> blocks;
    for (const LocatedBlock& block : located->blocks) {
      BlockLocation location{
          .offset_bytes = block.offset, .length_bytes = block.block.length_bytes, .is_corrupt = block.is_corrupt};
      for (const DataNode& node : block.nodes) location.hosts.push_back(node.Key());
      blocks.push_back(std::move(location));
    }
    return blocks;
  }

  Result<size_t> RemoveStaleParts(const std::string& directory, Duration quiet, Deadline deadline) override {
    ASSIGN_OR_RETURN(const std::vector<FileStatus> entries, ListAll(*this, directory, deadline));
    size_t removed = 0;
    DeadHolders dead;
    for (const WriterParts& parts : GroupByWriter(entries)) {
      ASSIGN_OR_RETURN(const bool is_dead, IsWriterDead(namenode_, clock_, directory, parts, quiet, &dead, deadline));
      if (!is_dead) continue;
      ASSIGN_OR_RETURN(const size_t files, RemoveParts(namenode_, directory, parts, deadline));
      removed += files;
    }
    return removed;
  }

  bool IsVisibleName(std::string_view name) const override { return !ParsePartName(name).has_value(); }

  // What the client's own configuration says about new files; the server's defaults otherwise.
  void SetFileDefaults(std::optional<uint32_t> replication, std::optional<uint64_t> block_size) {
    replication_ = replication;
    block_size_ = block_size;
  }

 private:
  Result<std::shared_ptr<WriteContext>> MakeWriteContext(Deadline deadline) {
    ASSIGN_OR_RETURN(const ServerDefaults defaults, Defaults(deadline));
    return std::make_shared<WriteContext>(
        WriteContext{.namenode = namenode_,
                     .datanodes = datanodes_,
                     .clock = clock_,
                     .budget = *budget_,
                     .spread = spread_,
                     .leases = leases_,
                     .defaults = defaults,
                     .replacement = replacement_,
                     .pipelines = options_.write_pipelines,
                     .segment_bytes = options_.segment_size.bytes,
                     .is_concat_refused = is_concat_refused_,
                     .open = [this](const std::string& path, Deadline limit) { return Open(path, limit); }});
  }

  Result<ServerDefaults> Defaults(Deadline deadline) {
    {
      MutexLock lock(mutex_);
      if (defaults_.has_value() && clock_.Now() - defaults_at_ < kDefaultsLife) return *defaults_;
    }
    ASSIGN_OR_RETURN(const ServerDefaults fresh, namenode_.GetServerDefaults(deadline));
    if (fresh.bytes_per_checksum == 0 || fresh.block_size_bytes == 0)
      return InternalError("server defaults make no sense");
    MutexLock lock(mutex_);
    defaults_ = fresh;
    defaults_at_ = clock_.Now();
    return fresh;
  }

  const Clock& clock_;
  const FileSystemOptions options_;
  const ReplacementRules replacement_;
  const std::unique_ptr<RpcSecurity> rpc_security_;
  const std::unique_ptr<DataNodeSasl> datanode_security_;
  const RpcConnection::Options rpc_connection_;
  NameNode namenode_;
  DataNodeClient datanodes_;
  FetchPool pool_;
  const std::shared_ptr<ByteBudget> budget_;
  BlockSpread spread_;
  LeaseRenewer leases_;
  std::optional<uint32_t> replication_;
  std::optional<uint64_t> block_size_;
  const std::shared_ptr<std::atomic<bool>> is_concat_refused_ = std::make_shared<std::atomic<bool>>(false);

  Mutex mutex_;
  std::optional<ServerDefaults> defaults_ GUARDED_BY(mutex_);
  TimePoint defaults_at_ GUARDED_BY(mutex_){};
};

}  // namespace

Result<std::unique_ptr<FileSystem>> MakeHdfsFileSystem(const NameService& service, const FileSystemOptions& options,
                                                       std::shared_ptr<ByteBudget> budget, const Clock& clock) {
  const HadoopConfig& config = options.config;
  HdfsFileSystem::Settings settings;
  settings.rpc.service = service;
  settings.rpc.try_limit = options.rpc_limit;
  settings.rpc.connect_limit = options.connect_limit;
  settings.rpc.connection.identity = {MakeRpcClientId(), options.user.empty() ? DefaultHadoopUser() : options.user};
  ASSIGN_OR_RETURN(settings.rpc_security, MakeRpcSecurity(config, service));
  settings.rpc.connection.security = settings.rpc_security.get();
  ASSIGN_OR_RETURN(DataNodeSasl::Options protection, DataNodeSasl::ReadOptions(config));
  settings.datanode_security = std::make_unique<DataNodeSasl>(std::move(protection), clock);
  settings.datanodes.security = settings.datanode_security.get();
  settings.datanodes.client_name = options.client_name.empty() ? MakeClientName(clock) : options.client_name;
  settings.datanodes.connect_limit = options.connect_limit;
  settings.datanodes.silence_limit = options.silence_limit;
  ASSIGN_OR_RETURN(settings.datanodes.uses_host_names, config.GetBool("dfs.client.use.datanode.hostname", false));
  settings.pool = {.budget_bytes = options.read_budget.bytes,
                   .unit_bytes = options.range_size.bytes,
                   .lanes_per_datanode = options.lanes_per_datanode,
                   .threads = options.fetch_threads};
  settings.budget = std::move(budget);
  ASSIGN_OR_RETURN(settings.replacement, ReadReplacementRules(config));
  ASSIGN_OR_RETURN(const int64_t replication, config.GetInt("dfs.replication", 0));
  auto made = std::make_unique<HdfsFileSystem>(std::move(settings), options, clock);
  made->SetFileDefaults(replication > 0 ? std::optional(static_cast<uint32_t>(replication)) : std::nullopt,
                        ConfiguredBlockSize(config));
  return std::unique_ptr<FileSystem>(std::move(made));
}

}  // namespace paceline::hdfs
