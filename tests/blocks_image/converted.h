// Converts tar streams in a store of its own, for tests of the converter.
#pragma once

#include <memory>
#include <string>

#include "lib/base/clock.h"
#include "lib/blocks/format/folder_store.h"
#include "lib/blocks/image/layer_converter.h"
#include "tests/fakes/temporary_folder.h"

namespace paceline::blocks {

class LayerBench {
 public:
  LayerBench();

  // Of an uncompressed tar stream, or of `blob`, which decompresses to it.
  Result<ConvertedLayer> Convert(const std::string& tar, const std::string& blob = "", LowerTree* lower = nullptr,
                                 int threads = 2);
  // The EROFS image of a layer as one file; its path.
  Result<std::string> Image(const BlockLayer& layer);

  BlobStore& store() { return *store_; }
  const fakes::TemporaryFolder& folder() const { return folder_; }
  ConvertOptions options;

 private:
  fakes::TemporaryFolder folder_;
  RealClock clock_;
  std::unique_ptr<BlobStore> store_;
  int images_ = 0;
};

}  // namespace paceline::blocks
