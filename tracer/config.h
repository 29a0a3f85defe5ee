// Settings of the NCCL plugin, all from the environment of the training process: nobody else can set them there.
//
// Read once, when the first communicator is made. Not thread-safe against setenv, as nothing is.
#pragma once

#include <stdint.h>

struct TracerConfig {
  const char* folder;           // PACELINE_TRACE_DIR; default /run/paceline/trace
  const char* run;              // PACELINE_RUN, or NULL
  const char* forward;          // PACELINE_TRACE_FORWARD: library of another profiler plugin, or NULL
  int32_t world_rank;           // RANK, OMPI_COMM_WORLD_RANK or SLURM_PROCID; -1: none of them
  uint32_t mask;                // PACELINE_TRACE_MASK; 0: the default of the interface in use
  uint32_t budget_permille;     // PACELINE_TRACE_BUDGET_PERMILLE of a thread's time; default 50, 0: no limit
  uint32_t records_per_writer;  // PACELINE_TRACE_RECORDS, rounded up to a power of two; default 8192
};

void ReadTracerConfig(struct TracerConfig* config);
