#include "lib/fusefs/session.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <list>
#include <sstream>
#include <thread>
#include <vector>

#include "lib/base/mutex.h"
#include "lib/base/unique_fd.h"
#include "lib/fusefs/request_table.h"

namespace paceline::fusefs {
namespace {

// Interrupts a thread's read of the FUSE device. It has no other use: its handler does nothing.
constexpr int kWakeSignal = SIGUSR2;

void InstallWakeHandler() {
  struct sigaction action = {};
  action.sa_handler = [](int) {};
  sigemptyset(&action.sa_mask);
  sigaction(kWakeSignal, &action, nullptr);  // without SA_RESTART: the read must end
}

// "0:57" of the mount at `directory`, from /proc/self/mountinfo. Asking the mount itself would wait for Serve.
std::string DeviceOf(const std::string& directory) {
  std::ifstream table("/proc/self/mountinfo");
  std::string line, device;
  while (std::getline(table, line)) {
    std::istringstream fields(line);
    std::string id, parent, numbers, root, mount;
    fields >> id >> parent >> numbers >> root >> mount;
    if (mount == directory) device = numbers;  // the last one is on top
  }
  return device;
}

// Best effort: where the right is missing, reads come in pieces of 128 KiB and all else is the same.
void RaiseReadAhead(const std::string& directory, uint32_t bytes) {
  const std::string device = DeviceOf(directory);
  if (device.empty()) return;
  std::ofstream setting("/sys/class/bdi/" + device + "/read_ahead_kb");
  setting << bytes / 1024;
}

std::string RealPath(const std::string& directory) {
  char* resolved = realpath(directory.c_str(), nullptr);
  std::string path = resolved == nullptr ? directory : resolved;
  std::free(resolved);
  return path;
}

std::string MountText(const MountOptions& options) {
  // A comma would end the option early; libfuse takes it with a backslash.
  std::string source;
  for (const char c : options.source) {
    if (c == ',' || c == '\\') source.push_back('\\');
    source.push_back(c);
  }
  std::string text = fmt::format("fsname={},subtype={},max_read={}", source, options.type, 1 << 20);
  if (options.allows_other_users) text += ",allow_other";
  if (options.kernel_checks_permission) text += ",default_permissions";
  if (options.is_read_only) text += ",ro";
  return text;
}

// What the kernel wants a reader of the device to have room for.
constexpr size_t kRequestBytes = (1 << 20) + 4096;
// Of <linux/fuse.h> from 6.9 on: puts requests that were read and not answered back in line.
constexpr int32_t kNotifyResend = 7;

// For mount(2) itself, which knows neither names nor flags of libfuse's options.
std::string KernelMountText(const MountOptions& options, int device) {
  std::string text =
      fmt::format("fd={},rootmode=40000,user_id={},group_id={},max_read={}", device, geteuid(), getegid(), 1 << 20);
  if (options.allows_other_users) text += ",allow_other";
  if (options.kernel_checks_permission) text += ",default_permissions";
  return text;
}

class LibfuseSession final : public Session {
 public:
  LibfuseSession(const MountOptions& options, Operations& operations, const Clock& clock, RequestObserver observer)
      : options_(options),
        clock_(clock),
        observer_(std::move(observer)),
        context_{operations, clock, observer_, options.read_ahead_bytes} {}

  ~LibfuseSession() override {
    if (session_ == nullptr) return;
    if (is_mounted_) fuse_session_unmount(session_);
    fuse_session_destroy(session_);
  }

  Status Start() {
    RETURN_IF_ERROR(MakeSession());
    if (fuse_session_mount(session_, options_.directory.c_str()) != 0) {
      return UnavailableError(fmt::format("cannot mount on {}: {}", options_.directory, WhyNot()));
    }
    is_mounted_ = true;
    RaiseReadAhead(options_.directory, options_.read_ahead_bytes);
    return Status();
  }

