// Layers of converted images as mounts: finds them, serves their files (LayerSet), and has the kernel mount EROFS on
// each.
//
// Snapshots asks for layers, fusefs::Session reads their files. Thread-safe. Mounting reads from the files, so it must
// not be done on a thread that serves them.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lib/base/log.h"
#include "lib/base/mutex.h"
#include "snapshotter/image_mount.h"
#include "snapshotter/plugin/hot_set_recorder.h"
#include "snapshotter/plugin/image_outcomes.h"
#include "snapshotter/plugin/plugin_metrics.h"
#include "snapshotter/plugin/remote_layers.h"

namespace paceline::snapshotter {

class ConvertedImages;

struct RemoteImagesOptions {
  std::string files_folder;  // where the FUSE mount with the layers' files is
  BackingChoice backing = BackingChoice::kProbe;
  std::set<uint64_t> mounted;  // what an earlier run has left mounted and still works
  // Called when a layer's file has been mounted by EROFS itself.
  std::function<void(uint64_t id, blocks::ImageReader& image, uint32_t layer)> on_mounted;
};

// What RemoteImages works with; borrowed.
struct ImageParts {
  ImageTable& images;
  ConvertedImages& converted;
  HotSetRecorder& hot_sets;
  ImageOutcomes& outcomes;
};

class RemoteImages final : public RemoteLayers, public LayerSet {
 public:
  // The layer of a snapshot, from its record; nothing when it has none.
  using Lookup = std::function<std::optional<RemoteLayer>(uint64_t id)>;

  // Borrows what is passed by reference.
  RemoteImages(RemoteImagesOptions options, ImageParts parts, Lookup lookup, Logger& log, PluginMetrics& metrics);

  // Nothing is mounted from now on, for the reason given: every image is pulled.
  void Disable(const Status& reason) EXCLUDES(mutex_);

  std::optional<RemoteLayer> Find(const LayerRequest& request) override EXCLUDES(mutex_);
  Status Mount(uint64_t id, const RemoteLayer& layer, const std::string& folder) override EXCLUDES(mutex_);
  void Unmount(uint64_t id, const std::string& folder) override EXCLUDES(mutex_);
  void Use(const std::vector<uint64_t>& ids) override EXCLUDES(mutex_);
  uint64_t KeptBytes(uint64_t id) override EXCLUDES(mutex_);

  std::optional<uint64_t> SizeOf(uint64_t number) override EXCLUDES(mutex_);
  Status Read(uint64_t number, uint64_t offset_bytes, std::span<char> out) override EXCLUDES(mutex_);
  std::vector<uint64_t> Numbers() override EXCLUDES(mutex_);

 private:
  struct Layer {
    ImagePtr image;
    uint32_t number = 0;
  };

  // The open layer of a snapshot; opens its image again after a restart.
  Result<Layer> LayerOf(uint64_t id) EXCLUDES(mutex_);
  Result<Layer> OpenLayer(uint64_t id, const RemoteLayer& layer) EXCLUDES(mutex_);
  Status MountFile(uint64_t id, const std::string& folder) EXCLUDES(mutex_);
  // And not by a loop device.
  bool IsReadByErofs() EXCLUDES(mutex_);
  std::optional<RemoteLayer> Refuse(const LayerRequest& request, const Status& why, WallTime asked_at, bool is_new);

  const RemoteImagesOptions options_;
  const ImageParts parts_;
  const Lookup lookup_;
  Logger& log_;
  PluginMetrics& metrics_;

  Mutex mutex_;
  CondVar changed_;
  Status disabled_ GUARDED_BY(mutex_);
  Backing backing_ GUARDED_BY(mutex_);
  std::map<uint64_t, Layer> layers_ GUARDED_BY(mutex_);
  std::set<uint64_t> mounted_ GUARDED_BY(mutex_);
  std::set<uint64_t> mounting_ GUARDED_BY(mutex_);
};

}  // namespace paceline::snapshotter
