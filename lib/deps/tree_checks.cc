#include "lib/deps/tree_checks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "lib/base/filesystem.h"
#include "lib/base/json.h"
#include "lib/base/unique_fd.h"
#include "lib/deps/elf_file.h"
#include "lib/deps/secret_scan.h"

namespace paceline::deps {
namespace {

constexpr size_t kMaxWarnings = 20;
constexpr size_t kMaxRefusals = 20;

class TreeChecker {
 public:
  explicit TreeChecker(const CheckRules& rules) : rules_(rules) {}

  Result<TreeFindings> Run(const CapturedTree& tree) {
    for (const CapturedEntry& entry : tree.entries) {
      if (entry.kind == CapturedEntry::Kind::kFile && S_ISREG(entry.facts.mode)) {
        RETURN_IF_ERROR(LookAtFile(entry));
      } else if (S_ISLNK(entry.facts.mode)) {
        LookAtLink(entry);
      }
    }
    if (more_warnings_ > 0) findings_.warnings.push_back(fmt::format("{} more like these", more_warnings_));
    return std::move(findings_);
  }

 private:
  void Warn(std::string sentence) {
    if (findings_.warnings.size() < kMaxWarnings) {
      findings_.warnings.push_back(std::move(sentence));
    } else {
      ++more_warnings_;
    }
  }
  void Refuse(std::string sentence) {
    if (findings_.refusals.size() < kMaxRefusals) findings_.refusals.push_back(std::move(sentence));
  }

  void LookAtLink(const CapturedEntry& entry) {
    const std::string leads_to = LinkTarget(entry.path, entry.facts.target);
    if (IsBelowRoots(leads_to, rules_.roots)) return;
    // A link that leads nowhere at the recording is no worse elsewhere. What lies outside of a view is not to be seen.
    if (!rules_.view.is_machine() || rules_.view.Exists(leads_to))
      findings_.external_links.push_back({entry.path, entry.facts.target});
  }

  Status LookAtFile(const CapturedEntry& entry) {
    ASSIGN_OR_RETURN(const UniqueFd file, rules_.view.Open(entry.path, O_RDONLY));
    const auto read_at = [&](uint64_t offset, size_t size) -> Result<std::string> {
      std::string bytes(size, '\0');
      const ssize_t got = ::pread(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (got < 0) return ErrnoStatus(errno, "read " + entry.path);
      bytes.resize(static_cast<size_t>(got));
      return bytes;
    };
    ASSIGN_OR_RETURN(const std::string start, read_at(0, 4096));
    if (start.starts_with("\177ELF")) {
      LookAtElf(entry.path, read_at);
      return Status();
    }
    if (entry.facts.size_bytes > kMaxScannedBytes || !IsText(start)) return Status();
    std::string text = start;
    if (entry.facts.size_bytes > start.size()) {
      ASSIGN_OR_RETURN(text, read_at(0, static_cast<size_t>(entry.facts.size_bytes)));
    }
    LookAtText(entry.path, text);
    return Status();
  }

  void LookAtElf(const std::string& path, const ElfSource& source) {
    const Result<ElfFacts> elf = ReadElf(source);
    if (!elf.ok()) return Warn(path + ": " + elf.status().message());
    if (elf->machine != ThisElfMachine()) return Warn(path + " is for another processor");
    const std::pair<int, int> needed = NeededGlibc(*elf);
    if (rules_.glibc.first != 0 && needed > rules_.glibc) {
      Warn(fmt::format("{} needs glibc {}.{}, and {}.{} is here", path, needed.first, needed.second, rules_.glibc.first,
                       rules_.glibc.second));
    }
    // A library of another libc can be loaded by nobody here.
    const auto is_musl = [](const std::string& name) { return name.starts_with("libc.musl-"); };
    if (rules_.glibc.first != 0 && std::any_of(elf->needed.begin(), elf->needed.end(), is_musl)) {
      Warn(path + " was built for musl");
    }
  }

  void LookAtText(const std::string& path, const std::string& text) {
    const std::string secret = FindSecret(path, text);
    const auto allows = [&](const std::string& pattern) { return MatchesPattern(pattern, path); };
    const bool is_allowed = std::any_of(rules_.allowed_secrets.begin(), rules_.allowed_secrets.end(), allows);
    if (!secret.empty() && !is_allowed) {
      Refuse(fmt::format("{} holds {}; remove it in the install command, or say --allow-secret '{}' if it is none",
                         path, secret, path));
    }
    if (path.ends_with(".pth") || path.ends_with(".egg-link")) {
      for (const std::string& folder : FoldersOutside(text, rules_.roots)) {
        Refuse(
            fmt::format("{} points to {}, which is not captured: an editable install; install it without -e, or "
                        "capture {} as well",
                        path, folder, folder));
      }
    }
    if (path.ends_with(".dist-info/direct_url.json")) LookAtDirectUrl(path, text);
  }

  void LookAtDirectUrl(const std::string& path, const std::string& text) {
    const Result<Json> json = ParseJson(text);
    if (!json.ok() || !JsonBoolOr(*json, "dir_info.editable", false).value_or(false)) return;
    std::string url = JsonStringOr(*json, "url", "").value_or("");
    if (url.starts_with("file://")) url = url.substr(7);
    if (!IsBelowRoots(url, rules_.roots)) {
      Refuse(path + " says that the package lies in " + url + ": an editable install; install it without -e");
    }
  }

  const CheckRules& rules_;
  TreeFindings findings_;
  size_t more_warnings_ = 0;
};

}  // namespace

std::string LinkTarget(const std::string& link, const std::string& target) {
  const std::string whole = target.starts_with('/') ? target : link.substr(0, link.rfind('/') + 1) + target;
  std::string clean = std::filesystem::path(whole).lexically_normal().string();
  while (clean.size() > 1 && clean.ends_with('/')) clean.pop_back();
  return clean;
}

std::vector<std::string> FoldersOutside(const std::string& text, const std::vector<std::string>& roots) {
  std::set<std::string> outside;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    std::string line = text.substr(start, end - start);
    start = end + 1;
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    // Lines of code begin with "import"; relative folders lie beside the file.
    if (line.starts_with('/') && !IsBelowRoots(LinkTarget("/", line), roots)) outside.insert(line);
  }
  return {outside.begin(), outside.end()};
}

bool IsBelowRoots(const std::string& path, const std::vector<std::string>& roots) {
  return std::any_of(roots.begin(), roots.end(), [&](const std::string& root) {
    if (root == "/") return true;
    return path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
  });
}

std::vector<ExternalLink> DeadLinks(const std::vector<ExternalLink>& links) {
  std::vector<ExternalLink> dead;
  for (const ExternalLink& link : links) {
    if (::access(LinkTarget(link.path, link.target).c_str(), F_OK) != 0) dead.push_back(link);
  }
  return dead;
}

Result<TreeFindings> CheckTree(const CapturedTree& tree, const CheckRules& rules) {
  return TreeChecker(rules).Run(tree);
}

}  // namespace paceline::deps
