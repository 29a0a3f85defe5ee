// Where `pacectl image` finds images and stores: the forms that a user may write. Shared by its subcommands; calls may
// block for disk or network.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/filesystem.h"
#include "lib/base/result.h"
#include "lib/blocks/format/blob_store.h"
#include "lib/blocks/format/folder_store.h"
#include "lib/blocks/format/manifest.h"
#include "lib/blocks/image/image_source.h"

namespace CLI {
class App;
}

namespace paceline::cli {

// What the help says of them.
inline constexpr char kSourceHelp[] =
    "docker://REGISTRY/REPOSITORY[:TAG|@DIGEST], oci:FOLDER[:TAG] or oci-archive:FILE[:TAG]";
inline constexpr char kStoreHelp[] = "where converted images are: file:///FOLDER or docker://REGISTRY/REPOSITORY";

// How registries are reached.
struct RegistryAccess {
  std::string docker_config;  // folder of Docker's config.json; "" for ~/.docker
  std::string hosts_folder = "/etc/containerd/certs.d";
  std::vector<std::string> plain_http;
  std::vector<std::string> ca_files;
  bool skips_verification = false;
};
// Adds the flags for it to a command. `access` must outlive the command.
void AddRegistryOptions(CLI::App& command, RegistryAccess* access);

struct FoundImage {
  blocks::StoredManifest manifest;
  blocks::BlockImageManifest image;
};

class ImagePlaces {
 public:
  // Borrows both. What it opens borrows the clock and this object's view of the file system: it must live longer.
  ImagePlaces(const RegistryAccess& access, const Clock& clock) : access_(access), clock_(clock) {}

  // kStoreHelp. kInvalidArgument for other forms.
  Result<std::unique_ptr<blocks::BlobStore>> OpenStore(const std::string& url, blocks::StoreAccess access) const;
  // An image to convert: kSourceHelp.
  Result<std::unique_ptr<blocks::ImageSource>> OpenSource(const std::string& text) const;
  // A converted image by its source, by the digest of the original manifest, or by its own digest or tag. kNotFound
  // says how it would be made; kDataLoss when its subject is another image than the one asked for.
  Result<FoundImage> FindImage(blocks::BlobStore& store, const std::string& text, const blocks::Platform& platform,
                               Deadline deadline) const;

  // The same access to registries as arguments of paceline-snapshotter.
  std::vector<std::string> SnapshotterArguments() const;

 private:
  const RegistryAccess& access_;
  const Clock& clock_;
  RealFileSystem files_;
};

}  // namespace paceline::cli
