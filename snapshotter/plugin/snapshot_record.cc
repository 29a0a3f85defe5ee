#include "snapshotter/plugin/snapshot_record.h"

#include <nlohmann/json.hpp>

#include "lib/base/json.h"

namespace paceline::snapshotter {
namespace {

constexpr int64_t kVersion = 1;

int64_t Nanoseconds(WallTime time) { return time.time_since_epoch().count(); }

Result<uint64_t> Count(const Json& json, std::string_view path) {
  ASSIGN_OR_RETURN(const int64_t value, JsonIntOr(json, path, 0));
  if (value < 0) return InvalidArgumentError(std::string(path) + ": negative");
  return static_cast<uint64_t>(value);
}

Result<SnapshotKind> KindOf(std::string_view name) {
  for (const SnapshotKind kind : {SnapshotKind::kView, SnapshotKind::kActive, SnapshotKind::kCommitted}) {
    if (name == SnapshotKindName(kind)) return kind;
  }
  return InvalidArgumentError("kind: unknown");
}

Status ReadLabels(const Json& json, SnapshotLabels* labels) {
  const Json* found = FindJson(json, "labels");
  if (found == nullptr) return Status();
  if (!found->is_object()) return InvalidArgumentError("labels: no object");
  for (const auto& [key, value] : found->items()) {
    if (!value.is_string()) return InvalidArgumentError("labels: a value is no text");
    labels->emplace(key, value.get<std::string>());
  }
  return Status();
}

Result<RemoteLayer> ReadRemote(const Json& json) {
  RemoteLayer remote;
  ASSIGN_OR_RETURN(remote.image_name, JsonStringOr(json, "imageName", ""));
  ASSIGN_OR_RETURN(remote.store, JsonString(json, "store"));
  ASSIGN_OR_RETURN(const std::string image, JsonString(json, "image"));
  ASSIGN_OR_RETURN(remote.image, blocks::ParseDigest(image));
  ASSIGN_OR_RETURN(const uint64_t layer, Count(json, "layer"));
  if (layer > UINT32_MAX) return InvalidArgumentError("layer: too large");
  remote.layer = static_cast<uint32_t>(layer);
  return remote;
}

Result<SnapshotRecord> Read(const Json& json) {
  ASSIGN_OR_RETURN(const int64_t version, JsonInt(json, "version"));
  if (version != kVersion) return InvalidArgumentError("version: unknown");
  SnapshotRecord snapshot;
  ASSIGN_OR_RETURN(snapshot.id, Count(json, "id"));
  if (snapshot.id == 0) return InvalidArgumentError("id: missing");
  ASSIGN_OR_RETURN(snapshot.name, JsonString(json, "name"));
  ASSIGN_OR_RETURN(snapshot.parent, JsonStringOr(json, "parent", ""));
  ASSIGN_OR_RETURN(const std::string kind, JsonString(json, "kind"));
  ASSIGN_OR_RETURN(snapshot.kind, KindOf(kind));
  ASSIGN_OR_RETURN(const int64_t created, JsonInt(json, "created"));
  ASSIGN_OR_RETURN(const int64_t updated, JsonInt(json, "updated"));
  snapshot.created = WallTime(Duration(created));
  snapshot.updated = WallTime(Duration(updated));
  RETURN_IF_ERROR(ReadLabels(json, &snapshot.labels));
  ASSIGN_OR_RETURN(snapshot.size_bytes, Count(json, "sizeBytes"));
  ASSIGN_OR_RETURN(snapshot.inodes, Count(json, "inodes"));
  if (const Json* remote = FindJson(json, "remote")) {
    ASSIGN_OR_RETURN(snapshot.remote, ReadRemote(*remote));
  }
  return snapshot;
}

}  // namespace

std::string_view SnapshotKindName(SnapshotKind kind) {
  switch (kind) {
    case SnapshotKind::kView: return "view";
    case SnapshotKind::kActive: return "active";
    case SnapshotKind::kCommitted: return "committed";
  }
  return "";
}

std::string EncodeSnapshot(const SnapshotRecord& snapshot) {
  Json json = {{"version", kVersion},
               {"id", snapshot.id},
               {"name", snapshot.name},
               {"parent", snapshot.parent},
               {"kind", SnapshotKindName(snapshot.kind)},
               {"created", Nanoseconds(snapshot.created)},
               {"updated", Nanoseconds(snapshot.updated)},
               {"labels", Json::object()},
               {"sizeBytes", snapshot.size_bytes},
               {"inodes", snapshot.inodes}};
  for (const auto& [key, value] : snapshot.labels) json["labels"][key] = value;
  if (snapshot.remote) {
    json["remote"] = {{"imageName", snapshot.remote->image_name},
                      {"store", snapshot.remote->store},
                      {"image", snapshot.remote->image.ToString()},
                      {"layer", snapshot.remote->layer}};
  }
  return DumpJson(json) + "\n";
}

Result<SnapshotRecord> ParseSnapshot(std::string_view json) {
  Result<Json> parsed = ParseJson(json);
  if (!parsed.ok()) return DataLossError("snapshot record: " + parsed.status().message());
  Result<SnapshotRecord> snapshot = Read(*parsed);
  if (!snapshot.ok()) return DataLossError("snapshot record: " + snapshot.status().message());
  return snapshot;
}

}  // namespace paceline::snapshotter
