// What `pacectl image convert --report FILE` leaves for the program that waits for it:
// docs/formats/conversion-report.md. Called by the image commands. Thread-safe: no state.
#pragma once

#include <string>

#include "lib/blocks/image/image_converter.h"

namespace paceline::cli {

// Of a conversion that took `seconds`, and of one that failed. One line, at most 4096 bytes. Pure.
std::string ConversionReport(const blocks::ImageReport& report, double seconds);
std::string FailureReport(const Status& failure);

// Writes into the file itself, not over it by a rename: in a container it is a mount. Blocks for the disk; errors are
// those of open and write.
Status WriteReport(const std::string& path, const std::string& report);

}  // namespace paceline::cli
