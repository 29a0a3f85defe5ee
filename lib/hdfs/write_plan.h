// The decisions of the write path, apart from doing them. Pure, table-tested; used by FileWriter and ParallelWriter.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/hdfs/block.h"
#include "lib/hdfs/block_writer.h"

namespace paceline::hdfs {

// How large the segment with this number is: small at first, so that small files stay one block and the first pipeline
// starts soon, then larger. At most `max_bytes` and the block size.
uint64_t SegmentBytes(uint32_t number, uint64_t max_bytes, uint64_t block_size_bytes);

// [first, last) of the parts for each concat call, in order: at most 256 at once.
std::vector<std::pair<size_t, size_t>> ConcatBatches(size_t parts);

// What to do about a pipeline that has broken.
struct PipelineVerdict {
  std::vector<size_t> drop;  // indexes of the nodes to leave out
  bool needs_probe = false;  // nobody said which: ask each node whether it answers
};
PipelineVerdict JudgeFailure(const PipelineFailure& failure, size_t nodes);

// When another DataNode takes the place of one that a pipeline lost: Hadoop's
// dfs.client.block.write.replace-datanode-on-failure.
struct ReplacementRules {
  enum class Policy { kNever, kDefault, kAlways };
  Policy policy = Policy::kDefault;
  bool is_best_effort = true;  // go on with fewer when there is none to be had
};
// `nodes_left` of a block that should have `replication` replicas. The default leaves short pipelines alone while no
// byte was promised to be safe and more than half of the replicas, and two, are there.
bool WantsReplacement(const ReplacementRules& rules, uint32_t replication, size_t nodes_left, bool is_block_flushed);

// Whether a broken pipeline that has made no progress since is worth another try.
bool MayRecover(int recoveries_without_progress);

}  // namespace paceline::hdfs
