// Writes OCI layouts of hand-made layers, for tests of the image converter and of pacectl.
#pragma once

#include <string>
#include <vector>

#include "lib/blocks/format/digest.h"

namespace paceline::blocks {

struct LayoutLayer {
  std::string blob;  // as it is stored
  std::string tar;   // what it decompresses to
};

class OciLayout {
 public:
  // Makes the folder and an empty layout in it.
  explicit OciLayout(std::string folder);

  // An image for linux/<architecture>; the digest of its manifest. The layout's index names it by `tag`.
  Digest AddImage(const std::string& tag, const std::vector<LayoutLayer>& layers,
                  const std::string& architecture = "amd64");
  // An image index over what was added so far, which takes the place of the single entries.
  void JoinImages(const std::string& tag);

  const std::string& folder() const { return folder_; }
  std::string BlobPath(const Digest& digest) const { return folder_ + "/blobs/sha256/" + digest.Hex(); }

 private:
  // The descriptor of the stored bytes, as JSON text.
  std::string Put(const std::string& bytes, const std::string& media_type, const std::string& more = "");
  void WriteIndex();

  std::string folder_;
  std::vector<std::string> entries_;    // of index.json
  std::vector<std::string> manifests_;  // with platforms
};

}  // namespace paceline::blocks
