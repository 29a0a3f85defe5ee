// What an image's configuration says of how a container of it runs, and which image it is by digest: asked of the
// registry, so that an install can be put before a command that stands in the image alone, and so that a snapshot's
// key holds what really runs.
//
// Used by the pod webhook. Thread-safe; a look-up blocks for the network until its deadline. What was found is
// remembered: tags for a minute, since many pods of a job come at once, digests for good.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/filesystem.h"
#include "lib/base/result.h"
#include "lib/blocks/registry/registry_exchange.h"

namespace paceline::operator_ {

struct ImageFacts {
  std::string digest;  // of the platform's manifest
  std::vector<std::string> entrypoint, command;
  std::map<std::string, std::string> environment;
  std::string user, directory;
};

class ImageLookup {
 public:
  virtual ~ImageLookup() = default;
  // `image` as pods name it, `architecture` as nodes do ("amd64"). Errors of the registry; kInvalidArgument for a bad
  // name.
  virtual Result<ImageFacts> Find(const std::string& image, const std::string& architecture, Deadline deadline) = 0;
};

// `files` and `clock` are borrowed.
Result<std::unique_ptr<ImageLookup>> NewRegistryLookup(blocks::RegistryOptions registry, const FileSystem& files,
                                                       const Clock& clock);

// Of an image's config document. kDataLoss for what is none. Pure.
Result<ImageFacts> ParseImageConfig(std::string_view text);

}  // namespace paceline::operator_
