#include "lib/blocks/format/manifest.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lib/base/json.h"
#include "lib/blocks/format/layer_index.h"

namespace paceline::blocks {
namespace {

constexpr char kDiffIdKey[] = "dev.paceline.layer.diff-id";
constexpr char kSourceKey[] = "dev.paceline.layer.source";
constexpr char kConfigKey[] = "dev.paceline.block-image.config";
constexpr char kPlatformKey[] = "dev.paceline.block-image.platform";

Json DescriptorValue(const Descriptor& descriptor) {
  Json value = {
      {"mediaType", descriptor.media_type}, {"digest", descriptor.digest.ToString()}, {"size", descriptor.size_bytes}};
  if (!descriptor.annotations.empty()) value["annotations"] = descriptor.annotations;
  return value;
}

Json EmptyDescriptor() { return DescriptorValue({kEmptyMediaType, Sha256Of(kEmptyConfig), kEmptyConfig.size(), {}}); }

void AppendLayer(const BlockLayer& layer, Json* layers) {
  Descriptor index = layer.index;
  index.annotations = {{kDiffIdKey, layer.diff_id.ToString()}};
  if (layer.source) index.annotations[kSourceKey] = layer.source->ToString();
  layers->push_back(DescriptorValue(index));
  for (Descriptor data : layer.data) {
    data.annotations.clear();
    layers->push_back(DescriptorValue(data));
  }
}

Json Manifest(const char* artifact_type, Json layers) {
  if (layers.empty()) layers.push_back(EmptyDescriptor());
  return {{"schemaVersion", 2},
          {"mediaType", kManifestMediaType},
          {"artifactType", artifact_type},
          {"config", EmptyDescriptor()},
          {"layers", std::move(layers)}};
}

Status Wrong(const std::string& what) { return DataLossError("manifest: " + what); }

Result<Digest> DigestAt(const Json& json, const std::vector<std::string>& path) {
  const Json* value = FindJsonAt(json, path);
  if (value == nullptr || !value->is_string()) return Wrong(path.back() + " is missing");
  Result<Digest> digest = ParseDigest(value->get_ref<const std::string&>());
  if (!digest.ok()) return Wrong(path.back() + ": " + digest.status().message());
  return digest;
}

// The layers of a manifest of either kind.
Result<std::vector<BlockLayer>> ReadLayers(const Json& json) {
  const Json* list = FindJson(json, "layers");
  if (list == nullptr || !list->is_array()) return Wrong("layers are missing");
  std::vector<BlockLayer> layers;
  for (const Json& item : *list) {
    ASSIGN_OR_RETURN(Descriptor descriptor, ParseDescriptor(item));
    if (descriptor.media_type == kEmptyMediaType) continue;
    if (descriptor.media_type == kIndexMediaType) {
      if (layers.size() == kMaxLayers) return Wrong(fmt::format("more than {} layers", kMaxLayers));
      BlockLayer& layer = layers.emplace_back();
      ASSIGN_OR_RETURN(layer.diff_id, DigestAt(item, {"annotations", kDiffIdKey}));
      if (FindJsonAt(item, {"annotations", kSourceKey}) != nullptr) {
        ASSIGN_OR_RETURN(layer.source, DigestAt(item, {"annotations", kSourceKey}));
      }
      layer.index = std::move(descriptor);
    } else if (descriptor.media_type == kDataMediaType && !layers.empty()) {
      if (layers.back().data.size() == kMaxBlobs) return Wrong(fmt::format("more than {} blobs of a layer", kMaxBlobs));
      layers.back().data.push_back(std::move(descriptor));
    } else {
      return Wrong("a layer of type " + descriptor.media_type.substr(0, 100) + " is out of place");
    }
  }
  return layers;
}

Result<Json> ReadManifest(std::string_view text, std::string_view artifact_type) {
  if (text.size() > kMaxManifestBytes) return Wrong(fmt::format("{} bytes are too many", text.size()));
  Result<Json> json = ParseJson(text);
  if (!json.ok()) return Wrong(json.status().message());
  const Result<std::string> type = JsonStringOr(*json, "artifactType", "");
  if (!type.ok() || *type != artifact_type) return Wrong("artifactType is not " + std::string(artifact_type));
  return json;
}

}  // namespace

Result<Descriptor> ParseDescriptor(const Json& json) {
  Descriptor descriptor;
  Result<std::string> media_type = JsonString(json, "mediaType");
  Result<int64_t> size = JsonInt(json, "size");
  if (!media_type.ok()) return Wrong(media_type.status().message());
  if (!size.ok()) return Wrong(size.status().message());
  if (*size < 0) return Wrong("a negative size");
  descriptor.media_type = std::move(*media_type);
  descriptor.size_bytes = static_cast<uint64_t>(*size);
  ASSIGN_OR_RETURN(descriptor.digest, DigestAt(json, {"digest"}));
  return descriptor;
}

std::string EncodeImageManifest(const BlockImageManifest& image) {
  Json layers = Json::array();
  for (const BlockLayer& layer : image.layers) AppendLayer(layer, &layers);
  Json json = Manifest(kImageArtifactType, std::move(layers));
  json["subject"] = DescriptorValue({image.subject.media_type, image.subject.digest, image.subject.size_bytes, {}});
  json["annotations"] = {{kPlatformKey, image.platform}};
  if (image.config) json["annotations"][kConfigKey] = image.config->ToString();
  return DumpJson(json);
}

std::string EncodeLayerManifest(const BlockLayer& layer) {
  Json layers = Json::array();
  AppendLayer(layer, &layers);
  return DumpJson(Manifest(kLayerArtifactType, std::move(layers)));
}

Result<BlockImageManifest> ParseImageManifest(std::string_view text) {
  ASSIGN_OR_RETURN(const Json json, ReadManifest(text, kImageArtifactType));
  BlockImageManifest image;
  const Json* subject = FindJson(json, "subject");
  if (subject == nullptr) return Wrong("subject is missing");
  ASSIGN_OR_RETURN(image.subject, ParseDescriptor(*subject));
  if (FindJsonAt(json, {"annotations", kConfigKey}) != nullptr) {
    ASSIGN_OR_RETURN(image.config, DigestAt(json, {"annotations", kConfigKey}));
  }
  const Json* platform = FindJsonAt(json, {"annotations", kPlatformKey});
  if (platform != nullptr && platform->is_string()) image.platform = platform->get<std::string>();
  ASSIGN_OR_RETURN(image.layers, ReadLayers(json));
  return image;
}

Result<BlockLayer> ParseLayerManifest(std::string_view text) {
  ASSIGN_OR_RETURN(const Json json, ReadManifest(text, kLayerArtifactType));
  ASSIGN_OR_RETURN(std::vector<BlockLayer> layers, ReadLayers(json));
  if (layers.size() != 1) return Wrong(fmt::format("{} layers instead of one", layers.size()));
  return std::move(layers[0]);
}

std::string ImageTag(const Digest& manifest) { return "paceline-image-v1-" + manifest.Hex(); }

std::string LayerTag(const Digest& diff_id, uint32_t max_chunk_blocks) {
  return fmt::format("paceline-layer-v1-{}k-{}", max_chunk_blocks * kBlockBytes / 1024, diff_id.Hex());
}

std::string ChainTag(const Digest& chain_id, uint32_t max_chunk_blocks) {
  return fmt::format("paceline-chain-v1-{}k-{}", max_chunk_blocks * kBlockBytes / 1024, chain_id.Hex());
}

Digest ChainId(const std::optional<Digest>& parent, const Digest& diff_id) {
  return parent ? Sha256Of(parent->ToString() + " " + diff_id.ToString()) : diff_id;
}

}  // namespace paceline::blocks