  Status Start(Connection connection) {
    RETURN_IF_ERROR(MakeSession());
    fuse_custom_io io = {};
    io.read = [](int fd, void* buffer, size_t bytes, void*) { return read(fd, buffer, bytes); };
    io.writev = [](int fd, iovec* parts, int count, void*) { return writev(fd, parts, count); };
    const int device = connection.device.get();
    if (fuse_session_custom_io(session_, &io, device) != 0) return InternalError("libfuse refuses the descriptor");
    // libfuse closes it from now on.
    [[maybe_unused]] const int owned = connection.device.Release();
    // The answer settles what both sides may do. A kernel that had it from an earlier server takes no second one, which
    // does no harm; libfuse has to give it all the same before it answers anything else.
    std::string request = connection.init_request;
    fuse_buf buffer = {};
    buffer.mem = request.data();
    buffer.size = request.size();
    fuse_session_process_buf(session_, &buffer);
    const fuse_out_header resend = {.len = sizeof(fuse_out_header), .error = kNotifyResend, .unique = 0};
    if (write(device, &resend, sizeof resend) < 0 && errno == ENODEV) {
      return UnavailableError("the connection of " + options_.directory + " was ended");
    }
    RaiseReadAhead(options_.directory, options_.read_ahead_bytes);
    return Status();
  }

  Status MakeSession() {
    const std::string text = MountText(options_);
    std::vector<std::string> words = {"paceline", "-o", text};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    fuse_args args = FUSE_ARGS_INIT(static_cast<int>(argv.size()), argv.data());
    session_ = fuse_session_new(&args, &RequestTable(), sizeof(fuse_lowlevel_ops), &context_);
    fuse_opt_free_args(&args);
    return session_ == nullptr ? InternalError("libfuse refuses the mount options " + text) : Status();
  }

  Status Serve(std::stop_token stop) override {
    InstallWakeHandler();
    {
      MutexLock lock(mutex_);
      StartThread();
    }
    const std::stop_callback on_stop(stop, [this] {
      fuse_session_exit(session_);
      MutexLock lock(mutex_);
      changed_.NotifyAll();
    });
    JoinAll(stop);
    return Status();
  }

  void Invalidate(uint64_t inode) override {
    // ENOENT when the kernel does not know it any more, which is what was asked for.
    fuse_lowlevel_notify_inval_inode(session_, inode, 0, 0);
  }

  Status StorePages(uint64_t inode, uint64_t offset_bytes, std::string_view bytes) override {
    fuse_bufvec buffer = FUSE_BUFVEC_INIT(bytes.size());
    buffer.buf[0].mem = const_cast<char*>(bytes.data());  // libfuse only reads it
    const int result = fuse_lowlevel_notify_store(session_, inode, static_cast<off_t>(offset_bytes), &buffer,
                                                  static_cast<fuse_buf_copy_flags>(0));
    if (result == 0) return Status();
    if (result == -ENOENT) return NotFoundError("the kernel does not know the inode");
    return UnavailableError(fmt::format("the kernel takes no pages: {}", strerror(-result)));
  }

 private:
  std::string WhyNot() const {
    if (access("/dev/fuse", F_OK) != 0) return "there is no /dev/fuse (modprobe fuse; in a pod it must be passed in)";
    if (access("/dev/fuse", R_OK | W_OK) != 0) return "no right to open /dev/fuse";
    return "the kernel or fusermount3 refused, see the line above; root can mount, others need fusermount3";
  }

  void StartThread() REQUIRES(mutex_) {
    // An ended thread keeps its stack until somebody joins it. These have nothing left to do but return.
    for (std::thread& worker : ended_) worker.join();
    ended_.clear();
    ++threads_;
    ++idle_;
    workers_.emplace_back([this] { Work(); });
  }

  // Waits for the threads. Those that sit in read(2) when the end is asked for are woken until they are gone, since a
  // signal that comes just before the call is lost.
  void JoinAll(const std::stop_token& stop) {
    std::list<std::thread> finished;
    {
      MutexLock lock(mutex_);
      while (threads_ > 0) {
        if (stop.stop_requested() || fuse_session_exited(session_)) {
          for (std::thread& worker : workers_) pthread_kill(worker.native_handle(), kWakeSignal);
          changed_.WaitUntil(lock, clock_, clock_.Now() + std::chrono::milliseconds(20));
        } else {
          changed_.WaitUntil(lock, clock_, clock_.Now() + std::chrono::seconds(1));
        }
      }
      finished.swap(ended_);
    }
    for (std::thread& worker : finished) worker.join();
  }

