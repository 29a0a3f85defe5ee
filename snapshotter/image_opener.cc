#include "snapshotter/image_opener.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/filesystem.h"
#include "lib/blocks/format/erofs_reader.h"

namespace paceline::snapshotter {
namespace {

Result<blocks::LayerSource> LoadIndex(const blocks::BlockLayer& layer, blocks::BlobStore& store,
                                      const blocks::ChunkCache& cache, Deadline deadline) {
  Result<std::string> bytes = cache.KeptIndex(layer.index.digest);
  if (!bytes.ok()) bytes = blocks::ReadWholeBlob(store, layer.index, deadline);
  if (!bytes.ok()) return bytes.status();
  const auto shared = std::make_shared<const std::string>(*std::move(bytes));
  ASSIGN_OR_RETURN(const blocks::LayerIndex index, blocks::LayerIndex::Parse(shared));
  if (index.header().diff_id != layer.diff_id) return DataLossError("the index is that of another layer");
  const auto is_same = [](const blocks::Descriptor& data, const blocks::BlobEntry& blob) {
    return data.digest == blob.digest && data.size_bytes == blob.size_bytes;
  };
  if (!std::equal(layer.data.begin(), layer.data.end(), index.blobs().begin(), index.blobs().end(), is_same)) {
    return DataLossError("the index names other blobs than the manifest");
  }
  // The kernel parses the metadata: nothing but what our converter makes gets there.
  ASSIGN_OR_RETURN(std::string metadata, index.Metadata());
  RETURN_IF_ERROR(blocks::ErofsReader::Open(std::move(metadata), index.header()).status());
  return blocks::LayerSource{layer.index.digest, shared};
}

}  // namespace

Result<blocks::BlockImageManifest> LoadManifest(blocks::BlobStore& store, const blocks::Digest& digest,
                                                const std::string& manifests_folder, Deadline deadline) {
  RealFileSystem files;
  const std::string path = manifests_folder + "/" + digest.Hex();
  const Result<std::string> kept = files.ReadFile(path, blocks::kMaxManifestBytes);
  if (kept.ok() && blocks::Sha256Of(*kept) == digest) return blocks::ParseImageManifest(*kept);
  ASSIGN_OR_RETURN(const blocks::StoredManifest stored, store.GetManifest(digest.ToString(), deadline));
  if (stored.descriptor.digest != digest) return DataLossError("the store gave another manifest than was asked for");
  // Only the next start without network would miss it.
  if (files.MakeDirectories(manifests_folder, 0700).ok()) {
    files.WriteFileAtomically(path, stored.bytes, 0600).IgnoreError();
  }
  return blocks::ParseImageManifest(stored.bytes);
}

Result<std::unique_ptr<blocks::ImageReader>> OpenImage(const blocks::BlockImageManifest& image,
                                                       std::shared_ptr<blocks::BlobStore> store,
                                                       const blocks::ChunkCache& cache, blocks::ChunkEngine& engine,
                                                       Deadline deadline) {
  std::vector<blocks::LayerSource> layers;
  for (size_t number = 0; number < image.layers.size(); ++number) {
    Result<blocks::LayerSource> layer = LoadIndex(image.layers[number], *store, cache, deadline);
    if (!layer.ok()) return layer.status().Annotate(fmt::format("layer {}", number));
    layers.push_back(*std::move(layer));
  }
  return engine.Open(layers, std::move(store));
}

}  // namespace paceline::snapshotter
