#include "snapshotter/plugin/remote_images.h"

#include "snapshotter/kernel_mounts.h"
#include "snapshotter/plugin/converted_images.h"

namespace paceline::snapshotter {

RemoteImages::RemoteImages(RemoteImagesOptions options, ImageParts parts, Lookup lookup, Logger& log,
                           PluginMetrics& metrics)
    : options_(std::move(options)),
      parts_(parts),
      lookup_(std::move(lookup)),
      log_(log),
      metrics_(metrics),
      backing_(options_.backing == BackingChoice::kLoop ? Backing::kLoop : Backing::kFile),
      mounted_(options_.mounted) {}

void RemoteImages::Disable(const Status& reason) {
  MutexLock lock(mutex_);
  disabled_ = reason;
}

std::optional<RemoteLayer> RemoteImages::Refuse(const LayerRequest& request, const Status& why, WallTime asked_at,
                                                bool is_new) {
  metrics_.layers.With({"pulled"}).Add();
  if (!is_new) return std::nullopt;  // a layer of an image that has been counted
  metrics_.fall_backs.With({FallBackReason(why)}).Add();
  parts_.outcomes.Pulled(request.image_name, request.manifest_digest, why, asked_at);
  if (why.code() == StatusCode::kNotFound) {
    log_.Info("image is not converted, pulling it",
              {{"image", request.image_name}, {"digest", request.manifest_digest}});
  } else {
    log_.Warn("converted image is not usable, pulling the original",
              {{"image", request.image_name}, {"digest", request.manifest_digest}, {"error", why}});
  }
  return std::nullopt;
}

std::optional<RemoteLayer> RemoteImages::Find(const LayerRequest& request) {
  const WallTime asked_at = parts_.outcomes.Now();
  Status disabled;
  {
    MutexLock lock(mutex_);
    disabled = disabled_;
  }
  if (!disabled.ok()) {  // logged once, when it happened
    parts_.outcomes.Pulled(request.image_name, request.manifest_digest, disabled, asked_at);
    return std::nullopt;
  }
  const ImageDecision decision = parts_.converted.Find(request.image_name, request.manifest_digest);
  if (!decision.status.ok()) return Refuse(request, decision.status, asked_at, decision.is_new);
  const Result<uint32_t> layer = LayerOfChain(decision.image->manifest, request.chain_id);
  if (!layer.ok()) return Refuse(request, layer.status(), asked_at, true);
  if (decision.is_new) {
    log_.Info("image is opened lazily", {{"image", request.image_name},
                                         {"digest", request.manifest_digest},
                                         {"converted", decision.image->digest.ToString()},
                                         {"store", decision.image->store}});
    parts_.outcomes.Opened(request.image_name, request.manifest_digest, decision.image->digest, asked_at);
    parts_.hot_sets.OnPull(decision.image);
  }
  metrics_.layers.With({"mounted"}).Add();
  return RemoteLayer{request.image_name, decision.image->store, decision.image->digest, *layer};
}

Result<RemoteImages::Layer> RemoteImages::OpenLayer(uint64_t id, const RemoteLayer& layer) {
  ASSIGN_OR_RETURN(ImagePtr image, parts_.images.Open({layer.image_name, layer.store, layer.image}));
  if (layer.layer >= image->reader->layer_count()) return DataLossError("the converted image has fewer layers");
  MutexLock lock(mutex_);
  return layers_.try_emplace(id, Layer{std::move(image), layer.layer}).first->second;
}

Result<RemoteImages::Layer> RemoteImages::LayerOf(uint64_t id) {
  {
    MutexLock lock(mutex_);
    const auto open = layers_.find(id);
    if (open != layers_.end()) return open->second;
  }
  const std::optional<RemoteLayer> recorded = lookup_(id);
  if (!recorded) return NotFoundError("no snapshot has this layer");
  return OpenLayer(id, *recorded);
}

Status RemoteImages::Mount(uint64_t id, const RemoteLayer& layer, const std::string& folder) {
  {
    MutexLock lock(mutex_);
    if (!disabled_.ok()) return disabled_;
    while (mounting_.contains(id)) changed_.Wait(lock);
    if (mounted_.contains(id)) return Status();
    mounting_.insert(id);
  }
  const Result<Layer> opened = OpenLayer(id, layer);
  Status status = opened.status();
  if (status.ok()) status = MountFile(id, folder);
  if (status.ok() && options_.on_mounted && IsReadByErofs()) {
    options_.on_mounted(id, *opened->image->reader, opened->number);
  }
  if (!status.ok()) parts_.outcomes.NotMounted(layer.image, status);
  MutexLock lock(mutex_);
  mounting_.erase(id);
  if (status.ok()) {
    mounted_.insert(id);
  } else {
    layers_.erase(id);
  }
  changed_.NotifyAll();
  return status;
}

Status RemoteImages::MountFile(uint64_t id, const std::string& folder) {
  Backing backing;
  {
    MutexLock lock(mutex_);
    backing = backing_;
  }
  const std::string file = options_.files_folder + "/" + std::to_string(id);
  const Status mounted = MountErofs(file, folder, backing);
  const bool may_change = options_.backing == BackingChoice::kProbe && backing == Backing::kFile;
  if (mounted.code() != StatusCode::kUnimplemented || !may_change) return mounted;
  // What this kernel and this file system can do shows in no other way.
  RETURN_IF_ERROR(MountErofs(file, folder, Backing::kLoop).Annotate(mounted.message() + "; then"));
  MutexLock lock(mutex_);
  backing_ = Backing::kLoop;
  return Status();
}

bool RemoteImages::IsReadByErofs() {
  MutexLock lock(mutex_);
  return backing_ == Backing::kFile;
}

void RemoteImages::Unmount(uint64_t id, const std::string& folder) {
  {
    MutexLock lock(mutex_);
    while (mounting_.contains(id)) changed_.Wait(lock);
    mounted_.erase(id);
  }
  const Status unmounted = snapshotter::Unmount(folder, Detach::kNo);
  if (unmounted.code() == StatusCode::kAborted) {
    // Somebody looks around in it; the layer stays for them and for nobody else.
    snapshotter::Unmount(folder, Detach::kLazily).IgnoreError();
    return;
  }
  MutexLock lock(mutex_);
  layers_.erase(id);
}

void RemoteImages::Use(const std::vector<uint64_t>& ids) {
  std::vector<ImagePtr> chain;
  for (const uint64_t id : ids) {
    const Result<Layer> layer = LayerOf(id);
    if (layer.ok() && (chain.empty() || chain.back() != layer->image)) chain.push_back(layer->image);
  }
  if (chain.empty()) return;
  parts_.outcomes.Ready(chain.back()->digest);
  parts_.hot_sets.OnContainer(chain);
}

uint64_t RemoteImages::KeptBytes(uint64_t id) {
  Layer layer;
  {
    MutexLock lock(mutex_);
    const auto open = layers_.find(id);
    if (open == layers_.end()) return 0;
    layer = open->second;
  }
  return layer.image->reader->KeptBytes(layer.number);
}

std::optional<uint64_t> RemoteImages::SizeOf(uint64_t number) {
  const Result<Layer> layer = LayerOf(number);
  if (!layer.ok()) return std::nullopt;
  return layer->image->reader->index(layer->number).header().image_bytes();
}

Status RemoteImages::Read(uint64_t number, uint64_t offset_bytes, std::span<char> out) {
  ASSIGN_OR_RETURN(const Layer layer, LayerOf(number));
  layer.image->around->Note(layer.number, offset_bytes, out.size());
  return layer.image->reader->Read(layer.number, offset_bytes, out);
}

std::vector<uint64_t> RemoteImages::Numbers() {
  std::vector<uint64_t> numbers;
  MutexLock lock(mutex_);
  for (const auto& [number, layer] : layers_) numbers.push_back(number);
  return numbers;
}

}  // namespace paceline::snapshotter
