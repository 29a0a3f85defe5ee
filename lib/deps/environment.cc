#include "lib/deps/environment.h"

#include <algorithm>
#include <set>

namespace paceline::deps {
namespace {

constexpr std::string_view kPrefixes[] = {"PIP_",  "UV_",    "CONDA_", "MAMBA_",      "POETRY_", "PYTHON", "CUDA",
                                          "NVCC_", "TORCH_", "CMAKE_", "NPM_CONFIG_", "CARGO_",  "GO"};
constexpr std::string_view kKeyedNames[] = {"CC",
                                            "CXX",
                                            "CPP",
                                            "CFLAGS",
                                            "CXXFLAGS",
                                            "CPPFLAGS",
                                            "LDFLAGS",
                                            "PATH",
                                            "LD_LIBRARY_PATH",
                                            "LIBRARY_PATH",
                                            "CPATH",
                                            "PKG_CONFIG_PATH",
                                            "VIRTUAL_ENV",
                                            "DEBIAN_FRONTEND",
                                            "SOURCE_DATE_EPOCH"};
constexpr std::string_view kProxies[] = {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
                                         "http_proxy", "https_proxy", "all_proxy", "no_proxy"};
constexpr std::string_view kSecretWords[] = {"TOKEN", "PASSWORD", "PASSWD", "SECRET", "CREDENTIAL", "API_KEY"};
constexpr std::string_view kPassedOnly[] = {"HOME",     "USER",          "LOGNAME",      "SHELL",
                                            "TERM",     "LANG",          "TZ",           "TMPDIR",
                                            "LANGUAGE", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"};

template <typename List>
bool Contains(const List& list, std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

bool HasSecretName(std::string_view name) {
  return std::any_of(std::begin(kSecretWords), std::end(kSecretWords),
                     [&](std::string_view word) { return name.find(word) != std::string_view::npos; });
}

bool CountsByName(std::string_view name) {
  const auto begins = [&](std::string_view prefix) { return name.starts_with(prefix); };
  return Contains(kKeyedNames, name) || std::any_of(std::begin(kPrefixes), std::end(kPrefixes), begins);
}

}  // namespace

std::string WithoutUserInfo(std::string_view text) {
  std::string clean;
  while (!text.empty()) {
    const size_t scheme = text.find("://");
    if (scheme == std::string_view::npos) break;
    clean += text.substr(0, scheme + 3);
    text.remove_prefix(scheme + 3);
    const std::string_view authority = text.substr(0, text.find_first_of("/?# \t\n\"'"));
    // The last one: a password may hold an at sign that nobody has encoded.
    const size_t at = authority.rfind('@');
    if (at != std::string_view::npos) text.remove_prefix(at + 1);
  }
  return clean += text;
}

InstallEnvironment SplitEnvironment(const std::map<std::string, std::string>& all, const EnvironmentChoice& choice) {
  InstallEnvironment split;
  std::set<std::string> secrets;
  for (const auto& [name, value] : all) {
    const bool is_added = Contains(choice.added, name);
    const bool counts = is_added || CountsByName(name);
    const bool is_proxy = Contains(kProxies, name);
    const bool is_passed = Contains(kPassedOnly, name) || name.starts_with("LC_");
    if (Contains(choice.secrets, name) || (counts && !is_added && HasSecretName(name))) {
      secrets.insert(name);
    } else if (counts) {
      split.keyed[name] = WithoutUserInfo(value);
    } else if (is_proxy) {
      split.keyed[name] = value.empty() ? "" : "set";
    } else if (!is_passed) {
      continue;
    }
    split.passed.push_back(name + "=" + value);
  }
  split.secrets.assign(secrets.begin(), secrets.end());
  return split;
}

}  // namespace paceline::deps
