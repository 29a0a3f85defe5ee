#include "analysis/whatif/op_type.h"

#include <array>

namespace paceline::analysis {
namespace {

constexpr std::array<std::string_view, kOpTypes> kNames = {
    "forward-compute",
    "backward-compute",
    "forward-send",
    "forward-recv",
    "backward-send",
    "backward-recv",
    "params-all-gather",
    "grads-reduce-scatter",
    "separate-grads-all-reduce",
    "layernorm-grads-all-reduce",
    "embedding-grads-all-reduce",
    "optimizer-clip-main-grad",
    "optimizer",
    "gc",
};

}  // namespace

std::string_view NameOf(OpType type) { return kNames[static_cast<size_t>(type)]; }

std::optional<OpType> ParseOpType(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); i++) {
    if (kNames[i] == name) return static_cast<OpType>(i);
  }
  return std::nullopt;
}

std::string_view FamilyOf(OpType type) {
  switch (type) {
    case OpType::kForwardSend:
    case OpType::kForwardRecv: return "forward-pp-comm";
    case OpType::kBackwardSend:
    case OpType::kBackwardRecv: return "backward-pp-comm";
    default: return NameOf(type);
  }
}

bool IsPeerToPeer(OpType type) { return type >= OpType::kForwardSend && type <= OpType::kBackwardRecv; }

bool IsCommunication(OpType type) {
  switch (type) {
    case OpType::kForwardCompute:
    case OpType::kBackwardCompute:
    case OpType::kOptimizer:
    case OpType::kGarbageCollection: return false;
    default: return true;
  }
}

bool IsDataParallel(OpType type) {
  switch (type) {
    case OpType::kParamsAllGather:
    case OpType::kGradsReduceScatter:
    case OpType::kSeparateGradsAllReduce:
    case OpType::kClipMainGrad: return true;
    default: return false;
  }
}

}  // namespace paceline::analysis
