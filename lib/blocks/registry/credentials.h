// Who we are to a registry. Credentials come from Docker's config.json, which is also what a Kubernetes pull secret
// holds (kubernetes.io/dockerconfigjson), and are asked for again after a rejection, so that a renewed secret counts
// without a restart. Nothing here ever puts a secret into a message.
//
// Callers: RegistryClient. Sources are thread-safe; parsing is pure.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace paceline::blocks {

struct Credential {
  std::string username, password;
  std::string identity_token;  // a refresh token for the token service; then username and password are not used
  std::string registry_token;  // sent to the registry as it is

  bool is_anonymous() const {
    return username.empty() && password.empty() && identity_token.empty() && registry_token.empty();
  }
  friend bool operator==(const Credential&, const Credential&) = default;
};

class CredentialSource {
 public:
  virtual ~CredentialSource() = default;
  // For a repository of a registry ("docker.io", "library/ubuntu"); anonymous when nothing is known. `was_rejected`:
  // what was given last did not work, so a source that keeps a copy should look again. May block for a file.
  enum class Ask { kFirst, kAfterRejection };
  virtual Result<Credential> Find(std::string_view registry, std::string_view repository, Ask ask) = 0;
};

// One entry of "auths".
struct CredentialEntry {
  std::string registry;  // host[:port], without scheme; "*" in front of a label stands for one label
  std::string path;      // "" or the repositories below which it holds: "team/a"
  Credential credential;
};

// Reads config.json or the contents of a pull secret, also the older .dockercfg without "auths". kInvalidArgument
// names the entry, never its value. Entries whose secret lies in a credential store are left out.
Result<std::vector<CredentialEntry>> ParseDockerConfig(std::string_view json);

// The entry that fits best: as kubelet does, the longest path, then the order of `entries`. Null when none fits.
const CredentialEntry* ChooseCredential(const std::vector<CredentialEntry>& entries, std::string_view registry,
                                        std::string_view repository);

// From a function that gives the JSON text: a file, a secret that somebody watches. Read at first use and after each
// rejection. A text that cannot be read or parsed is an error of Find only when nothing was read before.
std::unique_ptr<CredentialSource> NewDockerConfigSource(std::function<Result<std::string>()> read);

// Always the same.
std::unique_ptr<CredentialSource> NewFixedCredential(Credential credential);

}  // namespace paceline::blocks
