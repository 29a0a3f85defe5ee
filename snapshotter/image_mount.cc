#include "snapshotter/image_mount.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lib/base/filesystem.h"
#include "snapshotter/metadata_pages.h"

namespace paceline::snapshotter {
namespace {

// Layers and the FUSE folder are ours alone; readers that are still in them have lost their mount already.
void TakeDownBelow(const MountPlace& place) {
  const Result<std::vector<std::string>> below = MountsBelow(place.folder);
  if (!below.ok()) return;
  for (const std::string& mount : *below) Unmount(mount, Detach::kLazily).IgnoreError();
}

void RemoveFolders(const MountPlace& place, size_t layers) {
  for (size_t number = 0; number < layers; ++number) {
    rmdir((place.folder + "/" + MountPlace::LayerFolder(number)).c_str());
  }
  unlink(place.socket().c_str());
  for (const std::string& folder : {place.layers_folder(), place.empty_folder(), place.fuse_folder(), place.folder}) {
    rmdir(folder.c_str());
  }
}

}  // namespace

Result<std::unique_ptr<ImageMount>> ImageMount::Mount(const ImageMountOptions& options, blocks::ImageReader& image,
                                                      const Clock& clock) {
  ASSIGN_OR_RETURN(const std::vector<std::string> there, MountsBelow(options.place.folder));
  if (!there.empty()) return AlreadyExistsError("an image is mounted on " + options.place.directory);
  std::unique_ptr<ImageMount> mount(new ImageMount(options, image));
  RETURN_IF_ERROR(mount->MakeFolders());
  RETURN_IF_ERROR(mount->StartServing(std::nullopt, clock));
  RETURN_IF_ERROR(mount->MountLayers());
  RETURN_IF_ERROR(mount->MountTop());
  return mount;
}

Result<std::unique_ptr<ImageMount>> ImageMount::Resume(const ImageMountOptions& options, fusefs::Connection connection,
                                                       blocks::ImageReader& image, const Clock& clock) {
  std::unique_ptr<ImageMount> mount(new ImageMount(options, image));
  mount->leaves_all_ = true;
  RETURN_IF_ERROR(mount->MakeFolders());
  // From here on those who wait for the layers are answered.
  RETURN_IF_ERROR(mount->StartServing(std::move(connection), clock));
  const Status old = Unmount(options.place.directory, Detach::kLazily);
  if (!old.ok() && old.code() != StatusCode::kNotFound) return old;
  RETURN_IF_ERROR(mount->MountTop());
  mount->leaves_all_ = false;
  return mount;
}

Status ImageMount::StartServing(std::optional<fusefs::Connection> connection, const Clock& clock) {
  fusefs::MountOptions fuse;
  fuse.directory = options_.place.fuse_folder();
  fuse.source = "paceline-layers";
  fuse.type = "paceline-layers";
  fuse.is_read_only = true;
  if (!connection && !options_.keep) {
    ASSIGN_OR_RETURN(session_, fusefs::Session::Mount(fuse, files_, clock, nullptr));
  } else {
    if (!connection) {
      ASSIGN_OR_RETURN(connection, fusefs::Session::Connect(fuse));
      const Status kept = options_.keep(*connection);
      if (!kept.ok()) {
        Unmount(fuse.directory, Detach::kLazily).IgnoreError();
        return kept;
      }
    }
    ASSIGN_OR_RETURN(session_, fusefs::Session::Adopt(fuse, *std::move(connection), files_, clock, nullptr));
  }
  server_ = std::jthread([session = session_.get()](std::stop_token stop) {
    session->Serve(std::move(stop)).IgnoreError();  // ends with the mount
  });
  return Status();
}

ImageMount::~ImageMount() {
  if (leaves_all_) return;
  if (session_ != nullptr) TakeDown(Detach::kLazily).IgnoreError();
  RemoveFolders(options_.place, layer_count_);
}

Status ImageMount::MakeFolders() {
  RealFileSystem files;
  const MountPlace& place = options_.place;
  for (const std::string& folder : {place.folder, place.fuse_folder(), place.layers_folder(), place.empty_folder()}) {
    RETURN_IF_ERROR(files.MakeDirectories(folder, 0700));
  }
  // The overlay's options name layers relative to this.
  if (chdir(place.folder.c_str()) != 0) return ErrnoStatus(errno, "enter " + place.folder);
  for (size_t number = 0; number < layer_count_; ++number) {
    RETURN_IF_ERROR(files.MakeDirectories(place.folder + "/" + MountPlace::LayerFolder(number), 0700));
  }
  return Status();
}

Status ImageMount::MountLayers() {
  backing_ = options_.backing == BackingChoice::kLoop ? Backing::kLoop : Backing::kFile;
  for (size_t number = 0; number < layer_count_; ++number) {
    const std::string file = fmt::format("{}/{}", options_.place.fuse_folder(), number);
    Status mounted = MountErofs(file, MountPlace::LayerFolder(number), backing_);
    // The first layer is the probe: what this kernel and this file system can do shows in no other way.
    const bool may_fall_back = number == 0 && options_.backing == BackingChoice::kProbe;
    if (mounted.code() == StatusCode::kUnimplemented && may_fall_back) {
      backing_ = Backing::kLoop;
      mounted = MountErofs(file, MountPlace::LayerFolder(number), backing_).Annotate(mounted.message() + "; then");
    }
    RETURN_IF_ERROR(mounted);
    // A loop device reads its file past the file's page cache.
    if (backing_ == Backing::kFile) StoreMetadataPages(*session_, number, image_, number).IgnoreError();
  }
  return Status();
}

Status ImageMount::MountTop() {
  OverlayDirs dirs;
  for (size_t number = layer_count_; number > 0; --number) dirs.lower.push_back(MountPlace::LayerFolder(number - 1));
  // An overlay that is read-only wants two layers at least, and an image may have one or none.
  dirs.lower.push_back("e");
  while (options_.upper_folder.empty() && dirs.lower.size() < 2) dirs.lower.push_back("l");
  if (!options_.upper_folder.empty()) {
    RealFileSystem files;
    dirs.upper = options_.upper_folder + "/upper";
    dirs.work = options_.upper_folder + "/work";
    RETURN_IF_ERROR(files.MakeDirectories(dirs.upper, 0755));
    RETURN_IF_ERROR(files.MakeDirectories(dirs.work, 0755));
  }
  return MountOverlay(dirs, options_.place.directory);
}

Status ImageMount::TakeDown(Detach detach) {
  if (session_ == nullptr) return Status();
  const Status top = Unmount(options_.place.directory, detach);
  if (!top.ok() && top.code() != StatusCode::kNotFound) return top;
  TakeDownBelow(options_.place);  // also the FUSE mount, which ends the threads that serve it
  server_.request_stop();
  server_.join();
  session_.reset();
  return Status();
}

Status TakeDownPlace(const MountPlace& place, Detach detach) {
  ASSIGN_OR_RETURN(const std::vector<std::string> below, MountsBelow(place.folder));
  const Status top = Unmount(place.directory, detach);
  if (!top.ok() && top.code() != StatusCode::kNotFound) return top;
  if (top.code() == StatusCode::kNotFound && below.empty()) return top;
  TakeDownBelow(place);
  RemoveFolders(place, below.size());
  return Status();
}

}  // namespace paceline::snapshotter