  // One more thread whenever none is left to read, as far as the limit goes; threads beyond the idle limit end.
  void TakeWork() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    --idle_;
    if (idle_ == 0 && threads_ < options_.max_threads && !fuse_session_exited(session_)) StartThread();
  }

  bool BecomeIdle() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (idle_ >= options_.max_idle_threads) return false;
    ++idle_;
    return true;
  }

  void Work() {
    fuse_buf buffer = {};
    bool is_idle = true;
    while (!fuse_session_exited(session_)) {
      const int got = fuse_session_receive_buf(session_, &buffer);
      if (got == -EINTR || got == -EAGAIN) continue;
      if (got <= 0) break;  // unmounted, or the end was asked for
      TakeWork();
      is_idle = false;
      fuse_session_process_buf(session_, &buffer);
      if (!BecomeIdle()) break;
      is_idle = true;
    }
    std::free(buffer.mem);
    MutexLock lock(mutex_);
    if (is_idle) --idle_;
    --threads_;
    for (auto own = workers_.begin(); own != workers_.end(); ++own) {
      if (own->get_id() != std::this_thread::get_id()) continue;
      ended_.splice(ended_.end(), workers_, own);
      break;
    }
    changed_.NotifyAll();
  }

  const MountOptions options_;
  const Clock& clock_;
  const RequestObserver observer_;
  RequestContext context_;
  fuse_session* session_ = nullptr;
  bool is_mounted_ = false;

  Mutex mutex_;
  CondVar changed_;
  int threads_ GUARDED_BY(mutex_) = 0;
  int idle_ GUARDED_BY(mutex_) = 0;
  std::list<std::thread> workers_ GUARDED_BY(mutex_);
  std::list<std::thread> ended_ GUARDED_BY(mutex_);  // about to return, not yet joined
};

}  // namespace

Result<std::unique_ptr<Session>> Session::Mount(const MountOptions& options, Operations& operations, const Clock& clock,
                                                RequestObserver observer) {
  struct stat st;
  if (stat(options.directory.c_str(), &st) != 0) {
    const int error = errno;
    const Status status = ErrnoStatus(error, "mount on " + options.directory);
    if (error != ENOTCONN) return status;
    return status.Annotate("a mount whose server has died is still there (umount -l it)");
  }
  if (!S_ISDIR(st.st_mode)) return InvalidArgumentError("mount on " + options.directory + ": not a directory");
  MountOptions resolved = options;
  resolved.directory = RealPath(options.directory);
  auto session = std::make_unique<LibfuseSession>(resolved, operations, clock, std::move(observer));
  RETURN_IF_ERROR(session->Start());
  return std::unique_ptr<Session>(std::move(session));
}

Result<Connection> Session::Connect(const MountOptions& options) {
  Connection connection;
  connection.device = UniqueFd(open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (!connection.device.is_valid()) return ErrnoStatus(errno, "open /dev/fuse");
  const unsigned long flags = MS_NOSUID | MS_NODEV | (options.is_read_only ? MS_RDONLY : 0);
  const std::string type = "fuse." + options.type;
  const std::string text = KernelMountText(options, connection.device.get());
  if (mount(options.source.c_str(), options.directory.c_str(), type.c_str(), flags, text.c_str()) != 0) {
    return ErrnoStatus(errno, "mount on " + options.directory);
  }
  connection.init_request.resize(kRequestBytes);
  ssize_t got;
  do {
    got = read(connection.device.get(), connection.init_request.data(), kRequestBytes);
  } while (got < 0 && errno == EINTR);
  if (got < static_cast<ssize_t>(sizeof(fuse_in_header))) {
    const int error = got < 0 ? errno : EIO;
    umount2(options.directory.c_str(), MNT_DETACH);
    return ErrnoStatus(error, "first request of the mount on " + options.directory);
  }
  connection.init_request.resize(static_cast<size_t>(got));
  return connection;
}

Result<std::unique_ptr<Session>> Session::Adopt(const MountOptions& options, Connection connection,
                                                Operations& operations, const Clock& clock, RequestObserver observer) {
  auto session = std::make_unique<LibfuseSession>(options, operations, clock, std::move(observer));
  RETURN_IF_ERROR(session->Start(std::move(connection)));
  return std::unique_ptr<Session>(std::move(session));
}

}  // namespace paceline::fusefs
