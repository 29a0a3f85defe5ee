#include "lib/deps/side_object.h"

#include <nlohmann/json.hpp>

#include "lib/base/json.h"
#include "lib/blocks/format/manifest.h"

namespace paceline::deps {
namespace {

Json NamedBlob(const blocks::Descriptor& descriptor) {
  return {
      {"mediaType", descriptor.media_type}, {"digest", descriptor.digest.ToString()}, {"size", descriptor.size_bytes}};
}

}  // namespace

std::string SideObject::Annotation(const std::string& name) const {
  const auto found = annotations.find(name);
  return found == annotations.end() ? "" : found->second;
}

Result<SideObject> ReadSideObject(blocks::BlobStore& store, const std::string& tag, const std::string& artifact_type,
                                  Deadline deadline) {
  ASSIGN_OR_RETURN(const blocks::StoredManifest stored, store.GetManifest(tag, deadline));
  const Result<Json> json = ParseJson(stored.bytes);
  if (!json.ok()) return DataLossError(tag + ": " + json.status().message());
  if (JsonStringOr(*json, "artifactType", "").value_or("") != artifact_type) {
    return DataLossError(tag + " leads to something else");
  }
  const Result<blocks::Digest> subject = blocks::ParseDigest(JsonStringOr(*json, "subject.digest", "").value_or(""));
  if (!subject.ok()) return DataLossError(tag + " names no subject");
  SideObject object;
  object.subject = *subject;
  const Json* annotations = FindJson(*json, "annotations");
  if (annotations == nullptr || !annotations->is_object()) return object;
  for (const auto& [name, value] : annotations->items()) {
    if (value.is_string()) object.annotations[name] = value.get<std::string>();
  }
  return object;
}

Status WriteSideObject(blocks::BlobStore& store, const std::string& tag, const std::string& artifact_type,
                       const blocks::Descriptor& subject, const std::map<std::string, std::string>& annotations,
                       Deadline deadline) {
  ASSIGN_OR_RETURN(const blocks::Descriptor empty,
                   blocks::WriteWholeBlob(store, blocks::kEmptyMediaType, blocks::kEmptyConfig, deadline));
  const Json manifest = {{"schemaVersion", 2},
                         {"mediaType", blocks::kManifestMediaType},
                         {"artifactType", artifact_type},
                         {"config", NamedBlob(empty)},
                         {"layers", Json::array({NamedBlob(empty)})},
                         {"subject", NamedBlob(subject)},
                         {"annotations", Json(annotations)}};
  return store.PutManifest(tag, blocks::kManifestMediaType, DumpJson(manifest), deadline).status();
}

}  // namespace paceline::deps
