// From a ring's tables to what the analysis reads.
//
// Pure but for the names, which the reader looks up; one thread, that of the reader.
#pragma once

#include <functional>
#include <string>

#include "analysis/trace_model.h"
#include "lib/ring/reader.h"

namespace paceline::analysis {

// The ring's clock at the moment of a look.
struct RingTime {
  uint64_t now = 0;  // in the ring's time
  double ns_per_unit = 1;

  // Since `time`; zero for what lies ahead.
  Duration Since(uint64_t time) const;
};

// Ticks of the TSC at this moment; 0 on machines without one.
uint64_t ReadTicks();

// From the pair in the header and one of now: `ticks` from ReadTicks, `monotonic` from the clock.
RingTime RingTimeOf(const RingHeader& header, uint64_t ticks, TimePoint monotonic);

// Name of a name's index.
using NameLookup = std::function<std::string(uint16_t)>;

// Communicators, the calls that go on and the last `kept_calls` operations of each communicator, and the network
// operations that go on. Torn entries are left out. State, node and thread are the caller's to fill in.
ProcessView ViewOf(const ring::Tables& tables, const RingTime& time, const NameLookup& name, size_t kept_calls = 16);

// How a process that has ended did so: kFinished when its ring or all its communicators are closed, else kDead.
ProcessState EndStateOf(const ring::Tables& tables);

}  // namespace paceline::analysis
