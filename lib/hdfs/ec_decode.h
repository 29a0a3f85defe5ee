// Gives back a lost unit of an erasure-coded group from others: Reed-Solomon with the Cauchy matrix of ISA-L, which is
// also that of Hadoop's coders (its package io.erasurecode), and XOR. Pure functions; used by EcReader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/result.h"
#include "lib/hdfs/block.h"

namespace paceline::hdfs {

// Fills `out` with bytes of unit `lost`, from the same bytes of the units `available`: as many as there are data units,
// with `contents` of the size of `out` each, zeros behind the end of a unit. kUnimplemented, naming the policy, for a
// codec that is not known.
Status EcCompute(const EcPolicy& policy, std::span<const uint32_t> available,
                 std::span<const std::vector<std::byte>> contents, uint32_t lost, std::span<std::byte> out);

}  // namespace paceline::hdfs
