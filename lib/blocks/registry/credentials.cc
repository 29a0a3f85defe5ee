#include "lib/blocks/registry/credentials.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "lib/base/base64.h"
#include "lib/base/json.h"
#include "lib/base/mutex.h"

namespace paceline::blocks {
namespace {

// Docker Hub under all the names that config files give it.
bool IsDockerHub(std::string_view registry) {
  return registry == "docker.io" || registry == "index.docker.io" || registry == "registry-1.docker.io" ||
         registry == "registry.hub.docker.com";
}

// "https://host:5000/v1/" and "host:5000/team" alike.
void SplitKey(std::string_view key, CredentialEntry* entry) {
  if (const size_t scheme = key.find("://"); scheme != std::string_view::npos) key.remove_prefix(scheme + 3);
  const size_t slash = key.find('/');
  entry->registry = key.substr(0, slash);
  if (slash != std::string_view::npos) entry->path = key.substr(slash + 1);
  while (entry->path.ends_with('/')) entry->path.pop_back();
  // The addresses of the registry API itself, which "docker login" writes, are no path of a repository.
  if (entry->path == "v1" || entry->path == "v2") entry->path.clear();
}

Result<Credential> ReadCredential(const Json& json, const std::string& key) {
  const auto fail = [&key](std::string_view why) {
    return InvalidArgumentError(fmt::format("credentials of {}: {}", key, why));
  };
  if (!json.is_object()) return fail("must be an object");
  Credential credential;
  const std::pair<const char*, std::string*> fields[] = {{"username", &credential.username},
                                                         {"password", &credential.password},
                                                         {"identitytoken", &credential.identity_token},
                                                         {"registrytoken", &credential.registry_token}};
  for (const auto& [name, target] : fields) {
    const auto found = json.find(name);
    if (found == json.end()) continue;
    if (!found->is_string()) return fail(fmt::format("{} must be a string", name));
    *target = found->get<std::string>();
  }
  const auto auth = json.find("auth");
  if (auth == json.end() || (auth->is_string() && auth->get_ref<const std::string&>().empty())) return credential;
  const Result<std::string> pair = auth->is_string() ? DecodeBase64(auth->get_ref<const std::string&>())
                                                     : Result<std::string>(InvalidArgumentError("no string"));
  const size_t colon = pair.ok() ? pair->find(':') : std::string::npos;
  if (colon == std::string::npos) return fail("auth must be base64 of user:password");
  credential.username = pair->substr(0, colon);
  credential.password = pair->substr(colon + 1);
  // Written by old versions of docker with a NUL at the end.
  while (credential.password.ends_with('\0')) credential.password.pop_back();
  return credential;
}

bool RegistryFits(std::string_view pattern, std::string_view registry) {
  if (IsDockerHub(pattern) && IsDockerHub(registry)) return true;
  while (true) {
    const size_t dot = pattern.find('.'), other = registry.find('.');
    const std::string_view label = pattern.substr(0, dot);
    if (label != "*" && label != registry.substr(0, other)) return false;
    if ((dot == std::string_view::npos) != (other == std::string_view::npos)) return false;
    if (dot == std::string_view::npos) return true;
    pattern.remove_prefix(dot + 1);
    registry.remove_prefix(other + 1);
  }
}

bool PathFits(std::string_view path, std::string_view repository) {
  return path.empty() || repository == path || (repository.starts_with(path) && repository[path.size()] == '/');
}

class DockerConfigSource final : public CredentialSource {
 public:
  explicit DockerConfigSource(std::function<Result<std::string>()> read) : read_(std::move(read)) {}

  Result<Credential> Find(std::string_view registry, std::string_view repository, Ask ask) override {
    std::shared_ptr<const std::vector<CredentialEntry>> entries = Entries();
    if (entries == nullptr || ask == Ask::kAfterRejection) {
      Result<std::shared_ptr<const std::vector<CredentialEntry>>> fresh = Read();
      if (fresh.ok()) {
        entries = *fresh;
      } else if (entries == nullptr) {
        return fresh.status();
      }
    }
    const CredentialEntry* found = ChooseCredential(*entries, registry, repository);
    return found == nullptr ? Credential() : found->credential;
  }

 private:
  std::shared_ptr<const std::vector<CredentialEntry>> Entries() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return entries_;
  }

  Result<std::shared_ptr<const std::vector<CredentialEntry>>> Read() EXCLUDES(mutex_) {
    ASSIGN_OR_RETURN(const std::string text, read_());
    ASSIGN_OR_RETURN(std::vector<CredentialEntry> parsed, ParseDockerConfig(text));
    auto entries = std::make_shared<const std::vector<CredentialEntry>>(std::move(parsed));
    MutexLock lock(mutex_);
    entries_ = entries;
    return std::shared_ptr<const std::vector<CredentialEntry>>(entries);
  }

  const std::function<Result<std::string>()> read_;
  Mutex mutex_;
  std::shared_ptr<const std::vector<CredentialEntry>> entries_ GUARDED_BY(mutex_);
};

class FixedCredential final : public CredentialSource {
 public:
  explicit FixedCredential(Credential credential) : credential_(std::move(credential)) {}
  Result<Credential> Find(std::string_view, std::string_view, Ask) override { return credential_; }

 private:
  const Credential credential_;
};

}  // namespace

Result<std::vector<CredentialEntry>> ParseDockerConfig(std::string_view json) {
  Result<Json> parsed = ParseJson(json);
  // The parser's message may quote the text, and the text is secrets.
  if (!parsed.ok()) return InvalidArgumentError("registry credentials: not valid JSON");
  if (!parsed->is_object()) return InvalidArgumentError("registry credentials: must be a JSON object");
  const auto found = parsed->find("auths");
  const bool is_old = found == parsed->end() && !parsed->contains("credsStore") && !parsed->contains("credHelpers");
  if (found == parsed->end() && !is_old) return std::vector<CredentialEntry>();
  const Json& auths = is_old ? *parsed : *found;
  if (!auths.is_object()) return InvalidArgumentError("registry credentials: auths must be an object");
  std::vector<CredentialEntry> entries;
  for (const auto& [key, value] : auths.items()) {
    // Other settings of the client stand beside the registries in the old form.
    if (is_old && !value.is_object()) continue;
    CredentialEntry entry;
    SplitKey(key, &entry);
    ASSIGN_OR_RETURN(entry.credential, ReadCredential(value, key));
    if (!entry.credential.is_anonymous()) entries.push_back(std::move(entry));
  }
  return entries;
}

const CredentialEntry* ChooseCredential(const std::vector<CredentialEntry>& entries, std::string_view registry,
                                        std::string_view repository) {
  const CredentialEntry* best = nullptr;
  for (const CredentialEntry& entry : entries) {
    if (!RegistryFits(entry.registry, registry) || !PathFits(entry.path, repository)) continue;
    if (best == nullptr || entry.path.size() > best->path.size()) best = &entry;
  }
  return best;
}

std::unique_ptr<CredentialSource> NewDockerConfigSource(std::function<Result<std::string>()> read) {
  return std::make_unique<DockerConfigSource>(std::move(read));
}

std::unique_ptr<CredentialSource> NewFixedCredential(Credential credential) {
  return std::make_unique<FixedCredential>(std::move(credential));
}

}  // namespace paceline::blocks
