// Durations and byte sizes as people write them in configuration: "1m30s", "512MiB". Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/clock.h"

namespace paceline {

// Numbers with the units ns, us, ms, s, m, h and d, put together without blanks: "10s", "1m30s", "1.5h", "500ms"; "0"
// needs no unit. Not negative. kInvalidArgument with a sentence that shows the right form.
Result<Duration> ParseDuration(std::string_view text);
// In whole units, largest first, as ParseDuration reads it back exactly: "1m30s", "1s500ms", "0s", "2d".
std::string FormatDuration(Duration duration);

struct ByteSize {
  uint64_t bytes = 0;
  friend auto operator<=>(const ByteSize&, const ByteSize&) = default;
};

// A number and a unit: B, KiB, MiB, GiB, TiB, PiB (powers of 1024; "Ki", "Mi", ... as in Kubernetes mean the same) or
// kB, MB, GB, TB, PB (powers of 1000). Fractions are fine where whole bytes come out: "1.5GiB". "0" needs no unit.
// kInvalidArgument with a sentence that shows the right form.
Result<ByteSize> ParseByteSize(std::string_view text);
// Exact, in the largest power of 1024 that divides it: "512MiB", "1000B".
std::string FormatByteSize(ByteSize size);

}  // namespace paceline
