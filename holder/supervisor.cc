#include "holder/supervisor.h"

#include <fmt/format.h>
#include <csignal>

#include <algorithm>

namespace paceline::holder {
namespace {

constexpr size_t kMaxEnded = 64;
constexpr size_t kMaxRecordBytes = 2 << 20;
constexpr Duration kMountPoll = std::chrono::milliseconds(50);
constexpr Duration kIdle = std::chrono::minutes(1);
constexpr Duration kStableAfter = std::chrono::minutes(2);  // a process that lived so long did not die of its start

void Replace(std::string& text, std::string_view what, std::string_view with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size()) {
    text.replace(at, what.size(), with);
  }
}

std::string FileNameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

Supervisor::Supervisor(Options options, FileSystem& files, ProcessHost& processes, const Clock& clock, Logger& log)
    : options_(std::move(options)), files_(files), processes_(processes), clock_(clock), log_(log) {}

Status Supervisor::Recover() {
  RETURN_IF_ERROR(files_.MakeDirectories(options_.state_dir + "/mounts", 0700));
  RETURN_IF_ERROR(files_.MakeDirectories(options_.mount_root, 0750));
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.List(options_.state_dir + "/mounts"));
  for (const std::string& name : names) {
    if (IsMountName(name)) RecoverMount(name);
  }
  log_.Info("mounts of an earlier holder looked through", {{"mounts", mounts_.size()}});
  return Status();
}

void Supervisor::RecoverMount(const std::string& name) {
  const Result<std::string> text = files_.ReadFile(FolderOf(name) + "/record.json", kMaxRecordBytes);
  if (text.status().code() == StatusCode::kNotFound) return RemoveFolder(name);  // cut off before anything ran
  Result<MountRecord> record = text.ok() ? ParseRecord(*text) : text.status();
  if (record.ok() && record->spec.name != name) record = DataLossError("mount record: its name is another one");
  if (!record.ok()) {
    log_.Error("record set aside", {{"mount", name}, {"error", record.status()}});
    files_.Rename(FolderOf(name), FolderOf(name) + ".damaged").IgnoreError();  // an older one is there: read again then
    return;
  }
  Mount& mount = mounts_[name];
  mount.record = *std::move(record);
  const ProcessId process{mount.record.pid, mount.record.start_ticks};
  const bool is_alive = processes_.Adopt(name, process, FolderOf(name) + "/log");
  if (!is_alive) mount.record.pid = 0;
  log_.Info("mount taken up", {{"mount", name}, {"owner", mount.record.spec.owner}, {"running", is_alive}});
  if (mount.record.is_stopping) {
    mount.state = MountState::kStopping;
    mount.kill_at = clock_.Now() + options_.stop_limit;
    if (is_alive) processes_.Signal(process.pid, SIGTERM);
    if (!is_alive) Finish(name);
  } else if (is_alive) {
    mount.state = MountState::kStarting;  // the next look sees whether it has mounted
  } else {
    // Its process went with the holder, not by itself: no wait.
    mount.last_exit = ExitReport{clock_.WallNow(), "ended with the holder"};
    if (mount.record.has_mounted) ++mount.record.restarts;
    mount.state = MountState::kBackingOff;
    mount.next_start = clock_.Now();
  }
}

std::string Supervisor::Handle(const Request& request) {
  const std::string& name = request.mount.name;
  if (request.command == Command::kList) {
    std::vector<MountView> views;
    for (const auto& [key, mount] : mounts_) views.push_back(ViewOf(mount));
    return RenderMounts(views);
  }
  if (request.command == Command::kStart) {
    const Result<MountView> view = Start(request);
    if (view.ok()) return RenderMount(*view);
    log_.Warn("start refused", {{"mount", name}, {"error", view.status()}});
    return RenderFailure(view.status());
  }
  const auto view = request.command == Command::kStop ? Stop(name) : Look(name);
  return view.ok() ? RenderMount(*view) : RenderFailure(view.status());
}

