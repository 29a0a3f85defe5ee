#include "lib/kube/config.h"

#include <yaml-cpp/yaml.h>

#include <cstdlib>
#include <filesystem>

#include "lib/base/base64.h"
#include "lib/kube/config_file.h"

namespace paceline::kube {
namespace {

namespace fs = std::filesystem;

constexpr char kServiceAccountFolder[] = "var/run/secrets/kubernetes.io/serviceaccount";

std::string Environment(const LoadOptions& options, const char* name) {
  if (options.getenv) return options.getenv(name);
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// One kubeconfig and where it lies, since its relative paths are relative to it.
struct ConfigFile {
  std::string path;
  YAML::Node root;
};

std::string TextAt(const YAML::Node& node, const char* key) {
  const YAML::Node value = node.IsMap() ? node[key] : YAML::Node();
  return value.IsDefined() && value.IsScalar() ? value.as<std::string>() : std::string();
}

bool FlagAt(const YAML::Node& node, const char* key) {
  const std::string text = TextAt(node, key);
  return text == "true" || text == "True" || text == "yes";
}

std::string Resolve(const ConfigFile& file, const std::string& path) {
  if (path.empty() || fs::path(path).is_absolute()) return path;
  return (fs::absolute(file.path).parent_path() / path).lexically_normal().string();
}

// An entry of `list` ("clusters", "users", "contexts") named `name`, in the first file that has one.
struct Entry {
  const ConfigFile* file = nullptr;
  YAML::Node body;
};

Result<Entry> FindEntry(const std::vector<ConfigFile>& files, const char* list, const char* body,
                        const std::string& name) {
  for (const ConfigFile& file : files) {
    const YAML::Node entries = file.root[list];
    if (!entries.IsDefined() || !entries.IsSequence()) continue;
    for (const YAML::Node& entry : entries) {
      if (TextAt(entry, "name") != name) continue;
      const YAML::Node found = entry[body];
      if (found.IsDefined() && found.IsMap()) return Entry{&file, found};
      return InvalidArgumentError(file.path + ": " + list + "[" + name + "] has no " + body);
    }
  }
  return InvalidArgumentError("kubeconfig: no entry named \"" + name + "\" in " + list);
}

Status ReadPem(const Entry& entry, const std::string& key, PemSource* out) {
  const std::string data = TextAt(entry.body, (key + "-data").c_str());
  if (!data.empty()) {
    Result<std::string> decoded = DecodeBase64(data);
    if (!decoded.ok()) return decoded.status().Annotate(entry.file->path + ": " + key + "-data");
    out->data = *std::move(decoded);
    return {};
  }
  out->path = Resolve(*entry.file, TextAt(entry.body, key.c_str()));
  return {};
}

Status ReadCluster(const Entry& entry, KubeConfig* config) {
  config->server = TextAt(entry.body, "server");
  if (config->server.empty()) return InvalidArgumentError(entry.file->path + ": the cluster has no server");
  config->tls_server_name = TextAt(entry.body, "tls-server-name");
  config->skip_tls_verify = FlagAt(entry.body, "insecure-skip-tls-verify");
  config->proxy_url = TextAt(entry.body, "proxy-url");
  return ReadPem(entry, "certificate-authority", &config->ca);
}

Result<ExecPlugin> ReadExec(const ConfigFile& file, const YAML::Node& node) {
  ExecPlugin plugin;
  plugin.command = TextAt(node, "command");
  if (plugin.command.empty()) return InvalidArgumentError(file.path + ": users[].user.exec has no command");
  if (plugin.command.find('/') != std::string::npos) plugin.command = Resolve(file, plugin.command);
  plugin.api_version = TextAt(node, "apiVersion");
  if (plugin.api_version != "client.authentication.k8s.io/v1" &&
      plugin.api_version != "client.authentication.k8s.io/v1beta1") {
    return InvalidArgumentError(file.path + ": exec apiVersion \"" + plugin.api_version +
                                "\" is not supported, use client.authentication.k8s.io/v1");
  }
  plugin.install_hint = TextAt(node, "installHint");
  plugin.provides_cluster_info = FlagAt(node, "provideClusterInfo");
  plugin.is_interactive = TextAt(node, "interactiveMode") == "Always";
  if (node["args"].IsDefined() && node["args"].IsSequence()) plugin.args = node["args"].as<std::vector<std::string>>();
  if (node["env"].IsDefined() && node["env"].IsSequence()) {
    for (const YAML::Node& variable : node["env"]) {
      plugin.env.emplace_back(TextAt(variable, "name"), TextAt(variable, "value"));
    }
  }
  return plugin;
}

Status ReadUser(const Entry& entry, KubeConfig* config) {
  const YAML::Node& user = entry.body;
  RETURN_IF_ERROR(ReadPem(entry, "client-certificate", &config->client_certificate));
  RETURN_IF_ERROR(ReadPem(entry, "client-key", &config->client_key));
  config->token = TextAt(user, "token");
  config->token_file = Resolve(*entry.file, TextAt(user, "tokenFile"));
  config->impersonate_user = TextAt(user, "as");
  if (user["as-groups"].IsDefined() && user["as-groups"].IsSequence()) {
    config->impersonate_groups = user["as-groups"].as<std::vector<std::string>>();
  }
  if (!TextAt(user, "username").empty()) {
    return InvalidArgumentError(
        entry.file->path + ": username and password: API servers no longer take them, use a token or a certificate");
  }
  if (user["auth-provider"].IsDefined()) {
    return InvalidArgumentError(entry.file->path + ": auth-provider was replaced by exec plugins, which see");
  }
  if (user["exec"].IsDefined() && user["exec"].IsMap()) {
    ASSIGN_OR_RETURN(config->exec, ReadExec(*entry.file, user["exec"]));
  }
  return {};
}

Result<KubeConfig> Merge(const std::vector<ConfigFile>& files, const LoadOptions& options) {
  KubeConfig config;
  for (const ConfigFile& file : files) config.source += (config.source.empty() ? "" : ":") + file.path;
  config.context = options.context;
  for (const ConfigFile& file : files) {
    if (config.context.empty()) config.context = TextAt(file.root, "current-context");
  }
  if (config.context.empty())
    return InvalidArgumentError(config.source + ": no current-context, and none was asked for");
  ASSIGN_OR_RETURN(const Entry context, FindEntry(files, "contexts", "context", config.context));
  if (const std::string ns = TextAt(context.body, "namespace"); !ns.empty()) config.ns = ns;
  ASSIGN_OR_RETURN(const Entry cluster, FindEntry(files, "clusters", "cluster", TextAt(context.body, "cluster")));
  RETURN_IF_ERROR(ReadCluster(cluster, &config));
  if (const std::string name = TextAt(context.body, "user"); !name.empty()) {
    ASSIGN_OR_RETURN(const Entry user, FindEntry(files, "users", "user", name));
    RETURN_IF_ERROR(ReadUser(user, &config));
  }
  return config;
}

// yaml-cpp reports by exceptions; they end here.
Result<ConfigFile> ParseFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadConfigFile(path));
  try {
    ConfigFile file{path, YAML::Load(text)};
    if (!file.root.IsMap() && !file.root.IsNull()) return InvalidArgumentError(path + ": not a kubeconfig");
    if (file.root.IsNull()) file.root = YAML::Node(YAML::NodeType::Map);
    return file;
  } catch (const YAML::Exception& error) {
    return InvalidArgumentError(path + ": " + error.what());
  }
}

Result<KubeConfig> LoadFiles(const std::vector<std::string>& paths, const LoadOptions& options) {
  std::vector<ConfigFile> files;
  for (const std::string& path : paths) {
    Result<ConfigFile> file = ParseFile(path);
    // As kubectl: a name in the list that does not exist is passed over.
    if (!file.ok() && file.status().code() == StatusCode::kNotFound && paths.size() > 1) continue;
    if (!file.ok()) return file.status();
    files.push_back(*std::move(file));
  }
  if (files.empty()) return NotFoundError("none of the files in KUBECONFIG exists");
  try {
    return Merge(files, options);
  } catch (const YAML::Exception& error) {
    return InvalidArgumentError(files[0].path + ": " + error.what());
  }
}

}  // namespace

