#include "lib/blocks/image/image_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/utsname.h>

#include <map>
#include <nlohmann/json.hpp>

#include "lib/base/json.h"
#include "lib/blocks/format/manifest.h"
#include "lib/blocks/image/tar_reader.h"

namespace paceline::blocks {
namespace {

constexpr char kRefNameKey[] = "org.opencontainers.image.ref.name";
constexpr int kMaxIndexDepth = 4;

bool IsIndexType(std::string_view type) {
  return type == "application/vnd.oci.image.index.v1+json" ||
         type == "application/vnd.docker.distribution.manifest.list.v2+json";
}

bool IsManifestType(std::string_view type) {
  return type == "application/vnd.oci.image.manifest.v1+json" ||
         type == "application/vnd.docker.distribution.manifest.v2+json";
}

Platform PlatformOf(const Json& json) {
  Platform platform;
  platform.os = JsonStringOr(json, "os", "").value_or("");
  platform.architecture = JsonStringOr(json, "architecture", "").value_or("");
  platform.variant = JsonStringOr(json, "variant", "").value_or("");
  return platform;
}

// v8 is what arm64 means without a variant.
std::string VariantOf(const Platform& platform) {
  return platform.architecture == "arm64" && platform.variant == "v8" ? "" : platform.variant;
}

bool Fits(const Platform& there, const Platform& wanted) {
  return there.os == wanted.os && there.architecture == wanted.architecture &&
         (wanted.variant.empty() || VariantOf(there) == VariantOf(wanted));
}

Result<Json> ReadDocument(const Descriptor& blob, const ReadBlobFunction& read) {
  if (blob.size_bytes > kMaxManifestBytes) {
    return DataLossError(
        fmt::format("{} has {} bytes, too many for a manifest", blob.digest.ToString(), blob.size_bytes));
  }
  ASSIGN_OR_RETURN(const std::string text, read(blob));
  if (text.size() != blob.size_bytes || Sha256Of(text) != blob.digest) {
    return DataLossError(blob.digest.ToString() + ": its bytes have another digest");
  }
  Result<Json> json = ParseJson(text);
  if (!json.ok()) return DataLossError(blob.digest.ToString() + ": " + json.status().message());
  return json;
}

// Of the entries of an index, the one for the platform.
Result<Descriptor> ChooseManifest(const Json& index, const Platform& platform) {
  const Json* list = FindJson(index, "manifests");
  if (list == nullptr || !list->is_array()) return DataLossError("an image index without manifests");
  std::vector<std::string> there;
  for (const Json& item : *list) {
    const Json* described = FindJson(item, "platform");
    if (described == nullptr && list->size() == 1) return ParseDescriptor(item);
    if (described == nullptr) continue;
    const Platform found = PlatformOf(*described);
    if (Fits(found, platform)) return ParseDescriptor(item);
    // Attestations of a builder are entries of an unknown platform.
    if (found.os != "unknown") there.push_back(found.ToString());
  }
  return NotFoundError(fmt::format("the image is not made for {}; there are: {}", platform.ToString(),
                                   there.empty() ? "none" : fmt::format("{}", fmt::join(there, ", "))));
}

Status CheckLayerType(const std::string& type) {
  if (type.find("encrypted") != std::string::npos) return UnimplementedError("an encrypted layer (" + type + ")");
  if (type.find("tar") == std::string::npos) return UnimplementedError("a layer of type " + type.substr(0, 200));
  return Status();
}

Result<std::vector<SourceLayer>> ReadSourceLayers(const Json& manifest, const Json& config) {
  const Json* list = FindJson(manifest, "layers");
  if (list == nullptr || !list->is_array()) return DataLossError("an image manifest without layers");
  Result<std::vector<std::string>> diff_ids = JsonStrings(config, "rootfs.diff_ids");
  if (!diff_ids.ok()) {
    // Artifacts are manifests too, but no images.
    return UnimplementedError("no image of a container: its config names no file system (rootfs.diff_ids)");
  }
  if (list->size() != diff_ids->size() || list->size() > kMaxLayers) {
    return DataLossError(fmt::format("{} layers, but {} DiffIDs in the config", list->size(), diff_ids->size()));
  }
  std::vector<SourceLayer> layers;
  for (size_t i = 0; i < list->size(); ++i) {
    SourceLayer& layer = layers.emplace_back();
    ASSIGN_OR_RETURN(layer.blob, ParseDescriptor((*list)[i]));
    RETURN_IF_ERROR(CheckLayerType(layer.blob.media_type));
    ASSIGN_OR_RETURN(layer.diff_id, ParseDigest((*diff_ids)[i]));
  }
  return layers;
}

class FolderFiles final : public BlobFiles {
 public:
  explicit FolderFiles(std::string folder) : folder_(std::move(folder)) {}
  Result<std::unique_ptr<ByteSource>> Open(const std::string& name) override {
    return OpenFileSource(folder_ + "/" + name);
  }

