// What a reader finds in a ring with one communicator, as the tests of those who look at rings want it: times in
// nanoseconds, calls that began and moved so many milliseconds ago. Pure.
#pragma once

#include <cstring>
#include <string>

#include "lib/ring/reader.h"

namespace paceline::ring {

inline constexpr uint64_t kMs = 1'000'000;  // of the ring's time, which is in nanoseconds here
inline constexpr uint64_t kNow = 100'000 * kMs;

inline std::string Name(uint16_t index) { return index == 1 ? "AllReduce" : index == 2 ? "ncclFloat32" : ""; }

inline Tables OneComm() {
  Tables tables;
  tables.header.world_rank = 5;
  std::strcpy(tables.header.run, "run-1");
  Entry<RingComm> comm;
  comm.index = 3;
  comm.value.state = RING_OPEN;
  comm.value.generation = 1;
  comm.value.comm_id = 77;
  comm.value.rank = 2;
  comm.value.nranks = 4;
  std::strcpy(comm.value.name, "dp");
  tables.comms.push_back(comm);
  return tables;
}

inline RingCall& AddCall(Tables& tables, uint64_t index, uint64_t start_ms_ago, uint64_t last_ms_ago) {
  Entry<RingCall> entry;
  entry.index = static_cast<uint32_t>(tables.calls.size()) + 10;
  RingCall& call = entry.value;
  call.state = RING_STOPPED;
  call.kind = 2;
  call.comm = 3;
  call.index = index;
  call.count = 1000;
  call.func = 1;
  call.datatype = 2;
  call.proxies = 4;
  call.start = kNow - start_ms_ago * kMs;
  call.last = kNow - last_ms_ago * kMs;
  tables.calls.push_back(entry);
  return tables.calls.back().value;
}

}  // namespace paceline::ring
