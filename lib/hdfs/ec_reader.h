// Reads an erasure-coded file: the data units of its groups side by side, and a lost one computed from the others.
// Internal to lib/hdfs; made by HdfsFileSystem. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/base/mutex.h"
#include "lib/hdfs/ec_policy.h"
#include "lib/hdfs/hdfs_reader.h"

namespace paceline::hdfs {

class EcReader final : public Reader {
 public:
  // `groups` as the NameNode gave them. `pool` is borrowed and outlives the reader. kUnimplemented (EOPNOTSUPP), naming
  // the policy, when its layout is not known.
  static Result<std::unique_ptr<Reader>> Open(FetchPool& pool, const std::string& path, EcPolicy policy,
                                              const std::vector<LocatedBlock>& groups);

  uint64_t length_bytes() const override { return length_; }
  Result<size_t> Read(uint64_t offset, std::span<std::byte> out, Deadline deadline) override;
  void Prefetch(ByteRange range) override;

 private:
  struct Group {
    uint64_t start = 0, length = 0;     // in the file
    std::vector<uint64_t> unit_starts;  // of its unit in each unit's run of blocks
  };
  struct Unit {
    std::shared_ptr<FileBlocks> blocks;
    std::unique_ptr<HdfsReader> reader;
    // Guarded by mutex_: until when nobody tries it, after it could not be read.
    TimePoint lost_until{};
  };

  EcReader(FetchPool& pool, std::string path, EcPolicy policy)
      : pool_(pool), path_(std::move(path)), policy_(std::move(policy)) {}

  // Bytes of one cell or less, from its unit or from others. `offset` is in the unit of the group.
  Status ReadCell(const Group& group, uint32_t unit, uint64_t offset, std::span<std::byte> out, Deadline deadline);
  Status ReadUnit(const Group& group, uint32_t unit, uint64_t offset, std::span<std::byte> out, Deadline deadline);
  Status Compute(const Group& group, uint32_t lost, uint64_t offset, std::span<std::byte> out, Deadline deadline);
  // No DataNode has it.
  bool IsGone(const Group& group, uint32_t unit) const;
  // Or it could not be read a short while ago.
  bool IsLost(const Group& group, uint32_t unit) EXCLUDES(mutex_);
  void MarkLost(uint32_t unit) EXCLUDES(mutex_);

  FetchPool& pool_;
  const std::string path_;
  const EcPolicy policy_;
  std::vector<Group> groups_;
  std::vector<Unit> units_;
  uint64_t length_ = 0;
  Mutex mutex_;
  // Over all units: each unit's own reader sees only its share.
  ReadWindow window_ GUARDED_BY(mutex_){{}};
};

}  // namespace paceline::hdfs
