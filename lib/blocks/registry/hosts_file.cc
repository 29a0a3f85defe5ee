#include "lib/blocks/registry/hosts_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/units.h"
#include "lib/blocks/registry/toml_text.h"

namespace paceline::blocks {
namespace {

using Table = nlohmann::ordered_json;

constexpr size_t kMaxFileBytes = 1 << 20;

// Null when it is not there.
const Table* Find(const Table& table, const char* key) {
  const auto found = table.find(key);
  return found == table.end() ? nullptr : &*found;
}

Result<bool> Flag(const Table& table, const char* key, bool fallback) {
  const Table* value = Find(table, key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) return InvalidArgumentError(fmt::format("{}: must be true or false", key));
  return value->get<bool>();
}

class HostsReader {
 public:
  HostsReader(const std::string& folder, const HostDefaults& defaults) : folder_(folder), defaults_(defaults) {}

  // `text`: a URL, or host[:port]. The table may be null: a host without settings.
  Result<RegistryHost> Read(const std::string& text, const Table* table) {
    RegistryHost host;
    host.skip_verification = defaults_.skip_verification;
    host.ca_files = defaults_.ca_files;
    const bool has_scheme = text.find("://") != std::string::npos;
    const std::string scheme = defaults_.is_plain_http ? "http://" : "https://";
    ASSIGN_OR_RETURN(host.url, net::ParseUrl(has_scheme ? text : scheme + text));
    bool overrides_path = false;
    if (table != nullptr) {
      RETURN_IF_ERROR(ReadSettings(*table, &host).Annotate(host.url.HostHeader()));
      ASSIGN_OR_RETURN(overrides_path, Flag(*table, "override_path", false));
    }
    if (!overrides_path && !host.url.path.ends_with("/v2")) host.url.path += "/v2";
    return host;
  }

 private:
  Status ReadSettings(const Table& table, RegistryHost* host) {
    ASSIGN_OR_RETURN(host->skip_verification, Flag(table, "skip_verify", host->skip_verification));
    RETURN_IF_ERROR(ReadCapabilities(table, host));
    if (const Table* ca = Find(table, "ca")) {
      ASSIGN_OR_RETURN(const std::vector<std::string> files, Strings(*ca, "ca"));
      for (const std::string& file : files) host->ca_files.push_back(FullPath(file));
    }
    if (const Table* client = Find(table, "client")) RETURN_IF_ERROR(ReadClient(*client, host));
    if (const Table* header = Find(table, "header")) RETURN_IF_ERROR(ReadHeaders(*header, host));
    if (const Table* dial = Find(table, "dial_timeout")) {
      const Result<Duration> limit = dial->is_string() ? ParseDuration(dial->get_ref<const std::string&>())
                                                       : Result<Duration>(InvalidArgumentError("no string"));
      if (!limit.ok()) return InvalidArgumentError("dial_timeout: must be a duration as in \"3s\"");
      host->dial_timeout = *limit;
    }
    return Status();
  }

  Status ReadCapabilities(const Table& table, RegistryHost* host) {
    const Table* node = Find(table, "capabilities");
    if (node == nullptr) return Status();
    ASSIGN_OR_RETURN(const std::vector<std::string> words, Strings(*node, "capabilities"));
    for (const std::string& word : words) {
      if (word != "pull" && word != "resolve" && word != "push") {
        return InvalidArgumentError(fmt::format("capabilities: unknown word \"{}\"", word));
      }
    }
    host->can_pull = std::find(words.begin(), words.end(), "pull") != words.end();
    host->can_resolve = std::find(words.begin(), words.end(), "resolve") != words.end();
    return Status();
  }

  // "both.pem", ["a.pem", "b.pem"] or [["a.cert", "a.key"], ...]; a lone file holds certificate and key.
  Status ReadClient(const Table& node, RegistryHost* host) {
    const bool is_pairs = node.is_array() && !node.empty() && node.front().is_array();
    if (!is_pairs) {
      ASSIGN_OR_RETURN(const std::vector<std::string> files, Strings(node, "client"));
      for (const std::string& file : files) host->client_files.emplace_back(FullPath(file), FullPath(file));
      return Status();
    }
    for (const Table& item : node) {
      ASSIGN_OR_RETURN(const std::vector<std::string> pair, Strings(item, "client"));
      if (pair.size() != 2) return InvalidArgumentError("client: a pair is [certificate, key]");
      host->client_files.emplace_back(FullPath(pair[0]), pair[1].empty() ? FullPath(pair[0]) : FullPath(pair[1]));
    }
    return Status();
  }

  Status ReadHeaders(const Table& node, RegistryHost* host) {
    if (!node.is_object()) return InvalidArgumentError("header: must be a table");
    for (const auto& [name, value] : node.items()) {
      ASSIGN_OR_RETURN(const std::vector<std::string> values, Strings(value, "header"));
      std::string& joined = host->headers[name];
      for (const std::string& one : values) joined += (joined.empty() ? "" : ", ") + one;
    }
    return Status();
  }