Result<KubeConfig> LoadKubeConfig(const LoadOptions& options) {
  if (!options.kubeconfig.empty()) return LoadFiles({options.kubeconfig}, options);
  if (const std::string list = Environment(options, "KUBECONFIG"); !list.empty()) {
    std::vector<std::string> paths;
    std::istringstream parts(list);
    for (std::string path; std::getline(parts, path, ':');) {
      if (!path.empty()) paths.push_back(path);
    }
    return LoadFiles(paths, options);
  }
  if (const std::string home = Environment(options, "HOME"); !home.empty()) {
    Result<KubeConfig> config = LoadFiles({home + "/.kube/config"}, options);
    if (config.ok() || config.status().code() != StatusCode::kNotFound) return config;
  }
  Result<KubeConfig> config = LoadInClusterConfig(options);
  if (!config.ok() && config.status().code() == StatusCode::kNotFound) {
    return NotFoundError(
        "no cluster to talk to: KUBECONFIG is not set, there is no ~/.kube/config, and this is not a pod");
  }
  return config;
}

Result<KubeConfig> LoadInClusterConfig(const LoadOptions& options) {
  const std::string host = Environment(options, "KUBERNETES_SERVICE_HOST");
  const std::string port = Environment(options, "KUBERNETES_SERVICE_PORT");
  if (host.empty() || port.empty()) return NotFoundError("KUBERNETES_SERVICE_HOST is not set: not in a pod");
  const fs::path folder = fs::path(options.root) / kServiceAccountFolder;
  KubeConfig config;
  config.source = "in-cluster";
  config.server = "https://" + (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + port;
  config.ca.path = (folder / "ca.crt").string();
  config.token_file = (folder / "token").string();
  std::error_code error;
  if (!fs::exists(config.token_file, error)) {
    return NotFoundError(config.token_file + " is missing: is automountServiceAccountToken off?");
  }
  // The namespace file is optional: projected volumes may leave it out.
  const std::string ns = ReadConfigFile((folder / "namespace").string()).value_or("");
  if (const size_t end = ns.find_last_not_of(" \n"); end != std::string::npos) config.ns = ns.substr(0, end + 1);
  return config;
}

}  // namespace paceline::kube