Status Supervisor::CheckOrder(const MountSpec& spec) const {
  const bool is_known = std::any_of(options_.programs.begin(), options_.programs.end(),
                                    [&](const std::string& path) { return FileNameOf(path) == spec.program; });
  if (!is_known) return PermissionDeniedError(fmt::format("program \"{}\" is not one that may run", spec.program));
  for (const auto& [variable, value] : spec.environment) {
    const auto& allowed = options_.environment;
    if (std::find(allowed.begin(), allowed.end(), variable) == allowed.end()) {
      return PermissionDeniedError(fmt::format("variable {} is not one that may be set", variable));
    }
  }
  return Status();
}

Result<MountView> Supervisor::Start(const Request& request) {
  const MountSpec& spec = request.mount;
  RETURN_IF_ERROR(CheckOrder(spec));
  if (is_ending_) return UnavailableError("the holder is being stopped");
  const auto found = mounts_.find(spec.name);
  if (found == mounts_.end()) {
    if (mounts_.size() >= options_.max_mounts) {
      return ResourceExhaustedError(fmt::format("{} mounts are there already (maxMounts)", mounts_.size()));
    }
    RETURN_IF_ERROR(WriteFiles(request));
    Mount& mount = mounts_[spec.name];
    mount.record.spec = spec;
    const Status launched = Launch(mount);
    if (launched.ok()) return ViewOf(mount);
    mounts_.erase(spec.name);
    RemoveFolder(spec.name);
    return launched;
  }
  Mount& mount = found->second;
  if (mount.state == MountState::kStopping) return AbortedError("mount " + spec.name + " is still being stopped");
  const bool may_change = mount.state == MountState::kFailed;
  if (!may_change && !mount.record.spec.RunsAs(spec)) {
    return AlreadyExistsError("mount " + spec.name + " runs with other settings");
  }
  RETURN_IF_ERROR(WriteFiles(request));
  mount.record.spec = spec;
  if (mount.state == MountState::kFailed) {
    RETURN_IF_ERROR(Launch(mount));
  } else {
    RETURN_IF_ERROR(Save(mount));
  }
  return ViewOf(mount);
}

Status Supervisor::WriteFiles(const Request& request) {
  const std::string folder = FolderOf(request.mount.name);
  RETURN_IF_ERROR(files_.MakeDirectories(folder, 0700));
  RETURN_IF_ERROR(files_.MakeDirectories(folder + "/files", 0700));
  if (!request.files) return Status();
  for (const auto& [name, bytes] : *request.files) {
    RETURN_IF_ERROR(files_.WriteFileAtomically(folder + "/files/" + name, bytes, 0600));
  }
  return Status();
}

std::string Supervisor::FillIn(const std::string& text, const std::string& name) const {
  std::string filled = text;
  Replace(filled, "{mountPoint}", MountPointOf(name));
  Replace(filled, "{control}", FolderOf(name) + "/control.sock");
  Replace(filled, "{files}", FolderOf(name) + "/files");
  return filled;
}

Status Supervisor::Launch(Mount& mount) {
  const MountSpec& spec = mount.record.spec;
  const std::string mount_point = MountPointOf(spec.name);
  // What a dead process left there answers every call with an error, also that of the next mount.
  RETURN_IF_ERROR(processes_.Unmount(mount_point));
  RETURN_IF_ERROR(files_.MakeDirectories(mount_point, 0750));
  SpawnOrder order{.name = spec.name, .program = {}, .arguments = {}, .environment = {}, .log_pipe = {}};
  for (const std::string& path : options_.programs) {
    if (FileNameOf(path) == spec.program) order.program = path;
  }
  for (const std::string& argument : spec.arguments) order.arguments.push_back(FillIn(argument, spec.name));
  for (const auto& [variable, value] : spec.environment) order.environment[variable] = FillIn(value, spec.name);
  order.log_pipe = FolderOf(spec.name) + "/log";
  ASSIGN_OR_RETURN(const ProcessId process, processes_.Spawn(order));
  mount.record.pid = process.pid;
  mount.record.start_ticks = process.start_ticks;
  mount.record.started_at = clock_.WallNow();
  mount.state = MountState::kStarting;
  log_.Info("mount process started", {{"mount", spec.name}, {"owner", spec.owner}, {"pid", process.pid}});
  const Status saved = Save(mount);
  if (saved.ok()) return saved;
  // Unrecorded it would run for ever after our end.
  processes_.Signal(process.pid, SIGKILL);
  processes_.Release(spec.name, process.pid);
  mount.record.pid = 0;
  return saved;
}

