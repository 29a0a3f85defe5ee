#include "cli/image_places.h"

namespace paceline::cli {
namespace {

constexpr std::string_view kFile = "file://";

bool IsNotFound(const Status& status) { return status.code() == StatusCode::kNotFound; }

}  // namespace

Result<std::unique_ptr<blocks::BlobStore>> OpenStore(const std::string& url, blocks::StoreAccess access) {
  if (url.starts_with("file:///")) return blocks::OpenFolderStore(url.substr(kFile.size()), access);
  if (url.starts_with('/')) return blocks::OpenFolderStore(url, access);
  return InvalidArgumentError("\"" + url + "\" is no store: file:///FOLDER");
}

Result<std::unique_ptr<blocks::ImageSource>> OpenSource(const std::string& text) {
  return blocks::OpenLocalSource(text);
}

Result<FoundImage> FindImage(blocks::BlobStore& store, const std::string& text, const blocks::Platform& platform,
                             Deadline deadline) {
  FoundImage found;
  std::optional<blocks::Digest> subject;
  const Result<blocks::Digest> digest = blocks::ParseDigest(text);
  if (!digest.ok() && text.find(':') != std::string::npos) {
    ASSIGN_OR_RETURN(const std::unique_ptr<blocks::ImageSource> source, OpenSource(text));
    ASSIGN_OR_RETURN(const blocks::SourceImage image, source->Resolve(platform, deadline));
    subject = image.manifest.digest;
  } else if (digest.ok()) {
    subject = *digest;
  }
  Result<blocks::StoredManifest> manifest = store.GetManifest(subject ? blocks::ImageTag(*subject) : text, deadline);
  if (!manifest.ok() && IsNotFound(manifest.status()) && digest.ok()) {
    subject.reset();  // then perhaps the converted image's own
    manifest = store.GetManifest(text, deadline);
  }
  if (!manifest.ok() && IsNotFound(manifest.status())) {
    return NotFoundError(store.Describe() + " holds no converted image of " + text +
                         "; make it with: pacectl image convert");
  }
  if (!manifest.ok()) return manifest.status();
  ASSIGN_OR_RETURN(found.image, blocks::ParseImageManifest(manifest->bytes));
  if (subject && found.image.subject.digest != *subject) {
    return DataLossError("the image found under the tag of " + text + " was made from another one, " +
                         found.image.subject.digest.ToString());
  }
  found.manifest = std::move(*manifest);
  return found;
}

}  // namespace paceline::cli
