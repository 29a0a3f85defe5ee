#include "agent/csi/volume_record.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace paceline::agent {
namespace {

using nlohmann::json;

constexpr int kFormatVersion = 1;

Result<std::string> StringField(const json& object, const char* name) {
  auto it = object.find(name);
  if (it == object.end() || !it->is_string()) return DataLossError(fmt::format("volume record: no text \"{}\"", name));
  return it->get<std::string>();
}

Result<VolumePhase> ParsePhase(std::string_view text) {
  for (VolumePhase phase : {VolumePhase::kPublishing, VolumePhase::kPublished, VolumePhase::kUnpublishing}) {
    if (text == VolumePhaseName(phase)) return phase;
  }
  return DataLossError(fmt::format("volume record: unknown phase \"{}\"", text));
}

Result<WallTime> TimeField(const json& object, const char* name) {
  ASSIGN_OR_RETURN(std::string text, StringField(object, name));
  Result<WallTime> time = ParseRfc3339(text);
  if (!time.ok()) return DataLossError(fmt::format("volume record: {}: {}", name, time.status().message()));
  return time;
}

Status ParseAttributes(const json& object, std::map<std::string, std::string>* attributes) {
  auto it = object.find("attributes");
  if (it == object.end() || !it->is_object()) return DataLossError("volume record: no object \"attributes\"");
  for (const auto& [key, value] : it->items()) {
    if (!value.is_string()) return DataLossError(fmt::format("volume record: attribute {} is not text", key));
    (*attributes)[key] = value.get<std::string>();
  }
  return Status();
}

}  // namespace

std::string_view VolumePhaseName(VolumePhase phase) {
  switch (phase) {
    case VolumePhase::kPublishing: return "Publishing";
    case VolumePhase::kPublished: return "Published";
    case VolumePhase::kUnpublishing: return "Unpublishing";
  }
  return "Publishing";
}

std::string RenderVolumeRecord(const VolumeRecord& record) {
  json object = {
      {"version", kFormatVersion},
      {"volumeId", record.spec.volume_id},
      {"type", record.spec.type},
      {"target", record.spec.target.path},
      {"podNamespace", record.spec.pod.ns},
      {"podName", record.spec.pod.name},
      {"readOnly", record.spec.is_read_only},
      {"attributes", record.spec.attributes},
      {"phase", std::string(VolumePhaseName(record.phase))},
      {"requestedAt", FormatRfc3339Micro(record.requested_at)},
  };
  if (record.spec.has_secrets) object["hasSecrets"] = true;
  if (record.published_at) object["publishedAt"] = FormatRfc3339Micro(*record.published_at);
  // Attributes are a tenant's bytes; a broken UTF-8 sequence must not make the record unwritable.
  return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<VolumeRecord> ParseVolumeRecord(std::string_view text, std::string_view kubelet_dir) {
  json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return DataLossError("volume record: not a JSON object");
  auto version = object.find("version");
  if (version == object.end() || !version->is_number_integer() || *version != kFormatVersion) {
    return DataLossError("volume record: unknown version");
  }
  VolumeRecord record;
  VolumeSpec& spec = record.spec;
  ASSIGN_OR_RETURN(spec.volume_id, StringField(object, "volumeId"));
  if (!IsValidVolumeId(spec.volume_id)) return DataLossError("volume record: bad volumeId");
  ASSIGN_OR_RETURN(spec.type, StringField(object, "type"));
  ASSIGN_OR_RETURN(std::string target, StringField(object, "target"));
  Result<TargetPath> parsed = ParseTargetPath(kubelet_dir, target);
  if (!parsed.ok()) return DataLossError("volume record: " + parsed.status().message());
  spec.target = *parsed;
  ASSIGN_OR_RETURN(spec.pod.ns, StringField(object, "podNamespace"));
  ASSIGN_OR_RETURN(spec.pod.name, StringField(object, "podName"));
  spec.pod.uid = spec.target.pod_uid;
  auto read_only = object.find("readOnly");
  if (read_only == object.end() || !read_only->is_boolean()) return DataLossError("volume record: no \"readOnly\"");
  spec.is_read_only = read_only->get<bool>();
  RETURN_IF_ERROR(ParseAttributes(object, &spec.attributes));
  if (auto it = object.find("hasSecrets"); it != object.end()) spec.has_secrets = it->is_boolean() && it->get<bool>();
  ASSIGN_OR_RETURN(std::string phase, StringField(object, "phase"));
  ASSIGN_OR_RETURN(record.phase, ParsePhase(phase));
  ASSIGN_OR_RETURN(record.requested_at, TimeField(object, "requestedAt"));
  if (object.contains("publishedAt")) {
    ASSIGN_OR_RETURN(record.published_at, TimeField(object, "publishedAt"));
  }
  return record;
}

}  // namespace paceline::agent
