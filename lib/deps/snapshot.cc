#include "lib/deps/snapshot.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lib/deps/key.h"

namespace paceline::deps {
namespace {

constexpr int kRecordVersion = 1;
constexpr char kKeyAnnotation[] = "dev.paceline.deps.key";
constexpr char kNamespaceAnnotation[] = "dev.paceline.deps.namespace";
constexpr char kCreatedAnnotation[] = "dev.paceline.deps.created";
constexpr char kPlatformAnnotation[] = "dev.paceline.deps.platform";
constexpr char kWhyAnnotation[] = "dev.paceline.quarantine.why";
constexpr char kByAnnotation[] = "dev.paceline.quarantine.by";
constexpr char kAtAnnotation[] = "dev.paceline.quarantine.at";

Status Wrong(const std::string& what) { return DataLossError("snapshot: " + what); }

// Reads fields and keeps the first failure.
class Fields {
 public:
  explicit Fields(const Json& json) : json_(json) {}

  std::string Text(const std::string& path) { return Take(JsonString(json_, path), std::string()); }
  uint64_t Count(const std::string& path) {
    const int64_t value = Take(JsonInt(json_, path), int64_t{0});
    if (value < 0 && status_.ok()) status_ = Wrong(path + " is negative");
    return value < 0 ? 0 : static_cast<uint64_t>(value);
  }
  double Number(const std::string& path) { return Take(JsonDouble(json_, path), 0.0); }
  WallTime Time(const std::string& path) { return Take(ParseRfc3339(Text(path)), WallTime()); }
  std::vector<std::string> Texts(const std::string& path) {
    return Take(JsonStrings(json_, path), std::vector<std::string>());
  }
  const Status& status() const { return status_; }

 private:
  template <typename T>
  T Take(Result<T> value, T fallback) {
    if (!value.ok() && status_.ok()) status_ = Wrong(value.status().message());
    return std::move(value).value_or(std::move(fallback));
  }

