#include "holder/server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "holder/process_host.h"
#include "holder/protocol.h"
#include "holder/supervisor.h"
#include "lib/base/filesystem.h"
#include "lib/base/local_socket.h"

namespace paceline::holder {
namespace {

constexpr Duration kClientLimit = std::chrono::seconds(5);

class Holder {
 public:
  Holder(const HolderConfig& config, const Clock& clock, Logger& log)
      : clock_(clock),
        log_(log),
        stops_mounts_(config.stop_mounts == "yes" || (config.stop_mounts == "auto" && getpid() == 1)),
        stop_limit_(config.stop_limit),
        processes_(LinuxProcessHost::Make()),
        supervisor_({.state_dir = config.state_dir,
                     .mount_root = config.mount_root,
                     .programs = config.programs,
                     .environment = config.environment,
                     .max_mounts = static_cast<size_t>(config.max_mounts),
                     .first_restart = config.first_restart,
                     .max_restart = config.max_restart,
                     .stop_limit = config.stop_limit},
                    files_, *processes_, clock, log) {}

  Status Run(const std::string& socket, std::stop_token stop) {
    const UniqueFd wakeup(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    const std::stop_callback wake(stop, [&wakeup] {
      const uint64_t one = 1;
      [[maybe_unused]] const ssize_t written = write(wakeup.get(), &one, sizeof one);  // full is readable too
    });
    const size_t slash = socket.rfind('/');
    RETURN_IF_ERROR(files_.MakeDirectories(socket.substr(0, slash), 0700));
    ASSIGN_OR_RETURN(UniqueFd listener, ListenLocal(socket));  // before anything is touched: one holder for one state
    RETURN_IF_ERROR(supervisor_.Recover());
    log_.Info("holder started", {{"socket", socket}});
    while (!stop.stop_requested()) Turn(listener.get(), wakeup.get());
    listener.Reset();
    unlink(socket.c_str());
    if (stops_mounts_) EndMounts();
    log_.Info("holder stopped", {{"mountsStay", supervisor_.has_processes()}});
    return Status();
  }

 private:
  // One wait and what it brought. Without a listener nobody is answered.
  void Turn(int listener, int wakeup) {
    const TimePoint next = supervisor_.Advance();
    std::vector<pollfd> fds = {{.fd = listener, .events = POLLIN, .revents = 0},
                               {.fd = wakeup, .events = POLLIN, .revents = 0}};
    processes_->AddPollFds(&fds);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - clock_.Now());
    poll(fds.data(), fds.size(), static_cast<int>(std::max<int64_t>(left.count(), 0)));
    supervisor_.Take(processes_->Gather());
    if (fds[0].revents != 0) Serve(listener);
  }

  void Serve(int listener) {
    Result<UniqueFd> client = AcceptLocal(listener);
    if (!client.ok()) return;
    const Result<uid_t> user = PeerUser(client->get());
    std::string answer;
    if (!user.ok() || *user != geteuid()) {
      log_.Warn("request of another user refused", {{"uid", user.ok() ? static_cast<int64_t>(*user) : -1}});
      answer = RenderFailure(PermissionDeniedError("the holder answers its own user only"));
    } else {
      const Deadline deadline = Deadline::After(clock_, kClientLimit);
      const Result<std::string> line = ReceiveLine(client->get(), kMaxRequestBytes, clock_, deadline);
      if (!line.ok() && line.status().code() == StatusCode::kDeadlineExceeded) return;
      const Result<Request> request = line.ok() ? ParseRequest(*line) : line.status();
      answer = request.ok() ? supervisor_.Handle(*request) : RenderFailure(request.status());
    }
    // A client that has gone asks again: everything it can ask for may be repeated.
    SendText(client->get(), answer + "\n", clock_, Deadline::After(clock_, kClientLimit)).IgnoreError();
  }

  // The container ends with us, and the processes with it: what they hold must be written out first.
  void EndMounts() {
    supervisor_.EndAll();
    const Deadline deadline = Deadline::After(clock_, stop_limit_);
    while (supervisor_.has_processes() && !deadline.Expired(clock_)) {
      std::vector<pollfd> fds;
      processes_->AddPollFds(&fds);
      constexpr int kLookAgainMs = 1000;
      poll(fds.data(), fds.size(), kLookAgainMs);
      supervisor_.Take(processes_->Gather());
    }
  }

  const Clock& clock_;
  Logger& log_;
  const bool stops_mounts_;
  const Duration stop_limit_;
  RealFileSystem files_;
  const std::unique_ptr<LinuxProcessHost> processes_;
  Supervisor supervisor_;
};

}  // namespace

Status RunHolder(const HolderConfig& config, const Clock& clock, Logger& log, std::stop_token stop) {
  Holder holder(config, clock, log);
  return holder.Run(config.socket, std::move(stop));
}

}  // namespace paceline::holder
