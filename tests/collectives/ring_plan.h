// What the kernel of a ring collective does on one channel, as a list of moves; the numbers of steps follow from it.
//
// The order is NCCL's for the Simple protocol: per loop an all-reduce sends and receives 2(n-1) chunks, reduce-scatter
// and all-gather n-1. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

namespace paceline::collectives {

enum class Function { kAllReduce, kReduceScatter, kAllGather, kSend, kRecv };

const char* FunctionName(Function function);

// One move of a chunk. Offsets and counts are in elements of the channel's whole buffers.
struct Move {
  bool receives = false;    // waits for a chunk from the previous rank
  bool sends = false;       // gives the result to the next rank
  bool uses_input = false;  // adds (or, when nothing is received, takes) the own input
  bool writes_output = false;
  uint64_t input_offset = 0;
  uint64_t output_offset = 0;
  uint64_t count = 0;
};

struct RingPlace {
  uint32_t rank = 0;  // place in the ring
  uint32_t ranks = 1;
  uint32_t channel = 0;
  uint32_t channels = 1;
};

// `count` as in NCCL's call: elements of the whole buffer for all-reduce, of one rank's part for the other two, of the
// message for send and recv. `chunk` is the most elements of a step.
std::vector<Move> PlanMoves(Function function, const RingPlace& place, uint64_t count, uint64_t chunk);

}  // namespace paceline::collectives
