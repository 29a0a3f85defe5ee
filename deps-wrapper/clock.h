// Time for a program that brings nothing of lib/base along, since it must run in any image. Stateless.
#pragma once

#include <cstdint>

namespace paceline::deps_wrapper {

// Milliseconds of the monotonic clock.
int64_t NowMs();

// Seconds since 1970, with decimals: for the stage marker.
double WallSeconds();

}  // namespace paceline::deps_wrapper
