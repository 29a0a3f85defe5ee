// Shows the striped files of another filesystem as what they are meant to be, and writes such files when asked to:
// docs/formats/hdfs-striped.md. Everything else goes through unchanged. Internal to lib/hdfs; made by OpenFileSystem.
#pragma once

#include <memory>

#include "lib/hdfs/byte_budget.h"
#include "lib/hdfs/file_system.h"

namespace paceline::hdfs {

struct StripeRules {
  bool writes_stripes = false;
  uint32_t files = 8;
  uint64_t unit_bytes = 1 << 20;
};

// `budget` is what writers may hold, those of `plain` included.
std::unique_ptr<FileSystem> MakeStripedFileSystem(std::unique_ptr<FileSystem> plain, const StripeRules& rules,
                                                  std::shared_ptr<ByteBudget> budget, const Clock& clock);

}  // namespace paceline::hdfs
