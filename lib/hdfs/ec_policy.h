// How an erasure-coded file lies on its DataNodes: a block of it is a group of k data units and m parity units, and its
// bytes are dealt over the data units cell by cell. Pure functions and values; used by EcReader. The layout is Hadoop's
// (HDFS-7285); docs/formats/hdfs-protocol.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/hdfs/block.h"

namespace paceline::hdfs {

// What Hadoop's own policies are; the NameNode names them by number only. Nothing for another number.
std::optional<EcPolicy> SystemEcPolicy(uint32_t id);

// Bytes of unit `index` (parity behind data) of a group with so many bytes of the file.
uint64_t EcUnitLength(const EcPolicy& policy, uint64_t group_bytes, uint32_t index);

// The replicas of unit `index` of all groups, as blocks that follow each other: offsets count from the start of the
// unit's first block. Groups in which the unit has no byte have no block; a unit that no DataNode has gets one without
// nodes.
std::vector<LocatedBlock> EcUnitBlocks(const EcPolicy& policy, std::span<const LocatedBlock> groups, uint32_t index);

}  // namespace paceline::hdfs
