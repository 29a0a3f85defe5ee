// Where the API server is and how to log in: from a kubeconfig or from inside a pod. The only place of lib/kube that
// reads the environment.
//
// KubeConfig is a plain value; credentials that change while we run (token files, exec plugins, rotated CAs) are read
// by the Credentials made from it (config_auth.h). Messages never contain a secret.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/result.h"

namespace paceline::kube {

// A PEM text given in the config itself or by the path of a file that is read again when it may have changed.
struct PemSource {
  std::string data;
  std::string path;
  bool empty() const { return data.empty() && path.empty(); }
};

// `users[].user.exec`: a program that prints an ExecCredential.
struct ExecPlugin {
  std::string command;
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> env;  // added to our environment
  std::string api_version;
  std::string install_hint;
  bool provides_cluster_info = false;
  bool is_interactive = false;  // interactiveMode Always: refused, we have no terminal to give
};

struct KubeConfig {
  std::string server;  // "https://10.0.0.1:6443"
  std::string ns = "default";
  std::string context;  // empty inside a pod
  std::string source;   // for messages: the files, or "in-cluster"

  PemSource ca;  // empty: the system's store
  std::string tls_server_name;
  bool skip_tls_verify = false;
  std::string proxy_url;

  PemSource client_certificate;
  PemSource client_key;
  std::string token;
  std::string token_file;  // wins over `token`; read again every minute
  std::string impersonate_user;
  std::vector<std::string> impersonate_groups;
  std::optional<ExecPlugin> exec;
};

struct LoadOptions {
  std::string kubeconfig;  // a path, as from --kubeconfig; empty: look in the usual places
  std::string context;     // empty: the file's current-context
  // Replaced in tests.
  std::function<std::string(const char* name)> getenv;  // null: the process's environment
  std::string root = "/";                               // in front of the service account's folder
};

// In this order: options.kubeconfig; the files of $KUBECONFIG, merged, the first definition of a name winning;
// ~/.kube/config; a pod's service account. kNotFound when there is none, kInvalidArgument with file and field when one
// is broken. Reads files; does not connect and does not run plugins.
Result<KubeConfig> LoadKubeConfig(const LoadOptions& options = {});

// The pod's own service account. kNotFound outside a pod.
Result<KubeConfig> LoadInClusterConfig(const LoadOptions& options = {});

}  // namespace paceline::kube
