// Bytes that differ at every place that a test may confuse.
#pragma once

#include <cstddef>
#include <string>

namespace paceline::hdfs {

inline std::string SampleBytes(size_t size) {
  std::string bytes;
  for (size_t i = 0; i < size; ++i) bytes.push_back(static_cast<char>(i * 37 + i / 512 * 11));
  return bytes;
}

}  // namespace paceline::hdfs