 private:
  std::string folder_;
};

class ArchiveFiles final : public BlobFiles {
 public:
  struct Span {
    uint64_t offset_bytes = 0, size_bytes = 0;
  };
  ArchiveFiles(std::string path, std::map<std::string, Span> files)
      : path_(std::move(path)), files_(std::move(files)) {}

  Result<std::unique_ptr<ByteSource>> Open(const std::string& name) override {
    const auto found = files_.find(name);
    if (found == files_.end()) return NotFoundError(path_ + " holds no " + name);
    UniqueFd fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.is_valid()) return ErrnoStatus(errno, "open " + path_);
    return NewFileSource(std::move(fd), path_, found->second.offset_bytes, found->second.size_bytes);
  }

 private:
  std::string path_;
  std::map<std::string, Span> files_;
};

class LayoutSource final : public ImageSource {
 public:
  LayoutSource(std::unique_ptr<BlobFiles> files, std::string tag) : files_(std::move(files)), tag_(std::move(tag)) {}

  Result<SourceImage> Resolve(const Platform& platform, Deadline) override {
    ASSIGN_OR_RETURN(const Descriptor root, FindTag());
    return ResolveImage(root, platform, [this](const Descriptor& blob) -> Result<std::string> {
      ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source, files_->Open(BlobName(blob)));
      return ReadAll(*source, kMaxManifestBytes);
    });
  }

  Result<std::unique_ptr<ByteSource>> OpenLayer(const Descriptor& blob, Deadline) override {
    return files_->Open(BlobName(blob));
  }

 private:
  static std::string BlobName(const Descriptor& blob) { return "blobs/sha256/" + blob.digest.Hex(); }
  Result<Descriptor> FindTag();

  std::unique_ptr<BlobFiles> files_;
  std::string tag_;
};

Result<Descriptor> LayoutSource::FindTag() {
  Result<std::unique_ptr<ByteSource>> file = files_->Open("index.json");
  if (!file.ok()) return file.status().Annotate("no OCI layout");
  ASSIGN_OR_RETURN(const std::string text, ReadAll(**file, kMaxManifestBytes));
  Result<Json> json = ParseJson(text);
  if (!json.ok()) return DataLossError("index.json: " + json.status().message());
  const Json* list = FindJson(*json, "manifests");
  if (list == nullptr || !list->is_array()) return DataLossError("index.json: no manifests");
  if (tag_.empty() && list->size() == 1) return ParseDescriptor((*list)[0]);
  std::vector<std::string> names;
  for (const Json& item : *list) {
    const Json* name = FindJsonAt(item, {"annotations", kRefNameKey});
    if (name == nullptr || !name->is_string()) continue;
    if (*name == tag_) return ParseDescriptor(item);
    names.push_back(name->get<std::string>());
  }
  const std::string there = names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
  if (tag_.empty()) return NotFoundError("the layout holds several images; name one of: " + there);
  return NotFoundError(fmt::format("the layout holds no image \"{}\"; there are: {}", tag_, there));
}

}  // namespace

std::string Platform::ToString() const { return os + "/" + architecture + (variant.empty() ? "" : "/" + variant); }

Result<Platform> ParsePlatform(std::string_view text) {
  const size_t first = text.find('/');
  const size_t second = first == std::string_view::npos ? first : text.find('/', first + 1);
  Platform platform;
  platform.os = text.substr(0, first);
  if (first != std::string_view::npos) platform.architecture = text.substr(first + 1, second - first - 1);
  if (second != std::string_view::npos) platform.variant = text.substr(second + 1);
  const bool has_empty = platform.os.empty() || platform.architecture.empty() ||
                         (second != std::string_view::npos && platform.variant.empty());
  if (has_empty || platform.variant.find('/') != std::string::npos) {
    return InvalidArgumentError("\"" + std::string(text.substr(0, 100)) +
                                "\" is no platform: OS/ARCHITECTURE[/VARIANT], such as linux/amd64");
  }
  return platform;
}

