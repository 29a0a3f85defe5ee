// The operations of a training step as the what-if study names them (arXiv 2505.05713 and its published traces). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace paceline::analysis {

enum class OpType : uint8_t {
  kForwardCompute,
  kBackwardCompute,
  kForwardSend,
  kForwardRecv,
  kBackwardSend,
  kBackwardRecv,
  kParamsAllGather,
  kGradsReduceScatter,
  kSeparateGradsAllReduce,
  kLayernormGradsAllReduce,
  kEmbeddingGradsAllReduce,
  kClipMainGrad,
  kOptimizer,
  kGarbageCollection,
};
inline constexpr int kOpTypes = 14;

// "forward-compute", ... as the traces spell them.
std::string_view NameOf(OpType type);
std::optional<OpType> ParseOpType(std::string_view name);

// The family of a type: its own name, but a send and its recv are one ("forward-pp-comm", "backward-pp-comm").
std::string_view FamilyOf(OpType type);

// Between pipeline stages.
bool IsPeerToPeer(OpType type);
// Whether its ideal is the median (communication: outliers come from outside) or the mean (computation: as if the load
// were spread evenly).
bool IsCommunication(OpType type);
// Whether it waits for all data-parallel ranks.
bool IsDataParallel(OpType type);

}  // namespace paceline::analysis