  static Result<std::vector<std::string>> Strings(const Table& node, std::string_view key) {
    if (node.is_string()) return std::vector<std::string>{node.get<std::string>()};
    const auto fail = [key] {
      return InvalidArgumentError(fmt::format("{}: must be a string or a list of them", key));
    };
    if (!node.is_array()) return fail();
    std::vector<std::string> values;
    for (const Table& item : node) {
      if (!item.is_string()) return fail();
      values.push_back(item.get<std::string>());
    }
    return values;
  }

  std::string FullPath(const std::string& path) const {
    return path.empty() || path.front() == '/' ? path : folder_ + "/" + path;
  }

  const std::string& folder_;
  const HostDefaults& defaults_;
};

Result<std::vector<RegistryHost>> CertificatesAlone(const FileSystem& files, const std::string& folder,
                                                    const std::vector<std::string>& names, RegistryHost upstream) {
  for (const std::string& name : names) {
    if (name.ends_with(".crt")) upstream.ca_files.push_back(folder + "/" + name);
    if (!name.ends_with(".cert")) continue;
    const std::string key = folder + "/" + name.substr(0, name.size() - 5) + ".key";
    ASSIGN_OR_RETURN(const bool has_key, files.Exists(key));
    if (has_key) upstream.client_files.emplace_back(folder + "/" + name, key);
  }
  return std::vector<RegistryHost>{std::move(upstream)};
}

}  // namespace

Result<std::vector<RegistryHost>> ParseHostsFile(std::string_view text, const std::string& folder,
                                                 const std::string& api_host, const HostDefaults& defaults) {
  const Result<Table> parsed = ParseToml(text).Annotate("hosts.toml");
  if (!parsed.ok()) return parsed.status();
  const Table& root = *parsed;
  HostsReader reader(folder, defaults);
  std::vector<RegistryHost> all;
  if (const Table* hosts = Find(root, "host")) {
    if (!hosts->is_object()) return InvalidArgumentError("hosts.toml: host must be a table");
    for (const auto& [name, value] : hosts->items()) {
      if (!value.is_object()) return InvalidArgumentError(fmt::format("hosts.toml: host.\"{}\" must be a table", name));
      ASSIGN_OR_RETURN(RegistryHost host, reader.Read(name, &value).Annotate("hosts.toml"));
      all.push_back(std::move(host));
    }
  }
  const Table* server = Find(root, "server");
  if (server != nullptr && !server->is_string()) return InvalidArgumentError("hosts.toml: server must be a string");
  const std::string address = server == nullptr ? "" : server->get<std::string>();
  ASSIGN_OR_RETURN(RegistryHost upstream,
                   reader.Read(address.empty() ? api_host : address, &root).Annotate("hosts.toml: server"));
  upstream.is_upstream = true;
  all.push_back(std::move(upstream));
  return all;
}

std::vector<std::string> HostsFolders(const std::string& root, const std::string& registry) {
  std::vector<std::string> folders;
  const size_t colon = registry.rfind(':');
  if (colon != std::string::npos && !registry.ends_with(']')) {
    folders.push_back(root + "/" + registry.substr(0, colon) + "_" + registry.substr(colon + 1) + "_");
  }
  folders.push_back(root + "/" + registry);
  folders.push_back(root + "/_default");
  return folders;
}

Result<std::vector<RegistryHost>> LoadHosts(const FileSystem& files, const std::string& root,
                                            const std::string& registry, const std::string& api_host,
                                            const HostDefaults& defaults) {
  if (!root.empty()) {
    for (const std::string& folder : HostsFolders(root, registry)) {
      const Result<std::vector<std::string>> names = files.List(folder);
      if (!names.ok() && names.status().code() == StatusCode::kNotFound) continue;
      if (!names.ok()) return names.status();
      if (std::find(names->begin(), names->end(), "hosts.toml") != names->end()) {
        ASSIGN_OR_RETURN(const std::string text, files.ReadFile(folder + "/hosts.toml", kMaxFileBytes));
        return ParseHostsFile(text, folder, api_host, defaults).Annotate(folder);
      }
      ASSIGN_OR_RETURN(RegistryHost upstream, HostsReader(folder, defaults).Read(api_host, nullptr));
      upstream.is_upstream = true;
      return CertificatesAlone(files, folder, *names, std::move(upstream));
    }
  }
  ASSIGN_OR_RETURN(RegistryHost upstream, HostsReader(root, defaults).Read(api_host, nullptr));
  upstream.is_upstream = true;
  return std::vector<RegistryHost>{std::move(upstream)};
}

}  // namespace paceline::blocks
