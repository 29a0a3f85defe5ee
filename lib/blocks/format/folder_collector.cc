#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <unordered_set>

#include "lib/base/filesystem.h"
#include "lib/base/json.h"
#include "lib/blocks/format/folder_store.h"
#include "lib/blocks/format/manifest.h"

namespace paceline::blocks {
namespace {

using DigestSet = std::unordered_set<Digest, DigestHash>;

// Everything that a manifest of any kind names.
Status MarkManifest(const StoredManifest& manifest, DigestSet* needed) {
  needed->insert(manifest.descriptor.digest);
  ASSIGN_OR_RETURN(const Json json, ParseJson(manifest.bytes));
  for (const char* field : {"config", "subject"}) {
    const Json* value = FindJson(json, field);
    if (value == nullptr) continue;
    ASSIGN_OR_RETURN(const Descriptor named, ParseDescriptor(*value));
    needed->insert(named.digest);
  }
  for (const char* field : {"layers", "manifests"}) {
    const Json* list = FindJson(json, field);
    if (list == nullptr || !list->is_array()) continue;
    for (const Json& item : *list) {
      ASSIGN_OR_RETURN(const Descriptor named, ParseDescriptor(item));
      needed->insert(named.digest);
    }
  }
  return Status();
}

// What tells of a subject that is in the store, too: the record of a dependency snapshot whose own tag is gone.
void MarkSubject(BlobStore& store, const StoredManifest& manifest, DigestSet* needed) {
  const Result<Json> json = ParseJson(manifest.bytes);
  const std::string subject = json.ok() ? JsonStringOr(*json, "subject.digest", "").value_or("") : "";
  if (subject.empty()) return;
  const Result<StoredManifest> stored = store.GetManifest(subject, Deadline::Infinite());
  const Result<Json> named = stored.ok() ? ParseJson(stored->bytes) : stored.status();
  const Json* config = named.ok() ? FindJson(*named, "config") : nullptr;
  const Result<Descriptor> descriptor = config != nullptr ? ParseDescriptor(*config) : NotFoundError("no config");
  if (descriptor.ok()) needed->insert(descriptor->digest);
}

Result<DigestSet> NeededBlobs(BlobStore& store) {
  DigestSet needed;
  ASSIGN_OR_RETURN(const std::vector<std::string> tags, store.ListTags("", Deadline::Infinite()));
  for (const std::string& tag : tags) {
    const Result<StoredManifest> manifest = store.GetManifest(tag, Deadline::Infinite());
    // Gone since the list was made: another collector.
    if (!manifest.ok() && manifest.status().code() == StatusCode::kNotFound) continue;
    const Status marked = manifest.ok() ? MarkManifest(*manifest, &needed) : manifest.status();
    if (marked.ok()) MarkSubject(store, *manifest, &needed);
    if (!marked.ok()) return DataLossError("tag " + tag + ": " + marked.message() + "; remove the tag first");
  }
  return needed;
}

}  // namespace

Result<CollectedBlobs> CollectFolderStore(const std::string& folder, Duration grace, CollectMode mode,
                                          const Clock& clock) {
  ASSIGN_OR_RETURN(const std::unique_ptr<BlobStore> store,
                   OpenFolderStore(folder, mode == CollectMode::kRemove ? StoreAccess::kWrite : StoreAccess::kRead));
  ASSIGN_OR_RETURN(const DigestSet needed, NeededBlobs(*store));
  const std::string blobs = folder + "/blobs/sha256";
  RealFileSystem files;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(blobs));
  CollectedBlobs collected;
  for (const std::string& name : names) {
    const Result<Digest> digest = ParseDigest("sha256:" + name);
    if (digest.ok() && needed.contains(*digest)) {
      ++collected.kept;
      continue;
    }
    const std::string path = blobs + "/" + name;
    const Result<FileInfo> info = files.StatLink(path);
    if (!info.ok()) continue;
    if (clock.WallNow() - info->modified < grace) {
      ++collected.young;
      continue;
    }
    if (mode == CollectMode::kRemove) RETURN_IF_ERROR(files.Remove(path));
    ++collected.removed;
    collected.removed_bytes += info->size_bytes;
  }
  return collected;
}

}  // namespace paceline::blocks
