#include "lib/deps/copy_restorer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <thread>

#include "lib/base/filesystem.h"
#include "lib/base/mutex.h"
#include "lib/base/unique_fd.h"
#include "lib/blocks/format/erofs_reader.h"
#include "lib/blocks/image/image_check.h"
#include "lib/deps/capture_rules.h"
#include "lib/deps/tree_checks.h"

namespace paceline::deps {
namespace {

using blocks::ErofsInode;
using blocks::ErofsReader;

constexpr uint64_t kWindowBytes = 1U << 20;

struct Node {
  std::string path;
  ErofsInode inode;
};

Status Outside(const std::string& path) {
  return DataLossError("the snapshot holds " + path + ", which is no part of it");
}

// The content of a layer's blocks, read forwards with a window.
class ContentReader {
 public:
  ContentReader(blocks::BlobStore& store, const blocks::LayerIndex& index, const Clock& clock, Duration limit)
      : store_(store), index_(index), clock_(clock), limit_(limit) {}

  // The chunk that holds an image block.
  Result<std::string_view> ChunkOf(uint32_t block, uint32_t* first_block) {
    const uint32_t number = index_.FindChunk(block);
    if (number != number_) {
      number_ = kNone;
      const blocks::Chunk chunk = index_.chunk(number);
      ASSIGN_OR_RETURN(const std::string_view stored, Stored(chunk));
      RETURN_IF_ERROR(decoder_.Decode(chunk, stored, &content_));
      number_ = number;
      first_ = chunk.first_block;
    }
    *first_block = first_;
    return std::string_view(content_);
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  Result<std::string_view> Stored(const blocks::Chunk& chunk) {
    const bool is_inside = chunk.blob == blob_ && chunk.offset_bytes >= window_at_ &&
                           chunk.offset_bytes + chunk.stored_bytes <= window_at_ + window_.size();
    if (!is_inside) {
      const blocks::BlobEntry& blob = index_.blobs()[chunk.blob];
      const uint64_t left = blob.size_bytes - chunk.offset_bytes;
      window_.resize(static_cast<size_t>(std::min(left, std::max<uint64_t>(kWindowBytes, chunk.stored_bytes))));
      blob_ = kNone;
      RETURN_IF_ERROR(store_.ReadBlob(blob.digest, chunk.offset_bytes, window_, Deadline::After(clock_, limit_)));
      blob_ = chunk.blob;
      window_at_ = chunk.offset_bytes;
    }
    return std::string_view(window_).substr(chunk.offset_bytes - window_at_, chunk.stored_bytes);
  }

  blocks::BlobStore& store_;
  const blocks::LayerIndex& index_;
  const Clock& clock_;
  const Duration limit_;
  blocks::ChunkDecoder decoder_;
  std::string content_, window_;
  uint32_t number_ = kNone, first_ = 0, blob_ = kNone;
  uint64_t window_at_ = 0;
};

class Copy {
 public:
  Copy(blocks::BlobStore& store, const blocks::LayerIndex& index, const ErofsReader& reader, const CopyOptions& options,
       CopyReport* report, const Clock& clock, const std::stop_token& stop)
      : store_(store),
        index_(index),
        reader_(reader),
        options_(options),
        report_(report),
        clock_(clock),
        stop_(stop),
        is_root_(geteuid() == 0) {}

  Status Run() {
    RETURN_IF_ERROR(Mark());
    ASSIGN_OR_RETURN(const ErofsInode root, reader_.Inode(reader_.root()));
    RETURN_IF_ERROR(Walk("", root));
    RETURN_IF_ERROR(WriteFiles());
    for (const auto& [link, target] : hard_links_) {
      if (::link(target.c_str(), link.c_str()) != 0) return ErrnoStatus(errno, "link " + link);
    }
    // Last, and innermost first: writing into a directory changes its time.
    for (auto node = directories_.rbegin(); node != directories_.rend(); ++node) {
      RETURN_IF_ERROR(SetAttributes(*node));
    }
    return Finish();
  }

 private:
  Status Mark() const {
    RealFileSystem files;
    for (const std::string& root : options_.roots) {
      RETURN_IF_ERROR(files.MakeDirectories(root, 0755));
      RETURN_IF_ERROR(files.WriteFileAtomically(root + "/" + kRecordingName, "restore\n", 0644));
    }
    return Status();
  }

  // Makes everything but the contents of files, top down: below a root no link is ever followed, since what is no
  // directory is replaced before anything is made in it.
  Status Walk(const std::string& path, const ErofsInode& directory) {
    ASSIGN_OR_RETURN(const std::vector<blocks::ErofsEntry> entries, reader_.List(directory));
    for (const blocks::ErofsEntry& entry : entries) {
      if (stop_.stop_requested()) return CancelledError("the restore was stopped");
      if (entry.name.find('/') != std::string::npos || entry.name.find('\0') != std::string::npos ||
          entry.name == "." || entry.name == "..") {
        return Outside(path + "/" + entry.name);
      }
      ASSIGN_OR_RETURN(ErofsInode inode, reader_.Inode(entry.nid));
      RETURN_IF_ERROR(Take({path + "/" + entry.name, inode}));
    }
    return Status();
  }