Platform ThisPlatform() {
  utsname name{};
  ::uname(&name);
  const std::string machine = name.machine;
  const std::map<std::string, std::string> known = {{"x86_64", "amd64"}, {"aarch64", "arm64"}};
  const auto found = known.find(machine);
  return {"linux", found == known.end() ? machine : found->second, ""};
}

Result<SourceImage> ResolveImage(Descriptor root, const Platform& platform, const ReadBlobFunction& read) {
  for (int depth = 0; depth < kMaxIndexDepth && IsIndexType(root.media_type); ++depth) {
    ASSIGN_OR_RETURN(const Json index, ReadDocument(root, read));
    ASSIGN_OR_RETURN(root, ChooseManifest(index, platform));
  }
  if (!IsManifestType(root.media_type)) {
    return UnimplementedError("a manifest of type " + root.media_type.substr(0, 200));
  }
  ASSIGN_OR_RETURN(const Json manifest, ReadDocument(root, read));
  const Json* config_value = FindJson(manifest, "config");
  if (config_value == nullptr) return DataLossError("an image manifest without a config");
  ASSIGN_OR_RETURN(const Descriptor config_blob, ParseDescriptor(*config_value));
  ASSIGN_OR_RETURN(const Json config, ReadDocument(config_blob, read));
  SourceImage image;
  const Platform found = PlatformOf(config);
  ASSIGN_OR_RETURN(image.layers, ReadSourceLayers(manifest, config));
  if (!Fits(found, platform)) {
    return NotFoundError(fmt::format("the image is not made for {} but for {}", platform.ToString(), found.ToString()));
  }
  image.manifest = root;
  image.config = config_blob.digest;
  image.platform = found.ToString();
  return image;
}

std::unique_ptr<BlobFiles> NewFolderFiles(std::string folder) {
  return std::make_unique<FolderFiles>(std::move(folder));
}

Result<std::unique_ptr<BlobFiles>> OpenArchiveFiles(const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source, OpenFileSource(path));
  TarReader tar(*source);
  std::map<std::string, ArchiveFiles::Span> files;
  TarEntry entry;
  for (;;) {
    Result<bool> has_entry = tar.Next(&entry);
    if (!has_entry.ok()) return has_entry.status().Annotate(path + " is no uncompressed tar archive");
    if (!*has_entry) break;
    if (entry.type != TarEntry::Type::kFile || entry.is_sparse) continue;
    const std::string name = entry.name.starts_with("./") ? entry.name.substr(2) : entry.name;
    files[name] = {tar.data_offset_bytes(), tar.stored_bytes()};
  }
  return std::make_unique<ArchiveFiles>(path, std::move(files));
}

std::unique_ptr<ImageSource> NewLayoutSource(std::unique_ptr<BlobFiles> files, std::string tag) {
  return std::make_unique<LayoutSource>(std::move(files), std::move(tag));
}

Result<std::unique_ptr<ImageSource>> OpenLocalSource(std::string_view text) {
  constexpr std::string_view kLayout = "oci:", kArchive = "oci-archive:";
  const bool is_archive = text.starts_with(kArchive);
  if (!is_archive && !text.starts_with(kLayout)) {
    return InvalidArgumentError("\"" + std::string(text.substr(0, 300)) +
                                "\" names no image: oci:FOLDER[:TAG], oci-archive:FILE[:TAG]");
  }
  const std::string_view rest = text.substr(is_archive ? kArchive.size() : kLayout.size());
  const size_t colon = rest.find(':');
  const std::string path(rest.substr(0, colon));
  const std::string tag(colon == std::string_view::npos ? "" : rest.substr(colon + 1));
  if (path.empty()) return InvalidArgumentError("\"" + std::string(text) + "\" names no file");
  if (!is_archive) return NewLayoutSource(NewFolderFiles(path), tag);
  ASSIGN_OR_RETURN(std::unique_ptr<BlobFiles> files, OpenArchiveFiles(path));
  return NewLayoutSource(std::move(files), tag);
}

}  // namespace paceline::blocks
