#include "lib/fusefs/request_table.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

namespace paceline::fusefs {
namespace {

// Requests of the kernel reach 1 MiB: 256 pages is libfuse's limit.
constexpr uint32_t kLargestRequestBytes = 1 << 20;

timespec ToTimespec(WallTime time) {
  const auto since = time.time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
  return {.tv_sec = seconds.count(), .tv_nsec = (since - seconds).count()};
}

WallTime ToWallTime(const timespec& time) {
  return WallTime(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

struct stat ToStat(const Attributes& from) {
  struct stat st = {};
  st.st_ino = from.inode;
  st.st_mode = from.mode;
  st.st_nlink = from.links;
  st.st_uid = from.uid;
  st.st_gid = from.gid;
  st.st_size = static_cast<off_t>(from.size_bytes);
  st.st_blocks = static_cast<blkcnt_t>((from.size_bytes + 511) / 512);
  st.st_blksize = static_cast<blksize_t>(from.preferred_io_bytes);
  st.st_mtim = ToTimespec(from.modified);
  st.st_atim = ToTimespec(from.accessed);
  st.st_ctim = ToTimespec(from.changed);
  return st;
}

fuse_entry_param ToEntry(const Entry& from) {
  fuse_entry_param entry = {};
  entry.ino = from.attributes.inode;
  entry.attr = ToStat(from.attributes);
  entry.attr_timeout = ToSeconds(from.attribute_lifetime);
  entry.entry_timeout = ToSeconds(from.name_lifetime);
  return entry;
}

RequestContext& ContextOf(fuse_req_t req) { return *static_cast<RequestContext*>(fuse_req_userdata(req)); }

Caller CallerOf(fuse_req_t req) {
  const fuse_ctx* context = fuse_req_ctx(req);
  return {.uid = context->uid, .gid = context->gid, .thread = context->pid};
}

// Runs `ask`; answers with its errno, or lets `answer` do it. An answer that the kernel does not take any more (the
// caller was killed) is nobody's loss.
template <typename Ask, typename Answer>
void Handle(fuse_req_t req, std::string_view name, Ask ask, Answer answer) {
  RequestContext& context = ContextOf(req);
  const TimePoint start = context.clock.Now();
  const int error = ask(context.operations);
  if (error != 0) {
    fuse_reply_err(req, error);
  } else {
    answer();
  }
  if (context.observer) context.observer(name, context.clock.Now() - start, error);
}

template <typename Ask>
void HandleWithoutValue(fuse_req_t req, std::string_view name, Ask ask) {
  Handle(req, name, ask, [req] { fuse_reply_err(req, 0); });
}

void OnInit(void* userdata, fuse_conn_info* connection) {
  const auto& context = *static_cast<RequestContext*>(userdata);
  const unsigned wanted = FUSE_CAP_ASYNC_READ | FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_AUTO_INVAL_DATA |
                          FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_ASYNC_DIO |
                          FUSE_CAP_PARALLEL_DIROPS;
  // Locks stay with the kernel of this host. Pages of writes go through memory: they are checksummed before sending.
  connection->want &= ~(FUSE_CAP_POSIX_LOCKS | FUSE_CAP_FLOCK_LOCKS | FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE |
                        FUSE_CAP_SPLICE_MOVE | FUSE_CAP_WRITEBACK_CACHE);
  connection->want |= wanted & connection->capable;
  connection->max_write = connection->max_read = kLargestRequestBytes;
  connection->max_readahead = std::max(connection->max_readahead, context.read_ahead_bytes);
  connection->max_background = 128;
  connection->congestion_threshold = 96;
}

void OnLookup(fuse_req_t req, fuse_ino_t parent, const char* name) {
  Entry entry;
  Handle(
      req, "lookup", [&](Operations& ops) { return ops.Lookup(CallerOf(req), parent, name, &entry); },
      [&] {
        const fuse_entry_param param = ToEntry(entry);
        fuse_reply_entry(req, &param);
      });
}

void OnForget(fuse_req_t req, fuse_ino_t inode, uint64_t count) {
  ContextOf(req).operations.Forget(inode, count);
  fuse_reply_none(req);
}

void OnForgetMulti(fuse_req_t req, size_t count, fuse_forget_data* forgets) {
  for (size_t i = 0; i < count; ++i) ContextOf(req).operations.Forget(forgets[i].ino, forgets[i].nlookup);
  fuse_reply_none(req);
}

void ReplyAttributes(fuse_req_t req, const Attributes& attributes, Duration lifetime) {
  const struct stat st = ToStat(attributes);
  fuse_reply_attr(req, &st, ToSeconds(lifetime));
}

void OnGetattr(fuse_req_t req, fuse_ino_t inode, fuse_file_info*) {
  Attributes attributes;
  Duration lifetime{0};
  Handle(
      req, "getattr", [&](Operations& ops) { return ops.GetAttributes(inode, &attributes, &lifetime); },
      [&] { ReplyAttributes(req, attributes, lifetime); });
}

void OnSetattr(fuse_req_t req, fuse_ino_t inode, struct stat* st, int which, fuse_file_info*) {
  AttributeChange change;
  if (which & FUSE_SET_ATTR_MODE) change.mode = st->st_mode & 07777;
  if (which & FUSE_SET_ATTR_UID) change.uid = st->st_uid;
  if (which & FUSE_SET_ATTR_GID) change.gid = st->st_gid;
  if (which & FUSE_SET_ATTR_SIZE) change.size_bytes = static_cast<uint64_t>(st->st_size);
  if (which & FUSE_SET_ATTR_MTIME) change.modified = ToWallTime(st->st_mtim);
  if (which & FUSE_SET_ATTR_ATIME) change.accessed = ToWallTime(st->st_atim);
  change.modified_is_now = (which & FUSE_SET_ATTR_MTIME_NOW) != 0;
  change.accessed_is_now = (which & FUSE_SET_ATTR_ATIME_NOW) != 0;
  Attributes attributes;
  Duration lifetime{0};
  Handle(
      req, "setattr",
      [&](Operations& ops) { return ops.SetAttributes(CallerOf(req), inode, change, &attributes, &lifetime); },
      [&] { ReplyAttributes(req, attributes, lifetime); });
}

void OnReadlink(fuse_req_t req, fuse_ino_t inode) {
  std::string target;
  Handle(
      req, "readlink", [&](Operations& ops) { return ops.ReadLink(inode, &target); },
      [&] { fuse_reply_readlink(req, target.c_str()); });
}

void OnMkdir(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode) {
  Entry entry;
  Handle(
      req, "mkdir", [&](Operations& ops) { return ops.MakeDirectory(CallerOf(req), parent, name, mode, &entry); },
      [&] {
        const fuse_entry_param param = ToEntry(entry);
        fuse_reply_entry(req, &param);
      });
}

void SetOpened(fuse_file_info* info, const Opened& opened) {
  info->fh = opened.handle;
  info->direct_io = opened.uses_page_cache ? 0 : 1;
  info->keep_cache = opened.keeps_cached_pages ? 1 : 0;
}

void OnCreate(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode, fuse_file_info* info) {
  Entry entry;
  Opened opened;
  Handle(
      req, "create",
      [&](Operations& ops) { return ops.Create(CallerOf(req), parent, name, mode, info->flags, &entry, &opened); },
      [&] {
        SetOpened(info, opened);
        const fuse_entry_param param = ToEntry(entry);
        fuse_reply_create(req, &param, info);
      });
}

// Regular files only: a fifo or a device has no place to live.
void OnMknod(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode, dev_t) {
  Entry entry;
  Handle(
      req, "mknod",
      [&](Operations& ops) {
        if (!S_ISREG(mode)) return EPERM;
        Opened opened;
        const int error = ops.Create(CallerOf(req), parent, name, mode, O_WRONLY | O_EXCL, &entry, &opened);
        if (error != 0) return error;
        const int flushed = ops.Flush(CallerOf(req), entry.attributes.inode, opened.handle);
        ops.Release(entry.attributes.inode, opened.handle);
        if (flushed != 0) ops.Forget(entry.attributes.inode, 1);
        return flushed;
      },
      [&] {
        const fuse_entry_param param = ToEntry(entry);
        fuse_reply_entry(req, &param);
      });
}

// What there is no place for, said so that programs go on without: a missing answer would read as a missing feature.
void OnSymlink(fuse_req_t req, const char*, fuse_ino_t, const char*) { fuse_reply_err(req, EPERM); }

void OnLink(fuse_req_t req, fuse_ino_t, fuse_ino_t, const char*) { fuse_reply_err(req, EPERM); }

void OnUnlink(fuse_req_t req, fuse_ino_t parent, const char* name) {
  HandleWithoutValue(req, "unlink", [&](Operations& ops) { return ops.RemoveFile(parent, name); });
}

void OnRmdir(fuse_req_t req, fuse_ino_t parent, const char* name) {
  HandleWithoutValue(req, "rmdir", [&](Operations& ops) { return ops.RemoveDirectory(parent, name); });
}

void OnRename(fuse_req_t req, fuse_ino_t parent, const char* name, fuse_ino_t new_parent, const char* new_name,
              unsigned flags) {
  HandleWithoutValue(req, "rename",
                     [&](Operations& ops) { return ops.Rename(parent, name, new_parent, new_name, flags); });
}

void OnOpen(fuse_req_t req, fuse_ino_t inode, fuse_file_info* info) {
  Opened opened;
  Handle(
      req, "open", [&](Operations& ops) { return ops.Open(CallerOf(req), inode, info->flags, &opened); },
      [&] {
        SetOpened(info, opened);
        fuse_reply_open(req, info);
      });
}

void OnRead(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset, fuse_file_info* info) {
  // Kept per thread: a fresh buffer of this size would be zeroed by the kernel each time.
  thread_local std::vector<std::byte> buffer;
  if (buffer.size() < size) buffer.resize(size);
  size_t got = 0;
  Handle(
      req, "read",
      [&](Operations& ops) {
        return ops.Read(inode, info->fh, static_cast<uint64_t>(offset), std::span(buffer.data(), size), &got);
      },
      [&] { fuse_reply_buf(req, reinterpret_cast<const char*>(buffer.data()), got); });
}

void OnWrite(fuse_req_t req, fuse_ino_t inode, const char* data, size_t size, off_t offset, fuse_file_info* info) {
  Handle(
      req, "write",
      [&](Operations& ops) {
        const auto bytes = std::as_bytes(std::span(data, size));
        return ops.Write(CallerOf(req), inode, info->fh, static_cast<uint64_t>(offset), bytes);
      },
      [&] { fuse_reply_write(req, size); });
}

void OnFlush(fuse_req_t req, fuse_ino_t inode, fuse_file_info* info) {
  HandleWithoutValue(req, "flush", [&](Operations& ops) { return ops.Flush(CallerOf(req), inode, info->fh); });
}

void OnRelease(fuse_req_t req, fuse_ino_t inode, fuse_file_info* info) {
  HandleWithoutValue(req, "release", [&](Operations& ops) {
    ops.Release(inode, info->fh);
    return 0;
  });
}

void OnFsync(fuse_req_t req, fuse_ino_t inode, int, fuse_file_info* info) {
  HandleWithoutValue(req, "fsync", [&](Operations& ops) { return ops.Sync(inode, info->fh); });
}

// Names are durable when the call that made them has returned, so a directory has nothing to wait for.
void OnFsyncdir(fuse_req_t req, fuse_ino_t, int, fuse_file_info*) { fuse_reply_err(req, 0); }

// A refusal that programs understand; without it posix_fallocate would write into every block.
void OnFallocate(fuse_req_t req, fuse_ino_t, int, off_t, off_t, fuse_file_info*) { fuse_reply_err(req, EOPNOTSUPP); }

void OnOpendir(fuse_req_t req, fuse_ino_t inode, fuse_file_info* info) {
  uint64_t handle = 0;
  Handle(
      req, "opendir", [&](Operations& ops) { return ops.OpenDirectory(inode, &handle); },
      [&] {
        info->fh = handle;
        fuse_reply_open(req, info);
      });
}

class BufferSink final : public DirectorySink {
 public:
  BufferSink(fuse_req_t req, size_t size, bool wants_attributes)
      : req_(req), buffer_(size), wants_attributes_(wants_attributes) {}

  bool wants_attributes() const override { return wants_attributes_; }

  bool Add(std::string_view name, const Entry& entry, uint64_t next) override {
    const std::string text(name);
    const fuse_entry_param param = ToEntry(entry);
    char* at = buffer_.data() + used_;
    const size_t room = buffer_.size() - used_;
    const auto offset = static_cast<off_t>(next);
    const size_t size = wants_attributes_ ? fuse_add_direntry_plus(req_, at, room, text.c_str(), &param, offset)
                                          : fuse_add_direntry(req_, at, room, text.c_str(), &param.attr, offset);
    if (size > room) return false;
    used_ += size;
    return true;
  }

  void Reply() { fuse_reply_buf(req_, buffer_.data(), used_); }

 private:
  fuse_req_t req_;
  std::vector<char> buffer_;
  size_t used_ = 0;
  const bool wants_attributes_;
};

void ReadDirectory(fuse_req_t req, BufferSink& sink, fuse_ino_t inode, off_t offset, fuse_file_info* info) {
  Handle(
      req, "readdir",
      [&](Operations& ops) { return ops.ReadDirectory(inode, info->fh, static_cast<uint64_t>(offset), &sink); },
      [&] { sink.Reply(); });
}

void OnReaddir(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset, fuse_file_info* info) {
  BufferSink sink(req, size, false);
  ReadDirectory(req, sink, inode, offset, info);
}

void OnReaddirplus(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset, fuse_file_info* info) {
  BufferSink sink(req, size, true);
  ReadDirectory(req, sink, inode, offset, info);
}

void OnReleasedir(fuse_req_t req, fuse_ino_t inode, fuse_file_info* info) {
  ContextOf(req).operations.ReleaseDirectory(inode, info->fh);
  fuse_reply_err(req, 0);
}

void OnStatfs(fuse_req_t req, fuse_ino_t) {
  Space space;
  Handle(
      req, "statfs", [&](Operations& ops) { return ops.GetSpace(&space); },
      [&] {
        struct statvfs st = {};
        st.f_bsize = st.f_frsize = space.block_bytes;
        st.f_blocks = space.total_bytes / space.block_bytes;
        st.f_bfree = space.free_bytes / space.block_bytes;
        st.f_bavail = space.available_bytes / space.block_bytes;
        st.f_files = space.total_inodes;
        st.f_ffree = st.f_favail = space.free_inodes;
        st.f_namemax = 255;
        fuse_reply_statfs(req, &st);
      });
}

// Size 0 asks how much room the answer needs.
void ReplySized(fuse_req_t req, std::string_view value, size_t size) {
  if (size == 0) {
    fuse_reply_xattr(req, value.size());
  } else if (value.size() > size) {
    fuse_reply_err(req, ERANGE);
  } else {
    fuse_reply_buf(req, value.data(), value.size());
  }
}

void OnGetxattr(fuse_req_t req, fuse_ino_t inode, const char* name, size_t size) {
  std::string value;
  Handle(
      req, "getxattr", [&](Operations& ops) { return ops.GetXattr(inode, name, &value); },
      [&] { ReplySized(req, value, size); });
}

void OnSetxattr(fuse_req_t req, fuse_ino_t inode, const char* name, const char* value, size_t size, int flags) {
  HandleWithoutValue(req, "setxattr",
                     [&](Operations& ops) { return ops.SetXattr(inode, name, std::string_view(value, size), flags); });
}

void OnListxattr(fuse_req_t req, fuse_ino_t inode, size_t size) {
  std::vector<std::string> names;
  Handle(
      req, "listxattr", [&](Operations& ops) { return ops.ListXattrs(inode, &names); },
      [&] {
        std::string joined;
        for (const std::string& name : names) joined.append(name).push_back('\0');
        ReplySized(req, joined, size);
      });
}

void OnRemovexattr(fuse_req_t req, fuse_ino_t inode, const char* name) {
  HandleWithoutValue(req, "removexattr", [&](Operations& ops) { return ops.RemoveXattr(inode, name); });
}

}  // namespace

const fuse_lowlevel_ops& RequestTable() {
  static const fuse_lowlevel_ops table = [] {
    fuse_lowlevel_ops ops = {};
    ops.init = OnInit;
    ops.lookup = OnLookup;
    ops.forget = OnForget;
    ops.forget_multi = OnForgetMulti;
    ops.getattr = OnGetattr;
    ops.setattr = OnSetattr;
    ops.readlink = OnReadlink;
    ops.mknod = OnMknod;
    ops.mkdir = OnMkdir;
    ops.create = OnCreate;
    ops.symlink = OnSymlink;
    ops.link = OnLink;
    ops.unlink = OnUnlink;
    ops.rmdir = OnRmdir;
    ops.rename = OnRename;
    ops.open = OnOpen;
    ops.read = OnRead;
    ops.write = OnWrite;
    ops.flush = OnFlush;
    ops.release = OnRelease;
    ops.fsync = OnFsync;
    ops.fsyncdir = OnFsyncdir;
    ops.fallocate = OnFallocate;
    ops.opendir = OnOpendir;
    ops.readdir = OnReaddir;
    ops.readdirplus = OnReaddirplus;
    ops.releasedir = OnReleasedir;
    ops.statfs = OnStatfs;
    ops.getxattr = OnGetxattr;
    ops.setxattr = OnSetxattr;
    ops.listxattr = OnListxattr;
    ops.removexattr = OnRemovexattr;
    return ops;
  }();
  return table;
}

}  // namespace paceline::fusefs