  bool IsAboveRoots(const std::string& path) const {
    return std::any_of(options_.roots.begin(), options_.roots.end(),
                       [&](const std::string& root) { return root.starts_with(path + "/"); });
  }

  Status Take(Node node) {
    if (!IsBelowRoots(node.path, options_.roots)) {
      // Directories above the roots are there: Mark made them, and what they are is not ours to change.
      if (!S_ISDIR(node.inode.mode) || !IsAboveRoots(node.path)) return Outside(node.path);
      return Walk(node.path, node.inode);
    }
    if (S_ISDIR(node.inode.mode)) return TakeDirectory(std::move(node));
    RETURN_IF_ERROR(Clear(node.path));
    if (node.inode.is_whiteout()) return Status();
    if (node.inode.links > 1) {
      const auto [place, is_new] = first_names_.try_emplace(node.inode.nid, node.path);
      if (!is_new) {
        hard_links_.emplace_back(node.path, place->second);
        return Status();
      }
    }
    if (S_ISREG(node.inode.mode)) {
      (IsSentinel(node.path) ? sentinels_ : files_).push_back(std::move(node));
      return Status();
    }
    if (S_ISLNK(node.inode.mode)) {
      ASSIGN_OR_RETURN(const std::string target, reader_.SymlinkTarget(node.inode));
      if (::symlink(target.c_str(), node.path.c_str()) != 0) return ErrnoStatus(errno, "make the link " + node.path);
    } else if (!S_ISFIFO(node.inode.mode)) {
      return DataLossError(node.path + ": a snapshot holds no such files");
    } else if (::mkfifo(node.path.c_str(), 0600) != 0) {
      return ErrnoStatus(errno, "make the pipe " + node.path);
    }
    return SetAttributes(node);
  }

