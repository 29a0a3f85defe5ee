// Which converted image belongs to an image that is being pulled: looked for under its tag
// (docs/formats/block-image.md, section 5.1) in the image's own repository and in other stores, and decided once for
// all layers of a pull.
//
// Callers: RemoteImages. Thread-safe; Find blocks for a store, within a limit.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/mutex.h"
#include "snapshotter/plugin/image_table.h"

namespace paceline::snapshotter {

// Stands in a list of stores for the repository that the image itself comes from.
inline constexpr char kOwnRepository[] = "image";

struct ConvertedImagesOptions {
  std::vector<std::string> stores = {kOwnRepository};  // asked in this order
  Duration find_limit = std::chrono::seconds(10);
  Duration keep_found = std::chrono::minutes(10);
  Duration keep_missing = std::chrono::seconds(30);
};

// What a pull was decided to be.
struct ImageDecision {
  Status status;       // kNotFound: nobody has converted it
  ImagePtr image;      // open, when ok
  bool is_new = true;  // this call decided
};

class ConvertedImages {
 public:
  // Borrows both.
  ConvertedImages(ConvertedImagesOptions options, ImageTable& images, const Clock& clock)
      : options_(std::move(options)), images_(images), clock_(clock) {}

  // `image_name` and `manifest` as the runtime named them.
  ImageDecision Find(const std::string& image_name, const std::string& manifest) EXCLUDES(mutex_);

 private:
  struct Kept {
    ImageDecision decision;
    TimePoint until;
  };

  Result<ImagePtr> Decide(const std::string& image_name, const std::string& manifest);
  Result<ImageSelector> Look(const std::string& image_name, const blocks::Digest& manifest);

  const ConvertedImagesOptions options_;
  ImageTable& images_;
  const Clock& clock_;
  Mutex mutex_;
  std::map<std::string, Kept> kept_ GUARDED_BY(mutex_);  // by name and digest
};

// The number of the layer whose chain ID is `chain_id`, from the bottom. kDataLoss when the image has no such layer:
// then it is not what the original became.
Result<uint32_t> LayerOfChain(const blocks::BlockImageManifest& image, const std::string& chain_id);

}  // namespace paceline::snapshotter
