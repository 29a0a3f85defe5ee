#include "lib/deps/tree_scan.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "lib/blocks/format/digest.h"

namespace paceline::deps {
namespace {

class Scanner {
 public:
  Scanner(const CaptureRules& rules, const TreeView& view, size_t max_files, TreeScan* scan)
      : rules_(rules), view_(view), max_files_(max_files), scan_(scan) {}

  Status TakeRoot(const std::string& root) {
    Result<FileFacts> facts = FactsOf(view_, root);
    if (!facts.ok() && facts.status().code() == StatusCode::kNotFound) return Status();
    if (!facts.ok()) return facts.status();
    if (!S_ISDIR(facts->mode)) return InvalidArgumentError(root + " is no directory");
    scan_->roots.push_back(root);
    device_ = facts->device;
    scan_->files[root] = *std::move(facts);
    std::vector<std::string> open = {root};
    while (!open.empty()) {
      const std::string directory = std::move(open.back());
      open.pop_back();
      RETURN_IF_ERROR(TakeDirectory(directory, &open));
    }
    return Status();
  }

 private:
  Status TakeDirectory(const std::string& directory, std::vector<std::string>* open) {
    Result<UniqueFd> fd = view_.Open(directory, O_RDONLY | O_DIRECTORY);
    // Gone between the two: somebody else is at work, and the next scan says so.
    if (!fd.ok() && fd.status().code() == StatusCode::kNotFound) return Status();
    if (!fd.ok()) return fd.status();
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(fdopendir(fd->get()), &closedir);
    if (stream == nullptr) return ErrnoStatus(errno, "read " + directory);
    static_cast<void>(fd->Release());  // the stream has it
    while (const dirent* entry = readdir(stream.get())) {
      if (std::strcmp(entry->d_name, ".") == 0 || std::strcmp(entry->d_name, "..") == 0) continue;
      const std::string path = (directory == "/" ? "" : directory) + "/" + entry->d_name;
      RETURN_IF_ERROR(TakeFile(path, open));
    }
    return Status();
  }

  Status TakeFile(const std::string& path, std::vector<std::string>* open) {
    Result<FileFacts> facts = FactsOf(view_, path);
    if (!facts.ok() && facts.status().code() == StatusCode::kNotFound) return Status();
    if (!facts.ok()) return facts.status();
    const bool is_elsewhere = facts->device != device_;
    const std::string_view reason = is_elsewhere ? "mount" : rules_.DropReason(path, facts->mode);
    if (!reason.empty()) {
      if (reason != "own") ++scan_->dropped[std::string(reason)];
      return Status();
    }
    if (scan_->files.size() == max_files_) return ResourceExhaustedError(fmt::format("more than {} files", max_files_));
    if (S_ISDIR(facts->mode)) open->push_back(path);
    scan_->files[path] = *std::move(facts);
    return Status();
  }

  const CaptureRules& rules_;
  const TreeView& view_;
  const size_t max_files_;
  TreeScan* scan_;
  uint64_t device_ = 0;
};

char TypeLetter(uint32_t mode) { return S_ISDIR(mode) ? 'd' : S_ISLNK(mode) ? 'l' : S_ISREG(mode) ? 'f' : 'p'; }

bool IsRoot(const TreeScan& scan, const std::string& path) {
  for (const std::string& root : scan.roots) {
    if (root == path) return true;
  }
  return false;
}

bool HasChanged(const FileFacts& before, const FileFacts& after) {
  if (!S_ISDIR(after.mode) || !S_ISDIR(before.mode)) return !(before == after);
  // A directory's own times and links change with every file in it, which says nothing of the directory.
  return before.mode != after.mode || before.uid != after.uid || before.gid != after.gid;
}

}  // namespace

Result<FileFacts> FactsOf(const TreeView& view, const std::string& path) {
  struct stat st;
  RETURN_IF_ERROR(view.Stat(path, &st));
  FileFacts facts;
  facts.mode = st.st_mode;
  facts.uid = st.st_uid;
  facts.gid = st.st_gid;
  facts.size_bytes = S_ISREG(st.st_mode) ? static_cast<uint64_t>(st.st_size) : 0;
  facts.mtime_s = st.st_mtim.tv_sec;
  facts.mtime_ns = static_cast<uint32_t>(st.st_mtim.tv_nsec);
  facts.ctime_s = st.st_ctim.tv_sec;
  facts.ctime_ns = static_cast<uint32_t>(st.st_ctim.tv_nsec);
  facts.inode = st.st_ino;
  facts.device = st.st_dev;
  facts.links = st.st_nlink;
  if (!S_ISLNK(st.st_mode)) return facts;
  ASSIGN_OR_RETURN(facts.target, view.ReadLink(path));
  return facts;
}

Result<TreeScan> ScanTrees(const std::vector<std::string>& roots, const CaptureRules& rules, const TreeView& view,
                           size_t max_files) {
  TreeScan scan;
  Scanner scanner(rules, view, max_files, &scan);
  for (const std::string& root : roots) RETURN_IF_ERROR(scanner.TakeRoot(root));
  return scan;
}

TreeChanges CompareScans(const TreeScan& before, const TreeScan& after) {
  TreeChanges changes;
  for (const auto& [path, facts] : after.files) {
    const auto old = before.files.find(path);
    if (old == before.files.end() || HasChanged(old->second, facts)) changes.written.push_back(path);
  }
  for (const auto& [path, facts] : before.files) {
    if (after.files.contains(path)) continue;
    // Of a directory that is gone, or that something else has replaced, nothing shows through anyway.
    const std::string above = path.substr(0, path.rfind('/'));
    const auto parent = after.files.find(above);
    const bool is_hidden = parent == after.files.end() ? before.files.contains(above) : !S_ISDIR(parent->second.mode);
    if (!is_hidden) changes.removed.push_back(path);
  }
  return changes;
}

std::string BaseOf(const TreeScan& scan) {
  blocks::Sha256 hash;
  bool is_empty = true;
  for (const auto& [path, facts] : scan.files) {
    // Bytecode comes and goes with every run of a program.
    if (IsRoot(scan, path) || path.find("/__pycache__") != std::string::npos) continue;
    is_empty = false;
    const std::string what = S_ISLNK(facts.mode) ? facts.target : fmt::format("{}", facts.size_bytes);
    hash.Update(
        fmt::format("{}{}{}{}{:o}{}{}\n", path, '\0', TypeLetter(facts.mode), '\0', facts.mode & 07777, '\0', what));
  }
  return is_empty ? "" : hash.Finish().ToString();
}

}  // namespace paceline::deps
