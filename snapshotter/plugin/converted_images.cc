#include "snapshotter/plugin/converted_images.h"

#include <optional>

#include "lib/blocks/registry/image_reference.h"

namespace paceline::snapshotter {
namespace {

Result<std::string> UrlOf(const std::string& store, const std::string& image_name) {
  if (store != kOwnRepository) return store;
  ASSIGN_OR_RETURN(const blocks::ImageReference reference, blocks::ParseImageReference(image_name));
  return "docker://" + reference.registry + "/" + reference.repository;
}

}  // namespace

ImageDecision ConvertedImages::Find(const std::string& image_name, const std::string& manifest) {
  const std::string key = image_name + " " + manifest;
  const TimePoint now = clock_.Now();
  {
    MutexLock lock(mutex_);
    std::erase_if(kept_, [now](const auto& entry) { return entry.second.until <= now; });
    const auto kept = kept_.find(key);
    if (kept != kept_.end()) return kept->second.decision;
  }
  ImageDecision decision;
  Result<ImagePtr> found = Decide(image_name, manifest);
  if (found.ok()) {
    decision.image = *std::move(found);
  } else {
    decision.status = found.status();
  }
  Kept kept{decision, clock_.Now() + (decision.status.ok() ? options_.keep_found : options_.keep_missing)};
  kept.decision.is_new = false;
  MutexLock lock(mutex_);
  kept_.insert_or_assign(key, std::move(kept));
  return decision;
}

Result<ImagePtr> ConvertedImages::Decide(const std::string& image_name, const std::string& manifest) {
  if (image_name.empty() || manifest.empty()) {
    return InvalidArgumentError("the request does not name the image (see enable_remote_snapshot_annotations)");
  }
  ASSIGN_OR_RETURN(const blocks::Digest digest, blocks::ParseDigest(manifest));
  ASSIGN_OR_RETURN(const ImageSelector selector, Look(image_name, digest));
  return images_.Open(selector);
}

Result<ImageSelector> ConvertedImages::Look(const std::string& image_name, const blocks::Digest& manifest) {
  const Deadline deadline = Deadline::After(clock_, options_.find_limit);
  Status failure = NotFoundError("no store has a converted image");
  for (const std::string& place : options_.stores) {
    ASSIGN_OR_RETURN(const std::string url, UrlOf(place, image_name));
    const Result<std::shared_ptr<blocks::BlobStore>> store = images_.Store(url);
    const Result<blocks::StoredManifest> stored =
        store.ok() ? (*store)->GetManifest(blocks::ImageTag(manifest), deadline) : store.status();
    if (!stored.ok()) {
      // That a store cannot be asked says more than that another one has nothing.
      if (stored.status().code() != StatusCode::kNotFound) failure = stored.status().Annotate(url);
      continue;
    }
    ASSIGN_OR_RETURN(const blocks::BlockImageManifest image, blocks::ParseImageManifest(stored->bytes));
    if (image.subject.digest != manifest) return DataLossError(url + ": the tag leads to another image's conversion");
    return ImageSelector{image_name, url, stored->descriptor.digest};
  }
  return failure;
}

Result<uint32_t> LayerOfChain(const blocks::BlockImageManifest& image, const std::string& chain_id) {
  std::optional<blocks::Digest> chain;
  for (uint32_t layer = 0; layer < image.layers.size(); ++layer) {
    chain = blocks::ChainId(chain, image.layers[layer].diff_id);
    if (chain->ToString() == chain_id) return layer;
  }
  return DataLossError("the converted image has no layer that makes " + chain_id);
}

}  // namespace paceline::snapshotter
