// What `pacectl trace top` shows of a run at one moment: each communicator, how fast it goes, what is open and who is
// behind. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "analysis/trace_model.h"
#include "lib/base/clock.h"

namespace paceline::cli {

struct TraceLook {
  analysis::Tables tables;
  TimePoint at;
};

// Rates need a look before; null: none yet. For a person; ends with a newline.
std::string RenderTop(const TraceLook& now, const TraceLook* before);
// The same for programs: {communicators: [...], processes: {Running: 7, ...}, notRunning: [...], missing: [...]}.
nlohmann::json TopValue(const TraceLook& now, const TraceLook* before);

}  // namespace paceline::cli
