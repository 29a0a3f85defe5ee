// A repository of a registry as a BlobStore, and the forms in which people name stores.
//
// Callers: pacectl, the snapshotter, the operator. Thread-safe.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "lib/blocks/format/blob_store.h"
#include "lib/blocks/format/folder_store.h"
#include "lib/blocks/registry/image_reference.h"
#include "lib/blocks/registry/registry_client.h"

namespace paceline::blocks {

// Every call ends when `stop` is requested, as at its deadline.
std::unique_ptr<BlobStore> NewRegistryStore(std::unique_ptr<RegistryClient> client, ImageReference repository,
                                            std::stop_token stop = {});

// "docker://HOST[:PORT]/REPOSITORY", "file:///FOLDER" or "/FOLDER". A registry is not asked anything yet. `files` and
// `clock` are borrowed for the life of the store. kInvalidArgument for other forms, else what OpenFolderStore says.
Result<std::unique_ptr<BlobStore>> OpenStoreUrl(const std::string& url, StoreAccess access, RegistryOptions registry,
                                                const FileSystem& files, const Clock& clock, std::stop_token stop = {});

}  // namespace paceline::blocks
