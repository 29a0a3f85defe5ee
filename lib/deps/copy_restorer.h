// Puts a snapshot back by writing its files: for machines where it cannot be mounted. The sentinels come last, so that
// who is stopped on the way leaves a tree that nobody takes for whole. docs/formats/dependency-snapshot.md, section 5.
//
// Called by `pacectl deps restore --copy`. Blocks for store and disk; several threads of its own. Bounded memory: the
// layer's metadata and index, a mebibyte and a file's chunk per thread.
#pragma once

#include <atomic>
#include <stop_token>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/blocks/format/blob_store.h"
#include "lib/blocks/format/manifest.h"

namespace paceline::deps {

struct CopyOptions {
  std::vector<std::string> roots;  // the snapshot's capture directories
  int threads = 1;
  Duration store_limit = std::chrono::minutes(2);
};

struct CopyReport {
  std::atomic<uint64_t> files{0}, bytes{0};
};

// kDataLoss for a layer that is damaged or that holds something outside of the roots; errors of writing. Then the roots
// hold a part of the snapshot, and a mark that says so.
Status RestoreByCopy(blocks::BlobStore& store, const blocks::BlockLayer& layer, const CopyOptions& options,
                     CopyReport* report, const Clock& clock, const std::stop_token& stop);

}  // namespace paceline::deps
