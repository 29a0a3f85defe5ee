// One FUSE mount and the threads that serve it. libfuse3's low-level interface stays inside; a filesystem is an
// Operations. main() of a mount program makes one, calls Serve, and destroys it to unmount.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/fusefs/operations.h"

namespace paceline::fusefs {

struct MountOptions {
  std::string directory;            // must exist
  std::string source;               // first field of /proc/mounts
  std::string type = "paceline";    // "fuse.paceline" there
  bool allows_other_users = false;  // only root may, or whom /etc/fuse.conf lets
  bool kernel_checks_permission = true;
  bool is_read_only = false;
  int max_threads = 32;                 // requests served at once
  int max_idle_threads = 8;             // kept when there is nothing to do
  uint32_t read_ahead_bytes = 4 << 20;  // the kernel's own, per file read in sequence; needs root, else 128 KiB stay
};

// Told of each request after its answer: its name ("read"), how long it took, its errno. Called from serving threads.
using RequestObserver = std::function<void(std::string_view name, Duration took, int error)>;

// A mount's way to the kernel. As long as anybody holds the descriptor the mount lives, and requests wait for a process
// that serves them: so a mount outlives its server.
struct Connection {
  UniqueFd device;           // /dev/fuse
  std::string init_request;  // the kernel's first request, which comes once and which every server has to see
};

class Session {
 public:
  // Mounts. The kernel's requests wait until Serve runs. `operations`, `clock` and `observer` are used until the
  // session goes. kNotFound, kPermissionDenied, kUnavailable with what to do (no /dev/fuse, no right to mount).
  static Result<std::unique_ptr<Session>> Mount(const MountOptions& options, Operations& operations, const Clock& clock,
                                                RequestObserver observer);

  // Mounts, as Mount does, and leaves the first request unanswered: it is for Adopt, here and in later processes. Needs
  // root.
  static Result<Connection> Connect(const MountOptions& options);

  // Serves a mount that Connect made, perhaps in a process that has gone: what that one took and did not answer is
  // asked for again (Linux 6.9; before that its readers wait until the connection is aborted). Operations must need
  // nothing from earlier sessions: fixed inode numbers, no use of handles, the same limits. The session's end leaves
  // the mount.
  static Result<std::unique_ptr<Session>> Adopt(const MountOptions& options, Connection connection,
                                                Operations& operations, const Clock& clock, RequestObserver observer);

  // Unmounts, also while files are open: those give ENOTCONN from then on.
  virtual ~Session() = default;

  // Blocks until somebody unmounted, or until a stop is asked for and the requests in work have been answered. May be
  // called once.
  virtual Status Serve(std::stop_token stop) = 0;

  // The kernel forgets what it cached of an inode: pages and attributes. Waits for requests on that inode, so it must
  // not be called from Operations.
  virtual void Invalidate(uint64_t inode) = 0;

  // Puts bytes into the kernel's page cache of an inode: reading them through it asks nobody then, until the kernel
  // drops them. `offset_bytes` and the size are whole pages, within the file. kNotFound when the kernel does not know
  // the inode, kUnavailable for all else that keeps it from taking them. Waits for reads of those pages, so it must not
  // be called from Operations.
  virtual Status StorePages(uint64_t inode, uint64_t offset_bytes, std::string_view bytes) = 0;
};

}  // namespace paceline::fusefs
