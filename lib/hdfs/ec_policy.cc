#include "lib/hdfs/ec_policy.h"

#include <algorithm>

namespace paceline::hdfs {

std::optional<EcPolicy> SystemEcPolicy(uint32_t id) {
  constexpr uint64_t kCell = 1 << 20;
  using Codec = EcPolicy::Codec;
  switch (id) {
    case 1: return EcPolicy{"RS-6-3-1024k", Codec::kReedSolomon, 6, 3, kCell};
    case 2: return EcPolicy{"RS-3-2-1024k", Codec::kReedSolomon, 3, 2, kCell};
    case 3: return EcPolicy{"RS-LEGACY-6-3-1024k", Codec::kOther, 6, 3, kCell};
    case 4: return EcPolicy{"XOR-2-1-1024k", Codec::kXor, 2, 1, kCell};
    case 5: return EcPolicy{"RS-10-4-1024k", Codec::kReedSolomon, 10, 4, kCell};
    default: return std::nullopt;
  }
}

uint64_t EcUnitLength(const EcPolicy& policy, uint64_t group_bytes, uint32_t index) {
  const uint64_t row = policy.data_units * policy.cell_bytes;
  const uint64_t rest = group_bytes % row;
  // Parity is as long as the first data unit.
  const uint64_t before = index < policy.data_units ? index * policy.cell_bytes : 0;
  return group_bytes / row * policy.cell_bytes + std::min(policy.cell_bytes, rest > before ? rest - before : 0);
}

std::vector<LocatedBlock> EcUnitBlocks(const EcPolicy& policy, std::span<const LocatedBlock> groups, uint32_t index) {
  std::vector<LocatedBlock> blocks;
  uint64_t offset = 0;
  for (const LocatedBlock& group : groups) {
    LocatedBlock unit{.block = group.block, .offset = offset, .token = group.token};
    unit.block.block_id += index;
    unit.block.length_bytes = EcUnitLength(policy, group.block.length_bytes, index);
    if (unit.block.length_bytes == 0) continue;
    for (size_t i = 0; i < group.nodes.size() && i < group.unit_indexes.size(); ++i) {
      if (group.unit_indexes[i] != index) continue;
      unit.nodes.push_back(group.nodes[i]);
      if (i < group.unit_tokens.size()) unit.token = group.unit_tokens[i];
    }
    offset = unit.end();
    blocks.push_back(std::move(unit));
  }
  return blocks;
}

}  // namespace paceline::hdfs
