#include "lib/hdfs/write_plan.h"

#include <algorithm>

namespace paceline::hdfs {
namespace {

constexpr uint64_t kFirstSegment = 4 << 20, kSecondSegment = 16 << 20;
constexpr size_t kConcatBatch = 256;
constexpr int kMaxRecoveries = 5;

}  // namespace

uint64_t SegmentBytes(uint32_t number, uint64_t max_bytes, uint64_t block_size_bytes) {
  const uint64_t wanted = number == 0 ? kFirstSegment : number == 1 ? kSecondSegment : max_bytes;
  return std::max<uint64_t>(1, std::min({wanted, max_bytes, block_size_bytes}));
}

std::vector<std::pair<size_t, size_t>> ConcatBatches(size_t parts) {
  std::vector<std::pair<size_t, size_t>> batches;
  for (size_t first = 0; first < parts; first += kConcatBatch) {
    batches.emplace_back(first, std::min(first + kConcatBatch, parts));
  }
  return batches;
}

PipelineVerdict JudgeFailure(const PipelineFailure& failure, size_t nodes) {
  if (!failure.bad_nodes.empty()) {
    PipelineVerdict verdict;
    for (const size_t node : failure.bad_nodes) {
      if (node < nodes) verdict.drop.push_back(node);
    }
    return verdict;
  }
  // A cut connection is one to the first node; the others would have been named by it.
  if (failure.status.code() == StatusCode::kUnavailable) return {.drop = {0}};
  if (failure.status.code() == StatusCode::kPermissionDenied) return {};  // the token: the nodes are fine
  return {.needs_probe = true};
}

bool WantsReplacement(const ReplacementRules& rules, uint32_t replication, size_t nodes_left, bool is_block_flushed) {
  if (nodes_left == 0 || nodes_left >= replication) return false;
  switch (rules.policy) {
    case ReplacementRules::Policy::kNever: return false;
    case ReplacementRules::Policy::kAlways: return true;
    case ReplacementRules::Policy::kDefault: break;
  }
  return replication >= 3 && (nodes_left <= replication / 2 || is_block_flushed);
}

bool MayRecover(int recoveries_without_progress) { return recoveries_without_progress < kMaxRecoveries; }

}  // namespace paceline::hdfs