Status Supervisor::Save(const Mount& mount) {
  return files_.WriteFileAtomically(FolderOf(mount.record.spec.name) + "/record.json", RenderRecord(mount.record),
                                    0600);
}

Result<std::optional<MountView>> Supervisor::Stop(const std::string& name) {
  const auto found = mounts_.find(name);
  if (found == mounts_.end()) return std::optional<MountView>();
  Mount& mount = found->second;
  if (mount.state != MountState::kStopping) {
    mount.record.is_stopping = true;
    RETURN_IF_ERROR(Save(mount));
    mount.state = MountState::kStopping;
    mount.kill_at = clock_.Now() + options_.stop_limit;
    if (mount.record.pid != 0) processes_.Signal(mount.record.pid, SIGTERM);
  }
  if (mount.record.pid == 0) Finish(name);
  return Look(name);
}

Result<std::optional<MountView>> Supervisor::Look(const std::string& name) const {
  const auto found = mounts_.find(name);
  if (found != mounts_.end()) return std::optional(ViewOf(found->second));
  for (auto view = ended_.rbegin(); view != ended_.rend(); ++view) {
    if (view->name == name) return std::optional(*view);
  }
  return std::optional<MountView>();
}

void Supervisor::Take(const ProcessNews& news) {
  for (const auto& [name, line] : news.output) {
    log_.Info("mount says", {{"mount", name}, {"line", line}});
    const auto found = mounts_.find(name);
    if (found == mounts_.end()) continue;
    found->second.log.push_back(line);
    if (found->second.log.size() > kMaxLogLines) found->second.log.pop_front();
  }
  for (const auto& [pid, how] : news.exits) {
    const auto found = std::find_if(mounts_.begin(), mounts_.end(),
                                    [pid = pid](const auto& entry) { return entry.second.record.pid == pid; });
    if (found != mounts_.end()) Ended(found->second, how);
  }
}

void Supervisor::Ended(Mount& mount, const std::string& how) {
  const std::string name = mount.record.spec.name;
  processes_.Release(name, mount.record.pid);
  mount.record.pid = 0;
  mount.last_exit = ExitReport{clock_.WallNow(), how};
  if (mount.state == MountState::kStopping) {
    log_.Info("mount process ended", {{"mount", name}, {"exit", how}});
    return Finish(name);
  }
  if (is_ending_) return;  // its record says that it is wanted
  log_.Error("mount process died", {{"mount", name}, {"exit", how}, {"owner", mount.record.spec.owner}});
  if (!mount.record.has_mounted && !processes_.IsMounted(MountPointOf(name))) {
    mount.state = MountState::kFailed;
  } else {
    mount.record.has_mounted = true;  // it died before we looked
    ++mount.record.restarts;
    BackOff(mount);
  }
  // If this fails the next holder knows a pid that is gone, and so does the same.
  Save(mount).IgnoreError();
}

void Supervisor::BackOff(Mount& mount) {
  const bool was_stable = mount.state == MountState::kMounted && clock_.Now() - mount.mounted_at > kStableAfter;
  if (was_stable) mount.failures = 0;
  constexpr int kMaxDoublings = 20;
  const Duration wait = options_.first_restart * (1LL << std::min(mount.failures, kMaxDoublings));
  ++mount.failures;
  mount.state = MountState::kBackingOff;
  mount.next_start = clock_.Now() + std::min(wait, options_.max_restart);
}

