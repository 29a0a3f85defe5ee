// A folder of its own for the rings of one test, removed with all that is in it. Not thread-safe.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "lib/ring/writer.h"

namespace paceline::ring {

class RingFolder {
 public:
  RingFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "paceline-ring.XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~RingFolder() {
    std::error_code ignored;  // the folder of a test: what cannot be removed is the system's to clean
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

  // The only ring in it; "" when there is none.
  std::string OnlyRing() const {
    std::string found;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      EXPECT_EQ(found, "") << "more than one ring";
      found = entry.path().string();
    }
    return found;
  }

  // Small enough to wrap quickly.
  RingOptions SmallOptions() const {
    RingOptions options;
    RingDefaultOptions(&options, path_.c_str());
    options.names = 16;
    options.comms = 4;
    options.calls = 8;
    options.proxies = 16;
    options.writers = 3;
    options.records_per_writer = 64;
    return options;
  }

 private:
  std::string path_;
};

}  // namespace paceline::ring
