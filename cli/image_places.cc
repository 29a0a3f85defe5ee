#include "cli/image_places.h"

#include <pwd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "lib/blocks/image/registry_source.h"
#include "lib/blocks/registry/registry_store.h"

namespace paceline::cli {
namespace {

constexpr std::string_view kDocker = "docker://";
constexpr size_t kMaxCredentialBytes = 1U << 20;

bool IsNotFound(const Status& status) { return status.code() == StatusCode::kNotFound; }

std::string HomeFolder() {
  const passwd* user = ::getpwuid(::geteuid());
  return user == nullptr ? "" : user->pw_dir;
}

std::string CredentialsPath(const RegistryAccess& access) {
  return (access.docker_config.empty() ? HomeFolder() + "/.docker" : access.docker_config) + "/config.json";
}

blocks::RegistryOptions OptionsOf(const RegistryAccess& access) {
  blocks::RegistryOptions options;
  options.hosts_root = access.hosts_folder;
  options.plain_http = access.plain_http;
  options.ca_files = access.ca_files;
  options.skip_verification = access.skips_verification;
  options.user_agent = "pacectl";
  const bool is_named = !access.docker_config.empty();
  options.credentials =
      blocks::NewDockerConfigSource([path = CredentialsPath(access), is_named]() -> Result<std::string> {
        Result<std::string> text = RealFileSystem().ReadFile(path, kMaxCredentialBytes);
        // Who never logged in anywhere has no such file, and is anonymous.
        if (!text.ok() && IsNotFound(text.status()) && !is_named) return std::string("{}");
        return text;
      });
  return options;
}

Result<FoundImage> FindBySubject(blocks::BlobStore& store, const std::string& text,
                                 std::optional<blocks::Digest> subject, Deadline deadline) {
  const bool is_digest = blocks::ParseDigest(text).ok();
  Result<blocks::StoredManifest> manifest = store.GetManifest(subject ? blocks::ImageTag(*subject) : text, deadline);
  if (!manifest.ok() && IsNotFound(manifest.status()) && is_digest) {
    subject.reset();  // then perhaps the converted image's own
    manifest = store.GetManifest(text, deadline);
  }
  if (!manifest.ok() && IsNotFound(manifest.status())) {
    return NotFoundError(store.Describe() + " holds no converted image of " + text +
                         "; make it with: pacectl image convert");
  }
  if (!manifest.ok()) return manifest.status();
  FoundImage found;
  ASSIGN_OR_RETURN(found.image, blocks::ParseImageManifest(manifest->bytes));
  if (subject && found.image.subject.digest != *subject) {
    return DataLossError("the image found under the tag of " + text + " was made from another one, " +
                         found.image.subject.digest.ToString());
  }
  found.manifest = std::move(*manifest);
  return found;
}

}  // namespace

void AddRegistryOptions(CLI::App& command, RegistryAccess* access) {
  command
      .add_option("--docker-config", access->docker_config,
                  "folder of Docker's config.json with credentials ($DOCKER_CONFIG or ~/.docker unless given)")
      ->envname("DOCKER_CONFIG");
  command.add_option("--hosts-folder", access->hosts_folder, "folder of hosts.toml folders, for mirrors")
      ->capture_default_str();
  command.add_option("--plain-http", access->plain_http, "registry (host:port) that is asked without TLS; repeatable");
  command.add_option("--ca-file", access->ca_files, "certificate that is trusted besides the system's; repeatable");
  command.add_flag("--skip-tls-verify", access->skips_verification, "take any certificate");
}

Result<std::unique_ptr<blocks::BlobStore>> ImagePlaces::OpenStore(const std::string& url,
                                                                  blocks::StoreAccess access) const {
  return blocks::OpenStoreUrl(url, access, OptionsOf(access_), files_, clock_);
}

Result<std::unique_ptr<blocks::ImageSource>> ImagePlaces::OpenSource(const std::string& text) const {
  if (text.starts_with("oci:") || text.starts_with("oci-archive:")) return blocks::OpenLocalSource(text);
  if (!text.starts_with(kDocker)) return InvalidArgumentError("\"" + text + "\" names no image: " + kSourceHelp);
  ASSIGN_OR_RETURN(blocks::ImageReference image, blocks::ParseImageReference(text));
  ASSIGN_OR_RETURN(std::shared_ptr<blocks::RegistryClient> client,
                   blocks::RegistryClient::New(OptionsOf(access_), files_, clock_));
  return blocks::NewRegistrySource(std::move(client), std::move(image));
}

Result<FoundImage> ImagePlaces::FindImage(blocks::BlobStore& store, const std::string& text,
                                          const blocks::Platform& platform, Deadline deadline) const {
  const Result<blocks::Digest> digest = blocks::ParseDigest(text);
  if (digest.ok()) return FindBySubject(store, text, *digest, deadline);
  if (text.find(':') == std::string::npos) return FindBySubject(store, text, std::nullopt, deadline);
  ASSIGN_OR_RETURN(const std::unique_ptr<blocks::ImageSource> source, OpenSource(text));
  ASSIGN_OR_RETURN(const blocks::SourceImage image, source->Resolve(platform, deadline));
  return FindBySubject(store, text, image.manifest.digest, deadline);
}

std::vector<std::string> ImagePlaces::SnapshotterArguments() const {
  std::vector<std::string> arguments = {"--registry-hosts-folder", access_.hosts_folder};
  const std::string credentials = CredentialsPath(access_);
  if (!access_.docker_config.empty() || files_.Stat(credentials).ok()) {
    arguments.insert(arguments.end(), {"--registry-credentials", credentials});
  }
  for (const std::string& host : access_.plain_http) {
    arguments.insert(arguments.end(), {"--registry-plain-http", host});
  }
  for (const std::string& file : access_.ca_files) arguments.insert(arguments.end(), {"--registry-ca-files", file});
  if (access_.skips_verification) arguments.insert(arguments.end(), {"--registry-skip-verification", "true"});
  return arguments;
}

}  // namespace paceline::cli
