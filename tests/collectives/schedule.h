// What a rank of the emulated training job does, as text: items separated by ';', done again in each iteration.
//
//   allreduce:COMM:COUNT  reducescatter:COMM:COUNT  allgather:COMM:COUNT    by the members of COMM
//   exchange:COMM:COUNT   each member sends to the next and receives from the previous, as one group
//   pass:COMM:A>B:COUNT   world rank A sends to world rank B
//   compute:MICROSECONDS  burn:MICROSECONDS  sync
//
// compute takes time and no processor, so that many ranks fit on one machine; burn takes time of a processor, and
// longer where there is less of it.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "tests/collectives/communicator.h"

namespace paceline::collectives {

struct Item {
  enum class Kind { kCollective, kExchange, kPass, kCompute, kBurn, kSync };
  Kind kind = Kind::kSync;
  Function function = Function::kAllReduce;
  std::string comm;
  uint64_t count = 0;  // elements, or microseconds
  uint32_t from = 0, to = 0;
};

// kInvalidArgument names the item that is not understood.
Result<std::vector<Item>> ParseSchedule(std::string_view text);
// "NAME=0,1,2": a communicator and its world ranks in ring order.
Result<CommDescription> ParseComm(std::string_view text, uint32_t index);

}  // namespace paceline::collectives
