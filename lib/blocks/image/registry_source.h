// An image of a registry as a source of a conversion: "docker://HOST/REPOSITORY:TAG". Layers are read in one stream
// each, from mirrors when there are any.
//
// Made by the command line or the operator. Calls block for the network until their deadline.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "lib/base/result.h"
#include "lib/blocks/image/image_source.h"
#include "lib/blocks/registry/image_reference.h"
#include "lib/blocks/registry/registry_client.h"

namespace paceline::blocks {

// A manifest, an index or a config of an image, whole: these have addresses of their own kinds. Checked by its digest.
// kDataLoss for a config of over 8 MiB. Blocks.
Result<std::string> ReadImageDocument(RegistryClient& client, const ImageReference& image, const Descriptor& document,
                                      Deadline deadline, const std::stop_token& stop = {});

// Every call, and reading of a layer, ends when `stop` is requested. A layer may be read for as long as it takes:
// silence is bounded by the client's own limits.
std::unique_ptr<ImageSource> NewRegistrySource(std::shared_ptr<RegistryClient> client, ImageReference image,
                                               std::stop_token stop = {});

}  // namespace paceline::blocks
