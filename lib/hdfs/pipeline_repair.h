// What is done about a pipeline that lost a DataNode: which one it was, whether another one takes its place, and the
// copy of the block that the new one needs first. Internal to lib/hdfs. Called by FileWriter, whose block has bytes
// that are nowhere else, and by WriteWholeBlock for the first question only. Functions are thread-safe; each blocks, at
// most until its deadline.
#pragma once

#include <vector>

#include "lib/hdfs/block_writer.h"
#include "lib/hdfs/data_node_client.h"
#include "lib/hdfs/hadoop_config.h"
#include "lib/hdfs/name_node.h"
#include "lib/hdfs/write_plan.h"

namespace paceline::hdfs {

// The settings dfs.client.block.write.replace-datanode-on-failure.*. kInvalidArgument names the key. Unlike in Hadoop,
// best-effort is on unless it is set: a checkpoint with a replica less is better than none.
Result<ReplacementRules> ReadReplacementRules(const HadoopConfig& config);

// The indexes of the DataNodes that `failure` is about, in order; where nobody named one, those that do not answer.
// Empty when all of them work, as after a refused token.
std::vector<size_t> LostNodes(DataNodeClient& datanodes, const LocatedBlock& block, const PipelineFailure& failure);

// Takes the nodes at `indexes` (in order) out of `block`.
void DropNodes(LocatedBlock* block, const std::vector<size_t>& indexes);

struct RepairJob {
  NameNode& namenode;
  DataNodeClient& datanodes;
  const OpenFile& file;
  ReplacementRules rules;
  std::vector<DataNode> exclude;  // not to be chosen: the lost ones
  bool is_block_flushed = false;  // somebody was told that bytes of this block are safe
};
// Adds a DataNode to `block`, with a copy of the bytes that every node left has (block.length_bytes), where the rules
// ask for one. Ok also when none could be had and the rules let the write go on; the block is then as it was. `block`
// carries the generation stamp that its replicas have.
Status ReplaceLostNode(const RepairJob& job, LocatedBlock* block, Deadline deadline);

}  // namespace paceline::hdfs
