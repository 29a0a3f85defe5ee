// Equal up to the single precision that traces have.
#pragma once

#include <gtest/gtest.h>

namespace paceline::analysis {

inline constexpr double kNear = 2e-5;  // relative

inline void ExpectClose(double actual, double expected, double tolerance = kNear) {
  EXPECT_NEAR(actual, expected, tolerance * expected);
}

}  // namespace paceline::analysis
