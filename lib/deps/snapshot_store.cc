#include "lib/deps/snapshot_store.h"

#include <algorithm>
#include <map>

#include "lib/blocks/format/hot_set_tag.h"
#include "lib/blocks/image/image_check.h"
#include "lib/deps/key.h"

namespace paceline::deps {
namespace {

// Of earlier snapshots: more hold little that these do not.
constexpr size_t kKnownSnapshots = 3;
constexpr size_t kMaxKnownBlobs = 2048;

Result<FoundSnapshot> ReadSnapshot(blocks::BlobStore& store, const std::string& tag, Deadline deadline) {
  ASSIGN_OR_RETURN(const blocks::StoredManifest stored, store.GetManifest(tag, deadline));
  FoundSnapshot found;
  found.descriptor = stored.descriptor;
  ASSIGN_OR_RETURN(found.manifest, ParseSnapshotManifest(stored.bytes));
  if (found.manifest.quarantine) {
    found.descriptor = found.manifest.quarantine->subject.value_or(blocks::Descriptor());
    if (SnapshotTag(found.manifest.key) != tag) return DataLossError(tag + " holds what was put aside of another key");
    // What can still be said of it.
    const Result<std::string> record = blocks::ReadWholeBlob(store, found.manifest.record, deadline);
    Result<SnapshotRecord> parsed = record.ok() ? ParseRecord(*record) : record.status();
    if (parsed.ok()) found.record = *std::move(parsed);
    return found;
  }
  ASSIGN_OR_RETURN(const std::string record, blocks::ReadWholeBlob(store, found.manifest.record, deadline));
  ASSIGN_OR_RETURN(found.record, ParseRecord(record));
  const bool fits =
      SnapshotTag(found.manifest.key) == tag && blocks::Sha256Of(found.record.key_document).Hex() == found.manifest.key;
  if (!fits) return DataLossError("the snapshot under " + tag + " was recorded for another key");
  return found;
}

void AddChunks(const blocks::LayerIndex& index, blocks::KnownChunks* known) {
  std::map<uint32_t, uint32_t> numbers;
  for (uint32_t i = 0; i < index.chunk_count(); ++i) {
    blocks::Chunk chunk = index.chunk(i);
    if (known->chunks.contains(chunk.digest)) continue;
    const auto [place, is_new] = numbers.try_emplace(chunk.blob, static_cast<uint32_t>(known->blobs.size()));
    if (is_new && known->blobs.size() == kMaxKnownBlobs) return;
    if (is_new) {
      const blocks::BlobEntry& blob = index.blobs()[chunk.blob];
      const auto same = std::find(known->blobs.begin(), known->blobs.end(), blob);
      place->second = static_cast<uint32_t>(same - known->blobs.begin());
      if (same == known->blobs.end()) known->blobs.push_back(blob);
    }
    chunk.blob = place->second;
    known->chunks.emplace(chunk.digest, chunk);
  }
}

}  // namespace

Result<FoundSnapshot> FindSnapshot(blocks::BlobStore& store, const std::string& key, Deadline deadline) {
  Result<FoundSnapshot> found = ReadSnapshot(store, SnapshotTag(key), deadline);
  if (!found.ok() && found.status().code() == StatusCode::kNotFound) {
    return NotFoundError(store.Describe() + " holds no snapshot of key " + key.substr(0, 12));
  }
  return found;
}

Result<SnapshotList> ListSnapshots(blocks::BlobStore& store, const std::string& ns, Deadline deadline) {
  ASSIGN_OR_RETURN(const std::vector<std::string> tags, store.ListTags(kTagPrefix, deadline));
  SnapshotList list;
  for (const std::string& tag : tags) {
    Result<FoundSnapshot> found = ReadSnapshot(store, tag, deadline);
    if (!found.ok()) {
      list.broken.push_back(tag + ": " + found.status().message());
    } else if (ns.empty() || found->manifest.ns == ns) {
      list.snapshots.push_back(*std::move(found));
    }
  }
  std::stable_sort(list.snapshots.begin(), list.snapshots.end(),
                   [](const FoundSnapshot& a, const FoundSnapshot& b) { return a.record.created > b.record.created; });
  return list;
}

Result<blocks::Digest> EnsureDerivedImage(blocks::BlobStore& store, const FoundSnapshot& snapshot, Deadline deadline) {
  const std::string image = DerivedImage(snapshot.manifest, snapshot.descriptor);
  const blocks::Digest digest = blocks::Sha256Of(image);
  const Result<blocks::StoredManifest> stored = store.GetManifest(digest.ToString(), deadline);
  if (stored.ok()) return digest;
  // Its config is the empty one, and a registry takes no manifest that names what it does not have.
  RETURN_IF_ERROR(blocks::WriteWholeBlob(store, blocks::kEmptyMediaType, blocks::kEmptyConfig, deadline).status());
  RETURN_IF_ERROR(
      store.PutManifest(blocks::ImageTag(snapshot.descriptor.digest), blocks::kManifestMediaType, image, deadline)
          .status());
  return digest;
}

Result<FoundSnapshot> PublishSnapshot(blocks::BlobStore& store, SnapshotManifest snapshot, const SnapshotRecord& record,
                                      const std::optional<blocks::SigningKey>& key, Deadline deadline) {
  FoundSnapshot published;
  const std::string text = EncodeRecord(record);
  if (text.size() > kMaxRecordBytes) return InternalError("the record became too large");
  ASSIGN_OR_RETURN(snapshot.record, blocks::WriteWholeBlob(store, kRecordMediaType, text, deadline));
  const std::string manifest = EncodeSnapshotManifest(snapshot);
  ASSIGN_OR_RETURN(published.descriptor, store.PutManifest("", blocks::kManifestMediaType, manifest, deadline));
  published.manifest = std::move(snapshot);
  published.record = record;
  RETURN_IF_ERROR(EnsureDerivedImage(store, published, deadline).status());
  if (key) RETURN_IF_ERROR(WriteSignature(store, published.descriptor, *key, deadline));
  // A collector may have been at work since the chunks were looked up.
  for (const blocks::Descriptor& blob : published.manifest.layer.data) {
    RETURN_IF_ERROR(store.StatBlob(blob.digest, deadline).status().Annotate("before publishing"));
  }
  RETURN_IF_ERROR(
      store.PutManifest(SnapshotTag(published.manifest.key), blocks::kManifestMediaType, manifest, deadline).status());
  return published;
}

Status RemoveCompanions(blocks::BlobStore& store, const FoundSnapshot& snapshot, Deadline deadline) {
  RETURN_IF_ERROR(store.RemoveTag(SignatureTag(snapshot.descriptor.digest), deadline));
  const blocks::Digest image = blocks::Sha256Of(DerivedImage(snapshot.manifest, snapshot.descriptor));
  RETURN_IF_ERROR(store.RemoveTag(blocks::HotSetTag(image), deadline));
  // Last: a collector that was cut off finds the rest by it.
  return store.RemoveTag(blocks::ImageTag(snapshot.descriptor.digest), deadline);
}

Status RemoveSnapshot(blocks::BlobStore& store, const FoundSnapshot& snapshot, Deadline deadline) {
  RETURN_IF_ERROR(store.RemoveTag(SnapshotTag(snapshot.manifest.key), deadline));
  return RemoveCompanions(store, snapshot, deadline);
}

Result<blocks::KnownChunks> LoadKnownChunks(blocks::BlobStore& store, const std::string& ns,
                                            const std::vector<std::string>& capture, const Trust& trust,
                                            Deadline deadline) {
  blocks::KnownChunks known;
  const Result<SnapshotList> list = ListSnapshots(store, ns, deadline);
  // A store that cannot list costs space, no more.
  if (!list.ok() && list.status().code() == StatusCode::kUnimplemented) return known;
  if (!list.ok()) return list.status();
  size_t used = 0;
  for (const FoundSnapshot& snapshot : list->snapshots) {
    if (used == kKnownSnapshots) break;
    if (snapshot.manifest.quarantine || snapshot.manifest.ns != ns) continue;
    if (KeyList(snapshot.record, "capture") != capture) continue;
    if (trust.is_required) {
      const Result<SignatureFacts> signature =
          LookAtSignature(store, snapshot.descriptor.digest, trust.trusted, deadline);
      if (!signature.ok() || signature->state != SignatureState::kGood) continue;
    }
    const Result<blocks::LayerIndex> index = blocks::ReadLayerIndex(store, snapshot.manifest.layer, deadline);
    if (!index.ok()) continue;  // what is damaged is stored again
    AddChunks(*index, &known);
    ++used;
  }
  return known;
}

bool HasEnded(const SnapshotRecord& record, WallTime now) { return now >= record.expires; }

}  // namespace paceline::deps