void Supervisor::Finish(const std::string& name) {
  const auto found = mounts_.find(name);
  MountView view = ViewOf(found->second);
  view.state = MountState::kEnded;
  mounts_.erase(found);
  const Status unmounted = processes_.Unmount(MountPointOf(name));
  if (!unmounted.ok()) log_.Warn("mount point left behind", {{"mount", name}, {"error", unmounted}});
  // Never more than an empty folder: with something mounted there the call fails.
  files_.Remove(MountPointOf(name)).IgnoreError();
  RemoveFolder(name);
  ended_.push_back(std::move(view));
  if (ended_.size() > kMaxEnded) ended_.pop_front();
}

void Supervisor::RemoveFolder(const std::string& name) {
  const std::string folder = FolderOf(name);
  const std::string inner = folder + "/files";
  for (const std::string& file : files_.List(inner).value_or({})) files_.Remove(inner + "/" + file).IgnoreError();
  files_.Remove(inner).IgnoreError();
  // The record goes first: without it a folder is one that was never started.
  files_.Remove(folder + "/record.json").IgnoreError();
  for (const std::string& file : files_.List(folder).value_or({})) files_.Remove(folder + "/" + file).IgnoreError();
  const Status removed = files_.Remove(folder);
  if (!removed.ok() && removed.code() != StatusCode::kNotFound) {
    log_.Warn("folder of a mount left behind", {{"mount", name}, {"error", removed}});
  }
}

TimePoint Supervisor::Advance() {
  TimePoint next = clock_.Now() + kIdle;
  for (auto& [name, mount] : mounts_) next = std::min(next, AdvanceMount(mount));
  return next;
}

TimePoint Supervisor::AdvanceMount(Mount& mount) {
  const TimePoint now = clock_.Now();
  const std::string& name = mount.record.spec.name;
  if (mount.state == MountState::kStarting) {
    if (!processes_.IsMounted(MountPointOf(name))) return now + kMountPoll;
    mount.state = MountState::kMounted;
    mount.mounted_at = now;
    mount.record.has_mounted = true;
    const Status saved = Save(mount);
    if (!saved.ok()) log_.Warn("record not written", {{"mount", name}, {"error", saved}});
  } else if (mount.state == MountState::kBackingOff && !is_ending_) {
    if (now < mount.next_start) return mount.next_start;
    const Status launched = Launch(mount);
    if (launched.ok()) return now + kMountPoll;
    log_.Error("mount process cannot be started, retrying", {{"mount", name}, {"error", launched}});
    BackOff(mount);
    return mount.next_start;
  } else if (mount.state == MountState::kStopping && mount.record.pid != 0) {
    if (now < mount.kill_at) return mount.kill_at;
    log_.Error("mount process did not end, killing it", {{"mount", name}, {"pid", mount.record.pid}});
    processes_.Signal(mount.record.pid, SIGKILL);
    mount.kill_at = now + kIdle;
  }
  return now + kIdle;
}

void Supervisor::EndAll() {
  is_ending_ = true;
  for (const auto& [name, mount] : mounts_) {
    if (mount.record.pid != 0) processes_.Signal(mount.record.pid, SIGTERM);
  }
}

bool Supervisor::has_processes() const {
  return std::any_of(mounts_.begin(), mounts_.end(), [](const auto& entry) { return entry.second.record.pid != 0; });
}

MountView Supervisor::ViewOf(const Mount& mount) const {
  MountView view;
  view.name = mount.record.spec.name;
  view.owner = mount.record.spec.owner;
  view.state = mount.state;
  view.mount_point = MountPointOf(view.name);
  view.control_socket = FolderOf(view.name) + "/control.sock";
  if (mount.record.pid != 0) view.pid = mount.record.pid;
  view.started_at = mount.record.started_at;
  view.restarts = mount.record.restarts;
  view.last_exit = mount.last_exit;
  view.log.assign(mount.log.begin(), mount.log.end());
  return view;
}

}  // namespace paceline::holder
