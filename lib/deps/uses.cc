#include "lib/deps/uses.h"

#include "lib/deps/side_object.h"

namespace paceline::deps {
namespace {

constexpr char kUseTagPrefix[] = "paceline-use-v1-";
constexpr char kUseArtifactType[] = "application/vnd.paceline.dependency-snapshot.use.v1";
constexpr char kUseNodeAnnotation[] = "dev.paceline.use.node";
constexpr char kUseUntilAnnotation[] = "dev.paceline.use.until";
constexpr size_t kUserDigits = 16;

std::string UserOf(const std::string& node) { return blocks::Sha256Of(node).Hex().substr(0, kUserDigits); }

}  // namespace

Result<std::vector<Use>> ListUses(blocks::BlobStore& store, const std::string& node, Deadline deadline) {
  ASSIGN_OR_RETURN(const std::vector<std::string> tags, store.ListTags(kUseTagPrefix, deadline));
  const std::string own = "-" + UserOf(node);
  std::vector<Use> uses;
  for (const std::string& tag : tags) {
    if (!node.empty() && !tag.ends_with(own)) continue;
    const Result<SideObject> object = ReadSideObject(store, tag, kUseArtifactType, deadline);
    const StatusCode code = object.status().code();
    if (code == StatusCode::kNotFound || code == StatusCode::kDataLoss) continue;
    if (!object.ok()) return object.status();
    const Result<WallTime> until = ParseRfc3339(object->Annotation(kUseUntilAnnotation));
    if (until.ok()) uses.push_back({tag, object->subject, object->Annotation(kUseNodeAnnotation), *until});
  }
  return uses;
}

Status WriteUse(blocks::BlobStore& store, const blocks::Digest& snapshot, const std::string& node, WallTime until,
                Deadline deadline) {
  ASSIGN_OR_RETURN(const blocks::StoredManifest manifest, store.GetManifest(snapshot.ToString(), deadline));
  return WriteSideObject(store, kUseTagPrefix + snapshot.Hex() + "-" + UserOf(node), kUseArtifactType,
                         manifest.descriptor, {{kUseNodeAnnotation, node}, {kUseUntilAnnotation, FormatRfc3339(until)}},
                         deadline);
}

}  // namespace paceline::deps