  Status TakeDirectory(Node node) {
    struct stat st;
    const bool is_there = ::lstat(node.path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
    if (!is_there) {
      RETURN_IF_ERROR(Clear(node.path));
      if (::mkdir(node.path.c_str(), 0700) != 0) return ErrnoStatus(errno, "make " + node.path);
    }
    const ErofsInode inode = node.inode;
    const std::string path = node.path;
    directories_.push_back(std::move(node));
    return Walk(path, inode);
  }

  static Status Clear(const std::string& path) {
    if (::unlink(path.c_str()) == 0 || errno == ENOENT) return Status();
    std::error_code error;
    std::filesystem::remove_all(path, error);
    return error ? ErrnoStatus(error.value(), "replace " + path) : Status();
  }

  // Files in the order of their contents, cut into one stretch per thread.
  Status WriteFiles() {
    std::vector<std::pair<uint32_t, size_t>> order;
    uint64_t total = 0;
    for (size_t i = 0; i < files_.size(); ++i) {
      ASSIGN_OR_RETURN(const std::vector<blocks::ErofsExtent> extents, reader_.Extents(files_[i].inode));
      order.emplace_back(extents.empty() ? 0 : extents.front().first_block, i);
      total += files_[i].inode.size_bytes + kFileCost;
    }
    std::sort(order.begin(), order.end());
    std::vector<std::jthread> threads;
    const uint64_t share = total / static_cast<uint64_t>(options_.threads) + 1;
    for (size_t at = 0; at < order.size();) {
      std::vector<size_t> mine;
      for (uint64_t taken = 0; at < order.size() && taken < share; ++at) {
        mine.push_back(order[at].second);
        taken += files_[order[at].second].inode.size_bytes + kFileCost;
      }
      threads.emplace_back([this, mine = std::move(mine)] { WriteSome(mine); });
    }
    threads.clear();
    MutexLock lock(mutex_);
    return failure_;
  }

  void WriteSome(const std::vector<size_t>& numbers) {
    ContentReader contents(store_, index_, clock_, options_.store_limit);
    for (const size_t number : numbers) {
      if (stop_.stop_requested() || has_failed_) return;
      const Status written = WriteFile(files_[number], contents);
      if (written.ok()) continue;
      has_failed_ = true;
      MutexLock lock(mutex_);
      if (failure_.ok()) failure_ = written;
      return;
    }
  }

  Status WriteFile(const Node& node, ContentReader& contents) {
    const UniqueFd file(::open(node.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file.is_valid()) return ErrnoStatus(errno, "make " + node.path);
    ASSIGN_OR_RETURN(const std::vector<blocks::ErofsExtent> extents, reader_.Extents(node.inode));
    uint64_t written = 0;
    for (const blocks::ErofsExtent& extent : extents) {
      RETURN_IF_ERROR(WriteExtent(file.get(), node, extent, contents));
      written =
          std::min(node.inode.size_bytes, extent.file_offset_bytes + uint64_t{extent.blocks} * blocks::kBlockBytes);
    }
    if (written < node.inode.size_bytes && ::ftruncate(file.get(), static_cast<off_t>(node.inode.size_bytes)) != 0) {
      return ErrnoStatus(errno, "extend " + node.path);
    }
    report_->files.fetch_add(1);
    report_->bytes.fetch_add(node.inode.size_bytes);
    return SetAttributes(node);
  }

  static Status WriteExtent(int file, const Node& node, const blocks::ErofsExtent& extent, ContentReader& contents) {
    uint64_t at = extent.file_offset_bytes;
    uint32_t block = extent.first_block;
    const uint64_t end = std::min(node.inode.size_bytes, at + uint64_t{extent.blocks} * blocks::kBlockBytes);
    while (at < end) {
      uint32_t first = 0;
      ASSIGN_OR_RETURN(std::string_view bytes, contents.ChunkOf(block, &first));
      bytes.remove_prefix(uint64_t{block - first} * blocks::kBlockBytes);
      bytes = bytes.substr(0, static_cast<size_t>(end - at));
      block += static_cast<uint32_t>((bytes.size() + blocks::kBlockBytes - 1) / blocks::kBlockBytes);
      while (!bytes.empty()) {
        const ssize_t got = ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(at));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return ErrnoStatus(errno, "write " + node.path);
        bytes.remove_prefix(static_cast<size_t>(got));
        at += static_cast<uint64_t>(got);
      }
    }
    return Status();
  }

  Status SetAttributes(const Node& node) const {
    const char* path = node.path.c_str();
    // Others cannot give files away; the tree is then the user's own.
    if (is_root_ && ::lchown(path, node.inode.uid, node.inode.gid) != 0)
      return ErrnoStatus(errno, "chown " + node.path);
    if (!S_ISLNK(node.inode.mode) && ::chmod(path, node.inode.mode & 07777) != 0) {
      return ErrnoStatus(errno, "chmod " + node.path);
    }
    ASSIGN_OR_RETURN(const auto xattrs, reader_.Xattrs(node.inode));
    for (const auto& [name, value] : xattrs) {
      const bool is_set = ::lsetxattr(path, name.c_str(), value.data(), value.size(), 0) == 0;
      if (!is_set && is_root_) return ErrnoStatus(errno, "set " + name + " of " + node.path);
    }
    const timespec times[2] = {{node.inode.mtime_s, node.inode.mtime_ns}, {node.inode.mtime_s, node.inode.mtime_ns}};
    if (::utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW) != 0) {
      return ErrnoStatus(errno, "set the time of " + node.path);
    }
    return Status();
  }

  // The sentinels, and then the marks go.
  Status Finish() {
    ContentReader contents(store_, index_, clock_, options_.store_limit);
    for (const Node& sentinel : sentinels_) RETURN_IF_ERROR(WriteFile(sentinel, contents));
    RealFileSystem files;
    for (const std::string& root : options_.roots) RETURN_IF_ERROR(files.Remove(root + "/" + kRecordingName));
    return Status();
  }

  bool IsSentinel(const std::string& path) const {
    const auto is_its = [&](const std::string& root) { return path == root + "/" + kSentinelName; };
    return std::any_of(options_.roots.begin(), options_.roots.end(), is_its);
  }

  static constexpr uint64_t kFileCost = 16384;  // making a file takes as long as writing so many bytes

  blocks::BlobStore& store_;
  const blocks::LayerIndex& index_;
  const ErofsReader& reader_;
  const CopyOptions& options_;
  CopyReport* report_;
  const Clock& clock_;
  const std::stop_token& stop_;
  const bool is_root_;
  std::vector<Node> files_, directories_, sentinels_;
  std::map<uint64_t, std::string> first_names_;
  std::vector<std::pair<std::string, std::string>> hard_links_;
  std::atomic<bool> has_failed_{false};
  Mutex mutex_;
  Status failure_ GUARDED_BY(mutex_);
};

}  // namespace

Status RestoreByCopy(blocks::BlobStore& store, const blocks::BlockLayer& layer, const CopyOptions& options,
                     CopyReport* report, const Clock& clock, const std::stop_token& stop) {
  ASSIGN_OR_RETURN(const blocks::LayerIndex index,
                   blocks::ReadLayerIndex(store, layer, Deadline::After(clock, options.store_limit)));
  ASSIGN_OR_RETURN(std::string metadata, index.Metadata());
  ASSIGN_OR_RETURN(const ErofsReader reader, ErofsReader::Open(std::move(metadata), index.header()));
  return Copy(store, index, reader, options, report, clock, stop).Run();
}

}  // namespace paceline::deps
