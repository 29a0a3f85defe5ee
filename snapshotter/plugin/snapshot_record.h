// One snapshot as containerd's plugin keeps it: what containerd told, and where its files are. Plain values and pure
// functions between them and the text on disk (docs/formats/snapshot-records.md).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/blocks/format/digest.h"

namespace paceline::snapshotter {

enum class SnapshotKind { kView, kActive, kCommitted };
// "view", "active", "committed", as containerd's filters and our records name them.
std::string_view SnapshotKindName(SnapshotKind kind);

// A layer of a converted image, which is mounted instead of being unpacked.
struct RemoteLayer {
  std::string image_name;  // as the runtime named the image: for people
  std::string store;       // URL
  blocks::Digest image;    // of the converted image's manifest
  uint32_t layer = 0;      // 0 at the bottom
  friend bool operator==(const RemoteLayer&, const RemoteLayer&) = default;
};

using SnapshotLabels = std::map<std::string, std::string>;

struct SnapshotRecord {
  uint64_t id = 0;           // never given twice; names the folder
  std::string name, parent;  // containerd's keys; parent "" at the bottom
  SnapshotKind kind = SnapshotKind::kActive;
  WallTime created, updated;
  SnapshotLabels labels;
  uint64_t size_bytes = 0, inodes = 0;  // of a committed ordinary snapshot
  std::optional<RemoteLayer> remote;
};

// Records are shared between threads and never changed: a change makes a new one.
using SnapshotPtr = std::shared_ptr<const SnapshotRecord>;

std::string EncodeSnapshot(const SnapshotRecord& snapshot);
// kDataLoss for what is none, naming the field.
Result<SnapshotRecord> ParseSnapshot(std::string_view json);

}  // namespace paceline::snapshotter
