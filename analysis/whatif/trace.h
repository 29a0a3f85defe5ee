// The trace of a job's sampled steps: one row per operation and worker, where a worker is one rank per (data-parallel
// rank, pipeline stage), and the job's shape. The common form that all readers make and that the simulation takes.
//
// Plain values; used by trace_file.h (readers) and lanes.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/whatif/op_type.h"
#include "lib/base/result.h"

namespace paceline::analysis {

// How the job is spread. world = dp * dsp * pp * tp.
struct JobShape {
  std::string trial_name;
  int64_t run_id = 0;
  int dp_size = 1;   // data parallel
  int dsp_size = 1;  // data parallel beyond the traced ranks
  int pp_size = 1;   // pipeline stages
  int tp_size = 1;   // tensor parallel; only one rank of such a group is traced
  int vpp_size = 1;  // model chunks per stage
  int world_size = 1;
};

// kInvalidArgument, naming the field, for a size below 1 or a world that is not the product.
Status CheckShape(const JobShape& shape);

// Rows as columns, all of the same length. -1 where a number does not apply.
struct StepTrace {
  JobShape shape;
  std::vector<int16_t> dp_rank;
  std::vector<int16_t> stage;
  std::vector<int32_t> rank;  // global
  std::vector<int64_t> step;
  std::vector<OpType> type;
  std::vector<float> start;     // seconds from the step's begin
  std::vector<float> duration;  // seconds
  std::vector<int32_t> seq;     // the how-manieth of its type in (step, rank)
  std::vector<int16_t> mc;      // model chunk within the stage
  std::vector<int16_t> gmc;     // model chunk within the model

  size_t rows() const { return type.size(); }
};

// kInvalidArgument, naming the first bad row: ranks and stages outside the shape, times that are no number or negative
// durations.
Status CheckTrace(const StepTrace& trace);

}  // namespace paceline::analysis
