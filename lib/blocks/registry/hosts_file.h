// Where a registry's images may be had: mirrors first, the registry itself last, as containerd's hosts.toml says
// (certs.d folders). The same files are read, so that operators configure mirrors such as Dragonfly, Spegel or Harbor
// once. Format: https://github.com/containerd/containerd/blob/main/docs/hosts.md.
//
// Callers: RegistryClient. Parsing is pure; LoadHosts reads files.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/filesystem.h"
#include "lib/net/http.h"
#include "lib/net/url.h"

namespace paceline::blocks {

struct RegistryHost {
  net::Url url;  // `path` is that of the API: "/v2", or what override_path asks for
  bool is_upstream = false;
  bool can_pull = true;     // blobs, and manifests by digest
  bool can_resolve = true;  // tags: a host that is trusted to say what a tag means
  bool skip_verification = false;
  std::vector<std::string> ca_files;                              // besides the system's
  std::vector<std::pair<std::string, std::string>> client_files;  // certificate, key
  net::Headers headers;
  Duration dial_timeout{0};  // 0: the client's
};

struct HostDefaults {
  bool is_plain_http = false;  // of a host that is written without a scheme
  bool skip_verification = false;
  std::vector<std::string> ca_files;
};

// The hosts that `text` (a hosts.toml in `folder`) gives for `registry`, whose API is at `api_host`; the upstream comes
// last. kInvalidArgument names the line or the key.
Result<std::vector<RegistryHost>> ParseHostsFile(std::string_view text, const std::string& folder,
                                                 const std::string& api_host, const HostDefaults& defaults);

// The folders of `root` that may configure `registry` ("host:5000"), best first: host_5000_, host:5000, _default.
std::vector<std::string> HostsFolders(const std::string& root, const std::string& registry);

// Reads the first of those folders that exists; without one, or with an empty `root`, the upstream alone. A folder
// without hosts.toml may hold certificates as Docker has them: *.crt, and NAME.cert with NAME.key.
Result<std::vector<RegistryHost>> LoadHosts(const FileSystem& files, const std::string& root,
                                            const std::string& registry, const std::string& api_host,
                                            const HostDefaults& defaults);

}  // namespace paceline::blocks
