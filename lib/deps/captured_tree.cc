#include "lib/deps/captured_tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <set>

#include "lib/base/filesystem.h"
#include "lib/base/json.h"
#include "lib/base/unique_fd.h"
#include "lib/deps/bytecode.h"

namespace paceline::deps {
namespace {

constexpr size_t kMaxSentinelBytes = 4096;

Result<std::string> ReadBeginning(const TreeView& view, const std::string& path, size_t size) {
  ASSIGN_OR_RETURN(const UniqueFd file, view.Open(path, O_RDONLY));
  std::string bytes(size, '\0');
  const ssize_t got = pread(file.get(), bytes.data(), bytes.size(), 0);
  if (got < 0) return ErrnoStatus(errno, "read " + path);
  bytes.resize(static_cast<size_t>(got));
  return bytes;
}

std::string ParentOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

class Capture {
 public:
  Capture(const TreeScan& before, const TreeScan& after, const CaptureOptions& options)
      : after_(after), options_(options), changes_(CompareScans(before, after)) {
    tree_.dropped = after.dropped;
  }

  Result<CapturedTree> Run() {
    written_.insert(changes_.written.begin(), changes_.written.end());
    for (const std::string& path : changes_.written) RETURN_IF_ERROR(TakeWritten(path));
    for (const std::string& path : changes_.removed) RETURN_IF_ERROR(TakeRemoved(path));
    for (const std::string& root : after_.roots) RETURN_IF_ERROR(TakeSentinel(root));
    LinkNames();
    for (auto& [path, entry] : entries_) {
      const bool is_file = entry.kind == CapturedEntry::Kind::kFile && S_ISREG(entry.facts.mode);
      if (is_file) ++tree_.files;
      if (is_file) tree_.bytes += entry.facts.size_bytes;
      if (entry.kind == CapturedEntry::Kind::kWhiteout) ++tree_.removed;
      tree_.entries.push_back(std::move(entry));
    }
    return std::move(tree_);
  }

 private:
  bool IsInside(const std::string& path) const { return after_.files.contains(path); }

  // What is stored of a file in place of what was found.
  FileFacts Stored(const FileFacts& found) const {
    FileFacts facts = found;
    if (options_.privileges == Privileges::kDropped && !S_ISDIR(facts.mode)) {
      facts.mode &= ~static_cast<uint32_t>(S_ISUID | S_ISGID);
    }
    if (options_.times == FileTimes::kNormalized) {
      facts.mtime_s = kNormalTime;
      facts.mtime_ns = 0;
    }
    return facts;
  }

  Status TakeParents(const std::string& path) {
    for (std::string above = ParentOf(path); !above.empty(); above = ParentOf(above)) {
      if (entries_.contains(above)) return Status();
      CapturedEntry& entry = entries_[above];
      entry.path = above;
      if (IsInside(above)) {
        entry.found = after_.files.at(above);
        entry.facts = Stored(entry.found);
        continue;
      }
      ASSIGN_OR_RETURN(entry.found, FactsOf(options_.view, above));
      entry.facts = entry.found;
      entry.facts.mtime_s = 0;  // it changes with whatever else is made there
      entry.facts.mtime_ns = 0;
    }
    return Status();
  }

  Status TakeWritten(const std::string& path) {
    const FileFacts& found = after_.files.at(path);
    CapturedEntry entry;
    entry.path = path;
    entry.found = found;
    entry.facts = Stored(found);
    const std::string source = S_ISREG(found.mode) ? BytecodeSource(path) : "";
    if (!source.empty()) {
      ASSIGN_OR_RETURN(const bool is_used, TakeBytecode(source, &entry));
      if (!is_used) {
        ++tree_.dropped["bytecode"];
        return Status();
      }
    }
    RETURN_IF_ERROR(TakeParents(path));
    entries_[path] = std::move(entry);
    return Status();
  }

  Result<bool> TakeBytecode(const std::string& source, CapturedEntry* entry) const {
    const auto found = after_.files.find(source);
    if (found == after_.files.end()) return false;
    ASSIGN_OR_RETURN(const std::string header, ReadBeginning(options_.view, entry->path, kBytecodeHeader));
    const Bytecode kind = CheckBytecode(header, found->second.mtime_s, found->second.size_bytes);
    entry->gets_source_time =
        kind == Bytecode::kByTime && options_.times == FileTimes::kNormalized && written_.contains(source);
    return kind != Bytecode::kStale;
  }

  Status TakeRemoved(const std::string& path) {
    RETURN_IF_ERROR(TakeParents(path));
    CapturedEntry& entry = entries_[path];
    entry.kind = CapturedEntry::Kind::kWhiteout;
    entry.path = path;
    return Status();
  }

  Status TakeSentinel(const std::string& root) {
    const std::string path = (root == "/" ? "" : root) + "/" + kSentinelName;
    RETURN_IF_ERROR(TakeParents(path));
    CapturedEntry& entry = entries_[path];
    entry.kind = CapturedEntry::Kind::kSentinel;
    entry.path = path;
    entry.content = options_.sentinel;
    entry.facts.mode = S_IFREG | 0644;
    const FileFacts& root_facts = after_.files.at(root);
    entry.facts.uid = root_facts.uid;
    entry.facts.gid = root_facts.gid;
    entry.facts.size_bytes = entry.content.size();
    entry.facts.mtime_s = kNormalTime;
    return Status();
  }

  // The first name of a file holds it; the others are links to that.
  void LinkNames() {
    std::map<std::pair<uint64_t, uint64_t>, std::string> first;
    for (auto& [path, entry] : entries_) {
      const bool may_link = entry.kind == CapturedEntry::Kind::kFile && !S_ISDIR(entry.found.mode);
      if (!may_link || entry.found.links < 2) continue;
      const auto [place, is_new] = first.try_emplace({entry.found.device, entry.found.inode}, path);
      if (is_new) continue;
      entry.kind = CapturedEntry::Kind::kHardLink;
      entry.link_to = place->second;
    }
  }

  const TreeScan& after_;
  const CaptureOptions& options_;
  const TreeChanges changes_;
  std::set<std::string> written_;
  std::map<std::string, CapturedEntry> entries_;
  CapturedTree tree_;
};

}  // namespace

Result<CapturedTree> CaptureTree(const TreeScan& before, const TreeScan& after, const CaptureOptions& options) {
  return Capture(before, after, options).Run();
}

std::string SentinelText(const std::string& key, const std::string& base) {
  return DumpJson({{"key", key}, {"base", base}}) + "\n";
}

Result<Sentinel> ReadSentinel(const std::string& directory) {
  const std::string path = directory + "/" + kSentinelName;
  ASSIGN_OR_RETURN(const std::string text, RealFileSystem().ReadFile(path, kMaxSentinelBytes));
  const Result<Json> json = ParseJson(text);
  if (!json.ok()) return DataLossError(path + ": " + json.status().message());
  Result<std::string> key = JsonString(*json, "key"), base = JsonString(*json, "base");
  if (!key.ok() || !base.ok()) return DataLossError(path + ": no key");
  return Sentinel{*std::move(key), *std::move(base)};
}

}  // namespace paceline::deps
