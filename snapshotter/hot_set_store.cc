#include "snapshotter/hot_set_store.h"

#include <nlohmann/json.hpp>

#include "lib/base/json.h"
#include "lib/blocks/format/manifest.h"

namespace paceline::snapshotter {
namespace {

constexpr uint64_t kMaxSharedSetBytes = 64 << 20;

Json DescriptorJson(const blocks::Descriptor& descriptor) {
  return {
      {"mediaType", descriptor.media_type}, {"digest", descriptor.digest.ToString()}, {"size", descriptor.size_bytes}};
}

}  // namespace

Result<HotSet> LoadHotSet(blocks::BlobStore& store, const blocks::Digest& image, Deadline deadline) {
  ASSIGN_OR_RETURN(const blocks::StoredManifest stored, store.GetManifest(blocks::HotSetTag(image), deadline));
  Result<Json> manifest = ParseJson(stored.bytes);
  if (!manifest.ok()) return DataLossError("hot set manifest: " + manifest.status().message());
  if (JsonStringOr(*manifest, "subject.digest", "").value_or("") != image.ToString()) {
    return DataLossError("the hot set is that of another image");
  }
  const Json* layer = FindJson(*manifest, "layers.0");
  if (layer == nullptr) return DataLossError("hot set manifest: no layer");
  ASSIGN_OR_RETURN(const blocks::Descriptor blob, blocks::ParseDescriptor(*layer));
  if (blob.size_bytes > kMaxSharedSetBytes) return DataLossError("hot set: too large");
  ASSIGN_OR_RETURN(const std::string bytes, blocks::ReadWholeBlob(store, blob, deadline));
  Result<HotSet> set = ParseHotSet(bytes);
  if (!set.ok()) return DataLossError(set.status().message());
  return set;
}

Status SaveHotSet(blocks::BlobStore& store, const blocks::Digest& image, const HotSet& set, HotSetSave mode,
                  Deadline deadline) {
  if (mode == HotSetSave::kFirst) {
    const Result<blocks::StoredManifest> there = store.GetManifest(blocks::HotSetTag(image), deadline);
    if (there.ok()) return AlreadyExistsError("the image has a hot set");
    if (there.status().code() != StatusCode::kNotFound) return there.status();
  }
  ASSIGN_OR_RETURN(const blocks::StoredManifest subject, store.GetManifest(image.ToString(), deadline));
  ASSIGN_OR_RETURN(const blocks::Descriptor config,
                   blocks::WriteWholeBlob(store, blocks::kEmptyMediaType, blocks::kEmptyConfig, deadline));
  ASSIGN_OR_RETURN(const blocks::Descriptor blob,
                   blocks::WriteWholeBlob(store, kHotSetMediaType, EncodeHotSet(set), deadline));
  const Json manifest = {{"schemaVersion", 2},
                         {"mediaType", blocks::kManifestMediaType},
                         {"artifactType", kHotSetArtifactType},
                         {"config", DescriptorJson(config)},
                         {"layers", {DescriptorJson(blob)}},
                         {"subject", DescriptorJson(subject.descriptor)}};
  return store.PutManifest(blocks::HotSetTag(image), blocks::kManifestMediaType, DumpJson(manifest), deadline).status();
}

}  // namespace paceline::snapshotter
