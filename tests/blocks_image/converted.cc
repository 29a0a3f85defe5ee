#include "tests/blocks_image/converted.h"

#include "lib/base/check.h"
#include "lib/blocks/image/image_check.h"

namespace paceline::blocks {

LayerBench::LayerBench() {
  Result<std::unique_ptr<BlobStore>> store = OpenFolderStore(folder_ / "store", StoreAccess::kWrite);
  CHECK(store.ok());
  store_ = std::move(*store);
}

Result<ConvertedLayer> LayerBench::Convert(const std::string& tar, const std::string& blob, LowerTree* lower,
                                           int threads) {
  const std::string& bytes = blob.empty() ? tar : blob;
  SourceBlob source{NewStringSource(bytes), Sha256Of(bytes), bytes.size(), Sha256Of(tar)};
  options.threads = threads;
  ConvertProgress progress;
  return ConvertLayer(std::move(source), lower, *store_, options, clock_, &progress, {});
}

Result<std::string> LayerBench::Image(const BlockLayer& layer) {
  const std::string path = folder_ / ("image" + std::to_string(images_++) + ".erofs");
  RETURN_IF_ERROR(WriteLayerImage(*store_, layer, path, clock_, {}));
  return path;
}

}  // namespace paceline::blocks
