#include "analysis/whatif/trace.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace paceline::analysis {

Status CheckShape(const JobShape& shape) {
  const std::pair<const char*, int> sizes[] = {{"dp_size", shape.dp_size},   {"dsp_size", shape.dsp_size},
                                               {"pp_size", shape.pp_size},   {"tp_size", shape.tp_size},
                                               {"vpp_size", shape.vpp_size}, {"world_size", shape.world_size}};
  for (const auto& [name, value] : sizes) {
    if (value < 1) return InvalidArgumentError(fmt::format("{} is {}, expected 1 or more", name, value));
  }
  constexpr int kMaxRanks = 32767;  // 16 bit columns
  if (shape.dp_size > kMaxRanks || shape.pp_size > kMaxRanks) {
    return InvalidArgumentError(fmt::format("dp_size and pp_size may be {} at most", kMaxRanks));
  }
  const int64_t product = int64_t{shape.dp_size} * shape.dsp_size * shape.pp_size * shape.tp_size;
  if (product == shape.world_size) return Status();
  return InvalidArgumentError(
      fmt::format("world_size is {}, but dp_size * dsp_size * pp_size * tp_size is {}", shape.world_size, product));
}

Status CheckTrace(const StepTrace& trace) {
  RETURN_IF_ERROR(CheckShape(trace.shape));
  if (trace.rows() == 0) return InvalidArgumentError("the trace has no rows");
  for (size_t i = 0; i < trace.rows(); i++) {
    if (trace.dp_rank[i] < 0 || trace.dp_rank[i] >= trace.shape.dp_size) {
      return InvalidArgumentError(
          fmt::format("row {}: dp_rank {} with a dp_size of {}", i, trace.dp_rank[i], trace.shape.dp_size));
    }
    if (trace.stage[i] < 0 || trace.stage[i] >= trace.shape.pp_size) {
      return InvalidArgumentError(
          fmt::format("row {}: stage {} with a pp_size of {}", i, trace.stage[i], trace.shape.pp_size));
    }
    if (!std::isfinite(trace.start[i]) || !std::isfinite(trace.duration[i]) || trace.duration[i] < 0) {
      return InvalidArgumentError(
          fmt::format("row {}: start {} and duration {} are no times", i, trace.start[i], trace.duration[i]));
    }
    if (trace.seq[i] < 0) return InvalidArgumentError(fmt::format("row {}: seq_id {}", i, trace.seq[i]));
  }
  return Status();
}

}  // namespace paceline::analysis
