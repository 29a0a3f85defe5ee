// Looks into what is about to be published: credentials, editable installs, links that lead out, binaries that cannot
// run here. docs/formats/dependency-snapshot.md, section 4.
//
// Called by the recorder between capture and conversion. Blocks for the disk: text files of up to 1 MiB and the tables
// of ELF files are read.
#pragma once

#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/deps/captured_tree.h"

namespace paceline::deps {

struct ExternalLink {
  std::string path, target;
  friend bool operator==(const ExternalLink&, const ExternalLink&) = default;
};

struct CheckRules {
  std::vector<std::string> roots;
  std::vector<std::string> allowed_secrets;  // patterns of paths
  std::pair<int, int> glibc{0, 0};           // that there is; {0, 0}: not asked
  TreeView view;
};

struct TreeFindings {
  std::vector<std::string> refusals;  // sentences: each one forbids to publish
  std::vector<std::string> warnings;
  std::vector<ExternalLink> external_links;
};

Result<TreeFindings> CheckTree(const CapturedTree& tree, const CheckRules& rules);

// Where a link leads, as a path without "." and ".."; links on the way are not followed. Pure.
std::string LinkTarget(const std::string& link, const std::string& target);

// Folders that a .pth or .egg-link file names outside of `roots`. Pure.
std::vector<std::string> FoldersOutside(const std::string& text, const std::vector<std::string>& roots);

// Whether a path is one of the roots or lies below one. Pure.
bool IsBelowRoots(const std::string& path, const std::vector<std::string>& roots);

// The links that lead nowhere on this machine.
std::vector<ExternalLink> DeadLinks(const std::vector<ExternalLink>& links);

}  // namespace paceline::deps
