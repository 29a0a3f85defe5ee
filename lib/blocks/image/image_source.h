// Where an image to convert comes from: an OCI layout in a folder or an archive, later a registry. Resolves a name and
// a platform to one manifest and opens layer blobs.
//
// Made by the command line or the operator, used by the image converter. Calls block for disk or network.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/blocks/format/blob_store.h"
#include "lib/blocks/image/byte_source.h"

namespace paceline::blocks {

// "linux/amd64", "linux/arm64/v8".
struct Platform {
  std::string os = "linux", architecture, variant;
  std::string ToString() const;
};
// kInvalidArgument says what is wrong.
Result<Platform> ParsePlatform(std::string_view text);
// Linux on the machine that this runs on.
Platform ThisPlatform();

struct SourceLayer {
  Descriptor blob;
  Digest diff_id;
};

struct SourceImage {
  Descriptor manifest;  // of one platform
  Digest config;
  std::string platform;
  std::vector<SourceLayer> layers;  // bottom first
};

class ImageSource {
 public:
  virtual ~ImageSource() = default;
  // kNotFound when there is no such image or none for the platform; the message says which there are. kDataLoss for
  // bytes that do not fit their digest; kUnimplemented for kinds of images that no runtime runs.
  virtual Result<SourceImage> Resolve(const Platform& platform, Deadline deadline) = 0;
  // The bytes of a layer blob, as they come: their digest is checked by whoever reads them.
  virtual Result<std::unique_ptr<ByteSource>> OpenLayer(const Descriptor& blob, Deadline deadline) = 0;
};

// A file tree by name, in which blobs are found: a folder, or a tar archive that is read where it lies.
class BlobFiles {
 public:
  virtual ~BlobFiles() = default;
  // Relative: "index.json", "blobs/sha256/<hex>". kNotFound.
  virtual Result<std::unique_ptr<ByteSource>> Open(const std::string& name) = 0;
};
std::unique_ptr<BlobFiles> NewFolderFiles(std::string folder);
// Reads the archive once to learn where its files are. kUnimplemented for a compressed archive.
Result<std::unique_ptr<BlobFiles>> OpenArchiveFiles(const std::string& path);

// An image of an OCI layout; `tag` "" for the only one there is.
std::unique_ptr<ImageSource> NewLayoutSource(std::unique_ptr<BlobFiles> files, std::string tag);

// "oci:DIR[:TAG]", "oci-archive:FILE[:TAG]". kInvalidArgument for other forms.
Result<std::unique_ptr<ImageSource>> OpenLocalSource(std::string_view text);

// Shared by all sources. Reads small JSON documents through `read`, which gives the bytes of a blob; checks digests.
using ReadBlobFunction = std::function<Result<std::string>(const Descriptor& blob)>;
// From a manifest, or an index of manifests, to the image of a platform.
Result<SourceImage> ResolveImage(Descriptor root, const Platform& platform, const ReadBlobFunction& read);

}  // namespace paceline::blocks
