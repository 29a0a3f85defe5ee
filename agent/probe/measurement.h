// What one check of a probe gives, and how a rate is taken. Measurements run on real time: the clock only says how long
// they go on. Callers: the checks of agent/probe. Pure values and one template.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/api/node_probe.h"
#include "lib/base/clock.h"

namespace paceline::agent {

struct Measurement {
  std::vector<api::ProbeFigure> figures;
  std::optional<api::MissingProbe> missing;
};

// `name` is one of api::kProbeMeasures; the unit is that of the table.
inline api::ProbeFigure FigureOf(std::string_view name, double value, const Clock& clock,
                                 const std::string& detail = {}) {
  const api::ProbeMeasure* measure = api::FindProbeMeasure(name);
  return {std::string(name), value, std::string(measure == nullptr ? "" : measure->unit), clock.WallNow(),
          detail.substr(0, api::kMaxProbeMessageBytes)};
}

inline Measurement Missing(api::ProbeCheck check, api::ProbeGap gap, const std::string& message) {
  return {{}, api::MissingProbe{check, gap, message.substr(0, api::kMaxProbeMessageBytes)}};
}

// Calls `burst`, which gives how much it has done, until `length` is over; amount per second. At least one call.
template <typename Burst>
double RatePerSecond(const Clock& clock, Duration length, Burst burst) {
  const TimePoint start = clock.Now();
  double amount = 0;
  Duration elapsed{};
  do {
    amount += burst();
    elapsed = clock.Now() - start;
  } while (elapsed < length);
  return amount / std::max(ToSeconds(elapsed), 1e-9);
}

// The middle of an odd number of values, which must not be none.
inline double MiddleOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace paceline::agent
