#include "lib/deps/tar_stream.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "lib/base/unique_fd.h"
#include "lib/deps/bytecode.h"

namespace paceline::deps {
namespace {

constexpr size_t kBlockBytes = 512;
constexpr size_t kNameBytes = 100;
constexpr uint64_t kMaxOctalSize = 077777777777;
constexpr uint64_t kMaxOctalId = 07777777;
constexpr size_t kMaxBytecodeBytes = 64U << 20;

struct Header {
  char type = '0';
  std::string name, link;
  uint32_t mode = 0;
  uint64_t uid = 0, gid = 0, size_bytes = 0;
  int64_t mtime_s = 0;
  uint32_t mtime_ns = 0;
  std::map<std::string, std::string> xattrs;
};

// The length of a PAX record counts its own digits.
std::string PaxRecord(const std::string& key, const std::string& value) {
  const size_t bare = key.size() + value.size() + 3;
  size_t length = bare + 1;
  while (std::to_string(length).size() + bare != length) length = std::to_string(length).size() + bare;
  return fmt::format("{} {}={}\n", length, key, value);
}

void PutText(std::string* block, size_t at, size_t size, const std::string& text) {
  std::memcpy(block->data() + at, text.data(), std::min(size, text.size()));
}

void PutOctal(std::string* block, size_t at, size_t size, uint64_t value) {
  PutText(block, at, size - 1, fmt::format("{:0{}o}", value, size - 1));
}

std::string Block(const Header& header) {
  std::string block(kBlockBytes, '\0');
  PutText(&block, 0, kNameBytes, header.name);
  PutOctal(&block, 100, 8, header.mode & 07777);
  PutOctal(&block, 108, 8, std::min(header.uid, kMaxOctalId));
  PutOctal(&block, 116, 8, std::min(header.gid, kMaxOctalId));
  PutOctal(&block, 124, 12, std::min(header.size_bytes, kMaxOctalSize));
  PutOctal(&block, 136, 12, static_cast<uint64_t>(std::clamp<int64_t>(header.mtime_s, 0, kMaxOctalSize)));
  block[156] = header.type;
  PutText(&block, 157, kNameBytes, header.link);
  PutText(&block, 257, 8, std::string("ustar\00000", 8));
  PutText(&block, 148, 8, "        ");
  const auto add = [](unsigned sum, char c) { return sum + static_cast<uint8_t>(c); };
  PutText(&block, 148, 8, fmt::format("{:06o}", std::accumulate(block.begin(), block.end(), 0U, add)));
  block[154] = '\0';
  return block;
}

std::string Padding(uint64_t size) { return std::string((kBlockBytes - size % kBlockBytes) % kBlockBytes, '\0'); }

// The header with, in front of it, what ustar cannot say.
std::string Encode(const Header& header) {
  std::string records;
  // Sorted by key.
  for (const auto& [name, value] : header.xattrs) records += PaxRecord("SCHILY.xattr." + name, value);
  if (header.gid > kMaxOctalId) records += PaxRecord("gid", std::to_string(header.gid));
  if (header.link.size() > kNameBytes) records += PaxRecord("linkpath", header.link);
  const bool is_odd_time = header.mtime_ns != 0 || header.mtime_s < 0;
  // A time before 1970 counts its nanoseconds upwards, too; the text is a decimal number.
  if (is_odd_time && header.mtime_s >= 0) {
    records += PaxRecord("mtime", fmt::format("{}.{:09}", header.mtime_s, header.mtime_ns));
  } else if (is_odd_time) {
    records += PaxRecord("mtime", std::to_string(header.mtime_s));
  }
  if (header.name.size() > kNameBytes) records += PaxRecord("path", header.name);
  if (header.size_bytes > kMaxOctalSize) records += PaxRecord("size", std::to_string(header.size_bytes));
  if (header.uid > kMaxOctalId) records += PaxRecord("uid", std::to_string(header.uid));
  if (records.empty()) return Block(header);
  Header extension;
  extension.type = 'x';
  extension.name = "PaxHeaders";
  extension.mode = 0644;
  extension.size_bytes = records.size();
  return Block(extension) + records + Padding(records.size()) + Block(header);
}

char TypeOf(uint32_t mode) { return S_ISDIR(mode) ? '5' : S_ISLNK(mode) ? '2' : S_ISFIFO(mode) ? '6' : '0'; }

bool IsKeptXattr(std::string_view name, Privileges privileges) {
  if (name == "security.capability") return privileges == Privileges::kKept;
  return name.starts_with("user.") || name == "system.posix_acl_access" || name == "system.posix_acl_default";
}

Result<std::map<std::string, std::string>> ReadXattrs(const TreeView& view, const std::string& path,
                                                      Privileges privileges) {
  std::map<std::string, std::string> found;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, view.ListXattrs(path));
  for (const std::string& name : names) {
    if (!IsKeptXattr(name, privileges)) continue;
    ASSIGN_OR_RETURN(found[name], view.ReadXattr(path, name));
  }
  return found;
}

class TreeSource final : public blocks::ByteSource {
 public:
  TreeSource(const CapturedTree& tree, Privileges privileges, TreeView view)
      : tree_(tree), privileges_(privileges), view_(std::move(view)) {}

  Result<size_t> Read(std::span<char> out) override {
    for (;;) {
      if (used_ < pending_.size()) {
        const size_t size = std::min(out.size(), pending_.size() - used_);
        std::memcpy(out.data(), pending_.data() + used_, size);
        used_ += size;
        return size;
      }
      if (file_.is_valid()) {
        ASSIGN_OR_RETURN(const size_t got, ReadFile(out));
        if (got > 0) return got;
        continue;
      }
      if (next_ > tree_.entries.size()) return size_t{0};
      RETURN_IF_ERROR(Advance());
    }
  }