  const Json& json_;
  Status status_;
};

Json DescriptorJson(const blocks::Descriptor& descriptor) {
  Json value = {
      {"mediaType", descriptor.media_type}, {"digest", descriptor.digest.ToString()}, {"size", descriptor.size_bytes}};
  if (!descriptor.annotations.empty()) value["annotations"] = Json(descriptor.annotations);
  return value;
}

std::string AnnotationOf(const Json& json, const char* name) {
  const Json* value = FindJsonAt(json, {"annotations", name});
  return value != nullptr && value->is_string() ? value->get<std::string>() : "";
}

}  // namespace

std::string EncodeRecord(const SnapshotRecord& record) {
  Json links = Json::array();
  for (const ExternalLink& link : record.external_links) {
    links.push_back({{"path", link.path}, {"target", link.target}});
  }
  Json json = {{"recordVersion", kRecordVersion},
               {"keyInputs", ParseJson(record.key_document).value_or(Json())},
               {"created", FormatRfc3339(record.created)},
               {"expires", FormatRfc3339(record.expires)},
               {"class", record.is_pinned ? "pinned" : "floating"},
               {"classReason", record.class_reason},
               {"installSeconds", record.install_seconds},
               {"files", record.files},
               {"bytes", record.bytes},
               {"removed", record.removed},
               {"storedBytes", record.stored_bytes},
               {"newBytes", record.new_bytes},
               {"dropped", Json(record.dropped)},
               {"externalLinks", std::move(links)},
               {"warnings", record.warnings}};
  if (!record.recorded_by.empty()) json["recordedBy"] = Json(record.recorded_by);
  return DumpJson(json);
}

Result<SnapshotRecord> ParseRecord(std::string_view text) {
  if (text.size() > kMaxRecordBytes) return Wrong("the record is too large");
  const Result<Json> json = ParseJson(text);
  if (!json.ok()) return Wrong(json.status().message());
  Fields fields(*json);
  if (const uint64_t version = fields.Count("recordVersion"); fields.status().ok() && version != kRecordVersion) {
    return UnimplementedError(fmt::format("snapshot: a record of version {}", version));
  }
  SnapshotRecord record;
  const Json* key = FindJson(*json, "keyInputs");
  if (key == nullptr || !key->is_object()) return Wrong("keyInputs are missing");
  record.key_document = DumpJson(*key);
  record.created = fields.Time("created");
  record.expires = fields.Time("expires");
  record.is_pinned = fields.Text("class") == "pinned";
  record.class_reason = fields.Text("classReason");
  record.install_seconds = fields.Number("installSeconds");
  record.files = fields.Count("files");
  record.bytes = fields.Count("bytes");
  record.removed = fields.Count("removed");
  record.stored_bytes = fields.Count("storedBytes");
  record.new_bytes = fields.Count("newBytes");
  record.warnings = fields.Texts("warnings");
  if (const Json* dropped = FindJson(*json, "dropped"); dropped != nullptr && dropped->is_object()) {
    for (const auto& [reason, count] : dropped->items()) {
      if (count.is_number_unsigned()) record.dropped[reason] = count.get<uint64_t>();
    }
  }
  if (const Json* by = FindJson(*json, "recordedBy"); by != nullptr && by->is_object()) {
    for (const auto& [name, value] : by->items()) {
      if (value.is_string()) record.recorded_by[name] = value.get<std::string>();
    }
  }
  if (const Json* links = FindJson(*json, "externalLinks"); links != nullptr && links->is_array()) {
    for (const Json& link : *links) {
      Fields parts(link);
      record.external_links.push_back({parts.Text("path"), parts.Text("target")});
      RETURN_IF_ERROR(parts.status());
    }
  }
  RETURN_IF_ERROR(fields.status());
  return record;
}

std::string EncodeSnapshotManifest(const SnapshotManifest& manifest) {
  // The layer's descriptors are those of a layer manifest.
  const bool has_layer = manifest.record.media_type == kRecordMediaType;
  const Json layer = has_layer ? ParseJson(blocks::EncodeLayerManifest(manifest.layer)).value_or(Json::object())
                               : Json{{"layers", {DescriptorJson(manifest.record)}}};
  Json json = {{"schemaVersion", 2},
               {"mediaType", blocks::kManifestMediaType},
               {"artifactType", manifest.quarantine ? kQuarantineArtifactType : kSnapshotArtifactType},
               {"config", DescriptorJson(manifest.record)},
               {"layers", layer.value("layers", Json::array())},
               {"annotations",
                {{kKeyAnnotation, manifest.key},
                 {kNamespaceAnnotation, manifest.ns},
                 {kCreatedAnnotation, manifest.created},
                 {kPlatformAnnotation, manifest.platform}}}};
  if (manifest.quarantine) {
    json["annotations"][kWhyAnnotation] = manifest.quarantine->why;
    json["annotations"][kByAnnotation] = manifest.quarantine->by;
    json["annotations"][kAtAnnotation] = manifest.quarantine->at;
    if (manifest.quarantine->subject) json["subject"] = DescriptorJson(*manifest.quarantine->subject);
  }
  return DumpJson(json);
}

Result<SnapshotManifest> ParseSnapshotManifest(std::string_view text) {
  if (text.size() > blocks::kMaxManifestBytes) return Wrong("the manifest is too large");
  Result<Json> json = ParseJson(text);
  if (!json.ok()) return Wrong(json.status().message());
  const std::string type = JsonStringOr(*json, "artifactType", "").value_or("");
  if (type != kSnapshotArtifactType && type != kQuarantineArtifactType) {
    return Wrong("artifactType is not " + std::string(kSnapshotArtifactType));
  }
  SnapshotManifest manifest;
  manifest.key = AnnotationOf(*json, kKeyAnnotation);
  manifest.ns = AnnotationOf(*json, kNamespaceAnnotation);
  manifest.created = AnnotationOf(*json, kCreatedAnnotation);
  manifest.platform = AnnotationOf(*json, kPlatformAnnotation);
  if (!blocks::ParseDigest("sha256:" + manifest.key).ok()) return Wrong("the key is missing");
  const Json* config = FindJson(*json, "config");
  if (config == nullptr) return Wrong("config is missing");
  ASSIGN_OR_RETURN(manifest.record, blocks::ParseDescriptor(*config));
  if (type == kQuarantineArtifactType) {
    manifest.quarantine = Quarantine{AnnotationOf(*json, kWhyAnnotation), AnnotationOf(*json, kByAnnotation),
                                     AnnotationOf(*json, kAtAnnotation), std::nullopt};
    if (const Json* subject = FindJson(*json, "subject"); subject != nullptr) {
      ASSIGN_OR_RETURN(manifest.quarantine->subject, blocks::ParseDescriptor(*subject));
    }
    if (manifest.record.media_type == blocks::kEmptyMediaType) return manifest;  // nothing could be read of it
  }
  if (manifest.record.media_type != kRecordMediaType || manifest.record.size_bytes > kMaxRecordBytes) {
    return Wrong("config is no record");
  }
  (*json)["artifactType"] = blocks::kLayerArtifactType;
  ASSIGN_OR_RETURN(manifest.layer, blocks::ParseLayerManifest(DumpJson(*json)));
  return manifest;
}

std::string DerivedImage(const SnapshotManifest& manifest, const blocks::Descriptor& snapshot) {
  blocks::BlockImageManifest image;
  image.subject = {blocks::kManifestMediaType, snapshot.digest, snapshot.size_bytes, {}};
  image.config = manifest.record.digest;
  image.platform = manifest.platform;
  image.layers = {manifest.layer};
  return blocks::EncodeImageManifest(image);
}

std::string SnapshotTag(std::string_view key) { return kTagPrefix + std::string(key); }

std::string KeyField(const SnapshotRecord& record, const std::string& field) {
  const Result<Json> json = ParseJson(record.key_document);
  return json.ok() ? JsonStringOr(*json, field, "").value_or("") : "";
}

std::vector<std::string> KeyList(const SnapshotRecord& record, const std::string& field) {
  const Result<Json> json = ParseJson(record.key_document);
  return json.ok() ? JsonStrings(*json, field).value_or({}) : std::vector<std::string>();
}

}  // namespace paceline::deps
