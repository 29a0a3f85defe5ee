// Reads what PyTorch's profiler (Kineto) wrote, a Chrome trace file per rank, as the trace of a job's steps.
//
// The operations are those that the training program names: ranges of
// `torch.profiler.record_function("forward-compute")` and so on, within the profiler's steps (docs/what-if.md). Kernels
// alone do not say which micro-batch or direction they belong to. Called by `pacectl whatif` and tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/whatif/trace.h"
#include "lib/base/result.h"

namespace paceline::analysis {

struct KinetoOp {
  OpType type = OpType::kForwardCompute;
  int64_t step = 0;
  int64_t start_ns = 0;  // on the clock of the file's host
  int64_t duration_ns = 0;
};

// One rank's file.
struct KinetoRank {
  int32_t rank = 0;
  std::vector<KinetoOp> ops;  // by start; those within a step
  // Begin of each step, ascending by step.
  std::vector<std::pair<int64_t, int64_t>> step_starts_ns;
};

// The text of a file. Ranges on the device are preferred to those of the host, which end when work is launched, not
// when it is done. kInvalidArgument says what is missing: JSON, the rank, steps, named operations. Pure.
Result<KinetoRank> ParseKinetoTrace(const std::string& json);

// Puts ranks together: Megatron's order (tensor parallel, data parallel, stages from the inside out) gives each its
// place; ranks that are not the first of their tensor-parallel group are left out. Clocks are taken to agree.
// kInvalidArgument for model chunks (vpp_size above 1), a rank that is there twice or not at all, and for data
// parallelism without an operation that waits for all ranks. Pure.
Result<StepTrace> MergeKinetoRanks(const std::vector<KinetoRank>& ranks, const JobShape& shape);

// Both, from files. Errors name the file. Blocks for the disk; memory is that of the largest file and the named ranges.
Result<StepTrace> ReadKinetoTraces(const std::vector<std::string>& paths, const std::string& metadata_path);

}  // namespace paceline::analysis
