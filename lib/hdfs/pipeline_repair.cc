#include "lib/hdfs/pipeline_repair.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/hdfs/packet.h"
#include "lib/hdfs/wire_bytes.h"
#include "lib/hdfs/wire_convert.h"

namespace paceline::hdfs {
namespace {

using namespace std::chrono_literals;

constexpr int kMaxReplacements = 3;
// A copy of a whole block from one DataNode to another.
constexpr Duration kTransferLimit = 60s;
constexpr std::string_view kPrefix = "dfs.client.block.write.replace-datanode-on-failure.";

// Asks `source` for a copy of `block` on the node at `target` and waits until it is there.
Status TransferReplica(const RepairJob& job, const LocatedBlock& block, const DataNode& source, size_t target,
                       Deadline deadline) {
  ASSIGN_OR_RETURN(DataNodeClient::Connection connection,
                   job.datanodes.Connect(source, block, DataNodeClient::Reuse::kForbidden,
                                         deadline.Min(Deadline::After(job.datanodes.clock(), kWriteConnectLimit))));
  wire::OpTransferBlock request;
  *request.mutable_header()->mutable_base()->mutable_block() = ToWire(block.block);
  *request.mutable_header()->mutable_base()->mutable_token() = ToWire(block.token);
  request.mutable_header()->set_client_name(job.datanodes.options().client_name);
  *request.add_targets() = ToWire(block.nodes[target]);
  if (target < block.storage_types.size()) request.add_target_storage_types(block.storage_types[target]);
  if (target < block.storage_ids.size()) request.add_target_storage_ids(block.storage_ids[target]);
  RETURN_IF_ERROR(
      connection.stream->Write(EncodeOperation(kOpTransferBlock, request), job.datanodes.Silence(deadline)));
  std::string bytes;
  // Silence is no sign here: nothing is said until the copy is complete.
  RETURN_IF_ERROR(BufferedReader(*connection.stream).ReadDelimited(&bytes, kMaxAnswerBytes, deadline));
  wire::BlockOpResponse answer;
  if (!ParseMessage(bytes, &answer)) return AbortedError("malformed answer of " + source.Key());
  if (answer.status() == kDtSuccess) return Status();
  return AbortedError(fmt::format("{} could not copy the block to {}: status {} {}", source.Key(),
                                  block.nodes[target].Key(), answer.status(), answer.message()));
}

bool IsAmong(const std::vector<DataNode>& nodes, const DataNode& node) {
  return std::any_of(nodes.begin(), nodes.end(), [&](const DataNode& other) { return other.Key() == node.Key(); });
}

// One try: the NameNode's choice, and the copy. `*chosen` is the new node when there was one.
Status TryReplace(const RepairJob& job, const std::vector<DataNode>& exclude, LocatedBlock* block,
                  std::optional<DataNode>* chosen, Deadline deadline) {
  ASSIGN_OR_RETURN(LocatedBlock fresh, job.namenode.GetAdditionalDatanode(job.file, *block, exclude, deadline));
  // The answer holds the old nodes as well, in its own order.
  const auto found = std::find_if(fresh.nodes.begin(), fresh.nodes.end(),
                                  [&](const DataNode& node) { return !IsAmong(block->nodes, node); });
  if (found == fresh.nodes.end() || fresh.nodes.size() != block->nodes.size() + 1) {
    return InternalError("the NameNode's answer has no new DataNode");
  }
  *chosen = *found;
  fresh.block = block->block;
  const size_t target = static_cast<size_t>(found - fresh.nodes.begin());
  const DataNode& source = fresh.nodes[target == 0 ? 1 : target - 1];
  RETURN_IF_ERROR(TransferReplica(job, fresh, source, target, deadline));
  fresh.offset = block->offset;
  *block = std::move(fresh);
  return Status();
}

}  // namespace

Result<ReplacementRules> ReadReplacementRules(const HadoopConfig& config) {
  const std::string prefix(kPrefix);
  ReplacementRules rules;
  ASSIGN_OR_RETURN(const bool is_enabled, config.GetBool(prefix + "enable", true));
  ASSIGN_OR_RETURN(rules.is_best_effort, config.GetBool(prefix + "best-effort", true));
  const std::string policy = config.GetOr(prefix + "policy", "DEFAULT");
  if (policy == "NEVER" || !is_enabled) {
    rules.policy = ReplacementRules::Policy::kNever;
  } else if (policy == "ALWAYS") {
    rules.policy = ReplacementRules::Policy::kAlways;
  } else if (policy != "DEFAULT") {
    return InvalidArgumentError(prefix + "policy: \"" + policy + "\" is none of NEVER, DEFAULT, ALWAYS");
  }
  return rules;
}

std::vector<size_t> LostNodes(DataNodeClient& datanodes, const LocatedBlock& block, const PipelineFailure& failure) {
  PipelineVerdict verdict = JudgeFailure(failure, block.nodes.size());
  std::vector<size_t> lost = std::move(verdict.drop);
  if (verdict.needs_probe) {
    for (const size_t index : datanodes.SilentNodes(block)) lost.push_back(index);
  }
  std::sort(lost.begin(), lost.end());
  lost.erase(std::unique(lost.begin(), lost.end()), lost.end());
  return lost;
}

void DropNodes(LocatedBlock* block, const std::vector<size_t>& indexes) {
  const auto drop = [](auto* list, size_t index) {
    if (index < list->size()) list->erase(list->begin() + static_cast<ptrdiff_t>(index));
  };
  for (auto it = indexes.rbegin(); it != indexes.rend(); ++it) {
    drop(&block->nodes, *it);
    drop(&block->storage_ids, *it);
    drop(&block->storage_types, *it);
  }
}

Status ReplaceLostNode(const RepairJob& job, LocatedBlock* block, Deadline deadline) {
  if (!WantsReplacement(job.rules, job.file.replication, block->nodes.size(), job.is_block_flushed)) return Status();
  std::vector<DataNode> exclude = job.exclude;
  Status last;
  for (int tries = 0; tries < kMaxReplacements; ++tries) {
    std::optional<DataNode> chosen;
    last =
        TryReplace(job, exclude, block, &chosen, deadline.Min(Deadline::After(job.datanodes.clock(), kTransferLimit)));
    if (last.ok()) return last;
    if (!chosen.has_value()) break;  // the NameNode has none to give
    exclude.push_back(*std::move(chosen));
  }
  return job.rules.is_best_effort ? Status() : last.Annotate("replace a lost DataNode of " + job.file.path);
}

}  // namespace paceline::hdfs
