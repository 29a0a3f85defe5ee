// The mean of a list of numbers. Pure.
#pragma once

#include <numeric>
#include <vector>

namespace paceline::analysis {

// NaN for none.
inline double Mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace paceline::analysis
