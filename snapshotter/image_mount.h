// One image mounted on a directory: the FUSE session with the layer files, an EROFS mount on each, the overlay on top.
// Goes up in this order and down in the other; also what a dead server left can be taken down.
//
// Made by the serve command on its main thread. The parts that the containerd plugin will need are apart from this
// (kernel_mounts.h, layer_files.h, image_opener.h).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "lib/blocks/engine/chunk_engine.h"
#include "lib/fusefs/session.h"
#include "snapshotter/kernel_mounts.h"
#include "snapshotter/layer_files.h"
#include "snapshotter/mount_place.h"

namespace paceline::snapshotter {

enum class BackingChoice { kProbe, kFile, kLoop };

struct ImageMountOptions {
  MountPlace place;
  BackingChoice backing = BackingChoice::kProbe;
  std::string upper_folder;      // where writes go; "" for a read-only mount
  ReadAround* around = nullptr;  // is told of each read; may be null
  // Gets the connection of a new mount before anything reads through it, so that the mount can be served by a successor
  // when this process dies; a failure ends the attempt. Empty: the mount dies with this process.
  std::function<Status(const fusefs::Connection&)> keep;
};

class ImageMount {
 public:
  // Mounts. `image`, `clock` and the options' ReadAround are borrowed. After a failure nothing of it is left.
  // kAlreadyExists when something is mounted there. Must not run in a thread that serves anything: mounting reads from
  // the layer files.
  static Result<std::unique_ptr<ImageMount>> Mount(const ImageMountOptions& options, blocks::ImageReader& image,
                                                   const Clock& clock);
  // Goes on with what a server that died has left at the place: layers and all that lies above them, in containers too,
  // are served again. The directory itself gets a new overlay; what was written stays with those who have the old one.
  // After a failure everything is as before.
  static Result<std::unique_ptr<ImageMount>> Resume(const ImageMountOptions& options, fusefs::Connection connection,
                                                    blocks::ImageReader& image, const Clock& clock);
  // As TakeDown with kLazily, of what is left.
  ~ImageMount();

  // Unmounts the directory and, if that worked, all the rest. kAborted while somebody uses it (with Detach::kNo): then
  // everything stays as it was.
  Status TakeDown(Detach detach);

  Backing backing() const { return backing_; }

 private:
  ImageMount(const ImageMountOptions& options, blocks::ImageReader& image)
      : options_(options),
        image_(image),
        layer_count_(image.layer_count()),
        layers_(image, options.around),
        files_(layers_) {}

  Status MakeFolders();
  Status StartServing(std::optional<fusefs::Connection> connection, const Clock& clock);
  Status MountLayers();
  Status MountTop();

  const ImageMountOptions options_;
  blocks::ImageReader& image_;
  const size_t layer_count_;
  ImageLayers layers_;
  LayerFiles files_;
  Backing backing_ = Backing::kFile;
  bool leaves_all_ = false;  // whatever happens, others need it
  std::unique_ptr<fusefs::Session> session_;
  std::jthread server_;
};

// Takes down what is mounted at a place, whoever serves it or none. Its folder goes, too. kNotFound when nothing is
// there.
Status TakeDownPlace(const MountPlace& place, Detach detach);

}  // namespace paceline::snapshotter
