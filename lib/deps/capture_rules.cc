#include "lib/deps/capture_rules.h"

#include <fnmatch.h>
#include <sys/stat.h>

#include <algorithm>

namespace paceline::deps {
namespace {

struct PathRule {
  std::string_view path;  // with all that is below it
  std::string_view reason;
};
constexpr PathRule kPaths[] = {
    {"/var/cache", "cache"},
    {"/var/lib/apt/lists", "cache"},
    {"/var/log", "log"},
    {"/proc", "runtime"},
    {"/sys", "runtime"},
    {"/dev", "runtime"},
    {"/run", "runtime"},
    {"/tmp", "runtime"},
    {"/var/run", "runtime"},
    {"/var/tmp", "runtime"},
    {"/etc/hostname", "runtime"},
    {"/etc/hosts", "runtime"},
    {"/etc/resolv.conf", "runtime"},
    {"/etc/mtab", "runtime"},
    {"/etc/machine-id", "runtime"},
    {"/var/lib/dpkg/lock", "runtime"},
    {"/var/lib/dpkg/lock-frontend", "runtime"},
    {"/var/lib/dpkg/triggers/Lock", "runtime"},
    {"/etc/apt/auth.conf", "credential"},
    {"/etc/apt/auth.conf.d", "credential"},
    {"/var/cache/debconf/passwords.dat", "credential"},
};

struct NameRule {
  std::string_view pattern;  // of the last component
  std::string_view reason;
};
constexpr NameRule kNames[] = {
    {".cache", "cache"},           {"pip-*-??????", "cache"},       {"pip-unpack-*", "cache"},
    {"pip-build-*", "cache"},      {"pip-log.txt", "log"},          {"npm-debug.log*", "log"},
    {".netrc", "credential"},      {".pypirc", "credential"},       {".git-credentials", "credential"},
    {".condarc", "credential"},    {".npmrc", "credential"},        {".ssh", "credential"},
    {".aws", "credential"},        {".docker", "credential"},       {".gnupg", "credential"},
    {".kube", "credential"},       {".bash_history", "credential"}, {".python_history", "credential"},
    {".zsh_history", "credential"}};

bool IsBelow(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

}  // namespace

bool MatchesPattern(const std::string& pattern, const std::string& path) {
  return ::fnmatch(pattern.c_str(), path.c_str(), 0) == 0;
}

std::string_view CaptureRules::DropReason(const std::string& path, uint32_t mode) const {
  if (S_ISSOCK(mode)) return "socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "device";
  const std::string name = path.substr(path.rfind('/') + 1);
  if (name == kSentinelName || name == kRecordingName) return "own";
  if (name.starts_with(".wh.")) return "reserved";
  for (const PathRule& rule : kPaths) {
    const auto is_inside = [&](const std::string& root) { return IsBelow(root, rule.path); };
    const bool is_meant = std::any_of(roots_.begin(), roots_.end(), is_inside);
    if (IsBelow(path, rule.path) && !is_meant) return rule.reason;
  }
  for (const NameRule& rule : kNames) {
    if (MatchesPattern(std::string(rule.pattern), name)) return rule.reason;
  }
  const auto matches = [&](const std::string& pattern) { return MatchesPattern(pattern, path); };
  return std::any_of(exclude_.begin(), exclude_.end(), matches) ? "excluded" : "";
}

}  // namespace paceline::deps