 private:
  void SetPending(std::string bytes) {
    pending_ = std::move(bytes);
    used_ = 0;
  }

  Status Changed() const {
    return AbortedError(tree_.entries[next_ - 1].path +
                        " changed while it was recorded: something that the install started is still at work");
  }

  Status Advance() {
    if (next_ == tree_.entries.size()) {
      ++next_;
      SetPending(std::string(2 * kBlockBytes, '\0'));
      return Status();
    }
    const CapturedEntry& entry = tree_.entries[next_++];
    if (entry.kind == CapturedEntry::Kind::kSentinel) {
      SetPending(Encode(HeaderOf(entry)) + entry.content + Padding(entry.content.size()));
      return Status();
    }
    Header header = HeaderOf(entry);
    if (entry.kind == CapturedEntry::Kind::kFile) {
      ASSIGN_OR_RETURN(header.xattrs, ReadXattrs(view_, entry.path, privileges_));
    }
    const bool has_content = entry.kind == CapturedEntry::Kind::kFile && S_ISREG(entry.facts.mode);
    if (has_content && entry.gets_source_time) return TakeBytecode(entry, header);
    if (has_content) RETURN_IF_ERROR(Open(entry));
    SetPending(Encode(header));
    return Status();
  }

  static Header HeaderOf(const CapturedEntry& entry) {
    Header header;
    header.name = entry.path.substr(1);
    header.mode = entry.facts.mode & 07777;
    header.uid = entry.facts.uid;
    header.gid = entry.facts.gid;
    header.mtime_s = entry.facts.mtime_s;
    header.mtime_ns = entry.facts.mtime_ns;
    header.type = TypeOf(entry.facts.mode);
    if (header.type == '5') header.name += '/';
    if (header.type == '0') header.size_bytes = entry.facts.size_bytes;
    if (header.type == '2') header.link = entry.facts.target;
    if (entry.kind == CapturedEntry::Kind::kHardLink) {
      header.type = '1';
      header.link = entry.link_to.substr(1);
      header.size_bytes = 0;
    }
    if (entry.kind == CapturedEntry::Kind::kWhiteout) {
      header = Header();
      const size_t slash = entry.path.rfind('/');
      header.name = entry.path.substr(1, slash) + ".wh." + entry.path.substr(slash + 1);
    }
    return header;
  }

  Status Open(const CapturedEntry& entry) {
    Result<UniqueFd> file = view_.Open(entry.path, O_RDONLY);
    if (!file.ok() && file.status().code() == StatusCode::kNotFound) return Changed();
    if (!file.ok()) return file.status();
    file_ = *std::move(file);
    left_ = entry.facts.size_bytes;
    return CheckUnchanged(entry);
  }

  Status CheckUnchanged(const CapturedEntry& entry) const {
    struct stat st;
    if (fstat(file_.get(), &st) != 0) return ErrnoStatus(errno, "stat " + entry.path);
    const FileFacts& found = entry.found;
    const bool is_same = st.st_ino == found.inode && static_cast<uint64_t>(st.st_size) == found.size_bytes &&
                         st.st_ctim.tv_sec == found.ctime_s &&
                         static_cast<uint32_t>(st.st_ctim.tv_nsec) == found.ctime_ns;
    return is_same ? Status() : Changed();
  }

  // 0 at the end of the file, after which its padding is pending.
  Result<size_t> ReadFile(std::span<char> out) {
    const CapturedEntry& entry = tree_.entries[next_ - 1];
    if (left_ == 0) {
      RETURN_IF_ERROR(CheckUnchanged(entry));
      file_.Reset();
      SetPending(Padding(entry.facts.size_bytes));
      return size_t{0};
    }
    const ssize_t got = read(file_.get(), out.data(), static_cast<size_t>(std::min<uint64_t>(out.size(), left_)));
    if (got < 0 && errno != EINTR) return ErrnoStatus(errno, "read " + entry.path);
    if (got == 0) return Changed();
    if (got > 0) left_ -= static_cast<uint64_t>(got);
    // Interrupted: the caller's loop comes back.
    return static_cast<size_t>(std::max<ssize_t>(got, 0));
  }

  Status TakeBytecode(const CapturedEntry& entry, const Header& header) {
    if (entry.facts.size_bytes > kMaxBytecodeBytes) return InvalidArgumentError(entry.path + " is too large");
    RETURN_IF_ERROR(Open(entry));
    std::string content(entry.facts.size_bytes, '\0');
    for (size_t filled = 0; filled < content.size();) {
      ASSIGN_OR_RETURN(const size_t got, ReadFile(std::span<char>(content).subspan(filled)));
      filled += got;
    }
    RETURN_IF_ERROR(CheckUnchanged(entry));
    file_.Reset();
    SetBytecodeTime(kNormalTime, content.data());
    SetPending(Encode(header) + content + Padding(content.size()));
    return Status();
  }

  const CapturedTree& tree_;
  const Privileges privileges_;
  const TreeView view_;
  size_t next_ = 0;
  std::string pending_;
  size_t used_ = 0;
  UniqueFd file_;
  uint64_t left_ = 0;
};

}  // namespace

std::unique_ptr<blocks::ByteSource> NewTreeSource(const CapturedTree& tree, Privileges privileges,
                                                  const TreeView& view) {
  return std::make_unique<TreeSource>(tree, privileges, view);
}

}  // namespace paceline::deps
