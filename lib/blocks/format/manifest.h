// The manifests of converted images and layers: docs/formats/block-image.md, section 5. Pure functions between JSON and
// plain values; called by the converter, by inspection and by whoever mounts an image.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/json.h"
#include "lib/base/result.h"
#include "lib/blocks/format/blob_store.h"
#include "lib/blocks/format/digest.h"

namespace paceline::blocks {

inline constexpr char kManifestMediaType[] = "application/vnd.oci.image.manifest.v1+json";
inline constexpr char kImageArtifactType[] = "application/vnd.paceline.block-image.v1";
inline constexpr char kLayerArtifactType[] = "application/vnd.paceline.block-layer.v1";
inline constexpr char kIndexMediaType[] = "application/vnd.paceline.block-layer.index.v1";
inline constexpr char kDataMediaType[] = "application/vnd.paceline.block-layer.data.v1";
inline constexpr char kEmptyMediaType[] = "application/vnd.oci.empty.v1+json";
// The whole of the empty config blob.
inline constexpr std::string_view kEmptyConfig = "{}";
// More layers than any runtime mounts.
inline constexpr size_t kMaxLayers = 1024;

// One layer of a converted image.
struct BlockLayer {
  Digest diff_id;
  std::optional<Digest> source;  // the original layer blob; absent in a layer manifest
  Descriptor index;              // annotations are made from the two above and are not kept here
  std::vector<Descriptor> data;  // in the order of the index's blob table
  friend bool operator==(const BlockLayer&, const BlockLayer&) = default;
};

struct BlockImageManifest {
  Descriptor subject;              // the original image manifest
  std::optional<Digest> config;    // of the original image
  std::string platform;            // "linux/amd64"
  std::vector<BlockLayer> layers;  // bottom first
};

// Deterministic. The result is what is stored; its digest names the converted image.
std::string EncodeImageManifest(const BlockImageManifest& image);
std::string EncodeLayerManifest(const BlockLayer& layer);

// kDataLoss for what is no such manifest, naming the field.
Result<BlockImageManifest> ParseImageManifest(std::string_view json);
Result<BlockLayer> ParseLayerManifest(std::string_view json);

// Media type, digest and size; annotations are left out. kDataLoss, as above.
Result<Descriptor> ParseDescriptor(const Json& json);

// Tags, section 5. `manifest` is the digest of the original image manifest of one platform.
std::string ImageTag(const Digest& manifest);
std::string LayerTag(const Digest& diff_id, uint32_t max_chunk_blocks);
std::string ChainTag(const Digest& chain_id, uint32_t max_chunk_blocks);

// OCI's ChainID of the layer `diff_id` above `parent` (absent for the bottom layer).
Digest ChainId(const std::optional<Digest>& parent, const Digest& diff_id);

}  // namespace paceline::blocks
