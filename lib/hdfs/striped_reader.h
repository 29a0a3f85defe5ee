// Reads a striped file. Internal to lib/hdfs; made by StripedFileSystem. Thread-safe.
#pragma once

#include <memory>
#include <vector>

#include "lib/base/mutex.h"
#include "lib/hdfs/read_plan.h"
#include "lib/hdfs/stripe_manifest.h"

namespace paceline::hdfs {

class StripedReader final : public Reader {
 public:
  // Opens every stripe of every set; the folders lie in `directory`. kDataLoss when one is not there or too short.
  static Result<std::unique_ptr<Reader>> Open(FileSystem& plain, const std::string& directory,
                                              const StripeManifest& manifest, Deadline deadline);

  uint64_t length_bytes() const override { return length_; }
  Result<size_t> Read(uint64_t offset, std::span<std::byte> out, Deadline deadline) override;
  void Prefetch(ByteRange range) override;

 private:
  struct Set {
    StripeSet layout;
    uint64_t start = 0;  // in the file
    std::vector<std::unique_ptr<Reader>> stripes;
  };

  std::vector<Set> sets_;
  uint64_t length_ = 0;
  Mutex mutex_;
  // Over all stripes: each stripe's own reader sees only its share, and would begin when it is its turn.
  ReadWindow window_ GUARDED_BY(mutex_){{}};
};

}  // namespace paceline::hdfs
