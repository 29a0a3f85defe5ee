// Where `pacectl image` finds images and stores: the forms that a user may write. Shared by its subcommands; calls may
// block for disk or network.
#pragma once

#include <memory>
#include <string>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/blocks/format/blob_store.h"
#include "lib/blocks/format/folder_store.h"
#include "lib/blocks/format/manifest.h"
#include "lib/blocks/image/image_source.h"

namespace paceline::cli {

// What the help says of them.
inline constexpr char kSourceHelp[] = "oci:FOLDER[:TAG] or oci-archive:FILE[:TAG]";
inline constexpr char kStoreHelp[] = "where converted images are: file:///FOLDER";

// "file:///dir". kInvalidArgument for other forms.
Result<std::unique_ptr<blocks::BlobStore>> OpenStore(const std::string& url, blocks::StoreAccess access);

// An image to convert: kSourceHelp.
Result<std::unique_ptr<blocks::ImageSource>> OpenSource(const std::string& text);

struct FoundImage {
  blocks::StoredManifest manifest;
  blocks::BlockImageManifest image;
};
// A converted image by its source, by the digest of the original manifest, or by its own digest or tag. kNotFound says
// how it would be made; kDataLoss when its subject is another image than the one asked for.
Result<FoundImage> FindImage(blocks::BlobStore& store, const std::string& text, const blocks::Platform& platform,
                             Deadline deadline);

}  // namespace paceline::cli
