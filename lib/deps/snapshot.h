// The manifest of a dependency snapshot and the record in it: docs/formats/dependency-snapshot.md, section 2. Pure
// functions between JSON and plain values; called by recorder, restorer and pacectl.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/json.h"
#include "lib/base/result.h"
#include "lib/blocks/format/blob_store.h"
#include "lib/blocks/format/manifest.h"
#include "lib/deps/tree_checks.h"

namespace paceline::deps {

inline constexpr char kSnapshotArtifactType[] = "application/vnd.paceline.dependency-snapshot.v1";
inline constexpr char kQuarantineArtifactType[] = "application/vnd.paceline.dependency-snapshot.quarantine.v1";
inline constexpr char kRecordMediaType[] = "application/vnd.paceline.dependency-snapshot.record.v1+json";
inline constexpr char kTagPrefix[] = "paceline-deps-v1-";
inline constexpr size_t kMaxRecordBytes = 3U << 20;

struct SnapshotRecord {
  std::string key_document;  // as KeyDocument's JSON is written
  WallTime created, expires;
  bool is_pinned = false;
  std::string class_reason;
  double install_seconds = 0;
  uint64_t files = 0, bytes = 0, removed = 0;
  uint64_t stored_bytes = 0, new_bytes = 0;
  std::map<std::string, uint64_t> dropped;
  std::vector<ExternalLink> external_links;
  std::vector<std::string> warnings;
  std::map<std::string, std::string> recorded_by;  // "pod", "node", ...: section 2.1
};

std::string EncodeRecord(const SnapshotRecord& record);
// kDataLoss for what is no record, kUnimplemented for one of another version.
Result<SnapshotRecord> ParseRecord(std::string_view text);

// That a snapshot was put aside: section 2.4.
struct Quarantine {
  std::string why, by;
  std::string at;                             // RFC 3339
  std::optional<blocks::Descriptor> subject;  // the snapshot's manifest; absent when it could not be read
};

struct SnapshotManifest {
  std::string key;  // 64 hexadecimal digits
  std::string ns;
  std::string created;        // RFC 3339
  blocks::Descriptor record;  // the config
  blocks::BlockLayer layer;
  std::string platform;  // "linux/x86_64": of the block image manifest that follows from it
  // Set: this is no snapshot but a note that there was one. Record and layer are the snapshot's, or nothing.
  std::optional<Quarantine> quarantine;
};

std::string EncodeSnapshotManifest(const SnapshotManifest& manifest);
// kDataLoss for what is none.
Result<SnapshotManifest> ParseSnapshotManifest(std::string_view text);

// The block image manifest that follows from a snapshot manifest whose descriptor is `snapshot`.
std::string DerivedImage(const SnapshotManifest& manifest, const blocks::Descriptor& snapshot);

std::string SnapshotTag(std::string_view key);
// What the record's key document says; "" when it does not.
std::string KeyField(const SnapshotRecord& record, const std::string& field);
// Of a field that is a list.
std::vector<std::string> KeyList(const SnapshotRecord& record, const std::string& field);

}  // namespace paceline::deps
