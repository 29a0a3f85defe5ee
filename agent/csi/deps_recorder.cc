#include "agent/csi/deps_recorder.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "lib/base/filesystem.h"
#include "lib/base/json.h"
#include "lib/base/log.h"
#include "lib/deps/recorder.h"
#include "lib/deps/tree_view.h"

namespace paceline::agent {
namespace {

constexpr size_t kMaxReportBytes = 4096;
constexpr size_t kMaxAnswerLine = 1000;
constexpr unsigned kAnswerMode = 0644;
constexpr int kLowestPriority = 19;

RecordingResult ResultOf(const Status& status) {
  if (status.code() == StatusCode::kInvalidArgument) return RecordingResult::kRefused;
  return status.code() == StatusCode::kAborted ? RecordingResult::kAborted : RecordingResult::kFailed;
}

std::map<std::string, std::string> RecorderOf(const InstallVolume& volume, const std::string& node) {
  return {{"namespace", volume.pod.ns},
          {"pod", volume.pod.name},
          {"serviceAccount", volume.fate.service_account},
          {"node", node}};
}

}  // namespace

Result<InstallReport> ParseInstallReport(std::string_view text) {
  ASSIGN_OR_RETURN(const Json json, ParseJson(text));
  InstallReport report;
  ASSIGN_OR_RETURN(report.how, JsonString(json, "how"));
  ASSIGN_OR_RETURN(report.key, JsonStringOr(json, "key", ""));
  ASSIGN_OR_RETURN(report.was_clean, JsonBoolOr(json, "clean", false));
  ASSIGN_OR_RETURN(report.seconds, JsonDoubleOr(json, "seconds", 0));
  return report;
}

DepsRecorder::DepsRecorder(DepsRecorderOptions options, VolumeHost& host, OnEnd on_end, const Clock& clock, Logger& log)
    : options_(std::move(options)), host_(host), on_end_(std::move(on_end)), clock_(clock), log_(log) {}

DepsRecorder::~DepsRecorder() {
  looker_.request_stop();
  if (looker_.joinable()) looker_.join();
  std::map<std::string, std::unique_ptr<Recording>> rest;
  {
    MutexLock lock(mutex_);
    rest.swap(recordings_);
  }
  for (const auto& [volume_id, recording] : rest) recording->thread.request_stop();
  rest.clear();
}

void DepsRecorder::Start() {
  looker_ = std::jthread([this](std::stop_token stop) {
    do {
      LookAround();
    } while (clock_.SleepFor(options_.look_period, stop));
  });
}

void DepsRecorder::Watch(const std::string& volume_id, const InstallVolume& volume) {
  MutexLock lock(mutex_);
  if (recordings_.count(volume_id) == 0) watched_.try_emplace(volume_id, volume);
}

void DepsRecorder::EndWatch(const std::string& volume_id) {
  std::optional<InstallVolume> volume;
  {
    MutexLock lock(mutex_);
    const auto found = watched_.find(volume_id);
    if (found != watched_.end()) volume = found->second;
  }
  if (volume) Look(volume_id, *volume);
  MutexLock lock(mutex_);
  watched_.erase(volume_id);
}

bool DepsRecorder::IsBusy(const std::string& volume_id) const {
  MutexLock lock(mutex_);
  const auto found = recordings_.find(volume_id);
  return found != recordings_.end() && !found->second->is_over;
}

void DepsRecorder::LookAround() {
  JoinEnded();
  std::map<std::string, InstallVolume> volumes;
  {
    MutexLock lock(mutex_);
    volumes = watched_;
  }
  for (const auto& [volume_id, volume] : volumes) Look(volume_id, volume);
}

void DepsRecorder::AwaitIdle() {
  MutexLock lock(mutex_);
  for (bool is_idle = false; !is_idle;) {
    is_idle = true;
    for (const auto& [volume_id, recording] : recordings_) is_idle = is_idle && recording->is_over;
    if (!is_idle) one_is_over_.Wait(lock);
  }
}

void DepsRecorder::JoinEnded() {
  std::vector<std::unique_ptr<Recording>> ended;  // joined without the lock
  MutexLock lock(mutex_);
  for (auto it = recordings_.begin(); it != recordings_.end();) {
    if (it->second->is_over) ended.push_back(std::move(it->second));
    it = it->second == nullptr ? recordings_.erase(it) : std::next(it);
  }
}

void DepsRecorder::Look(const std::string& volume_id, const InstallVolume& volume) {
  const std::string path = fmt::format("{}/{}/{}", volume.folder, kDepsControl, kDepsReport);
  const Result<std::string> text = host_.ReadFileStart(path, kMaxReportBytes);
  if (!text.ok()) return;  // not installed yet
  const Result<InstallReport> report = ParseInstallReport(*text);
  if (!report.ok() || report->how != "installed" || report->key != KeyOf(volume.order)) return;
  std::string why_not;
  if (!report->was_clean) {
    why_not = "the install began with something in the directories";
  } else if (HasStarted(volume)) {
    why_not = "the program had started before the files could be looked at";
  } else {
    why_not = Begin(volume_id, volume, *report);
  }
  {
    MutexLock lock(mutex_);
    watched_.erase(volume_id);
  }
  if (!why_not.empty()) End(volume_id, volume, {.why_not = why_not, .install_seconds = report->seconds});
}

std::string DepsRecorder::Begin(const std::string& volume_id, const InstallVolume& volume,
                                const InstallReport& report) {
  // Opened here: the folder may be moved as soon as this returns.
  const Result<deps::TreeView> view = deps::TreeView::Below(fmt::format("{}/{}", volume.folder, kDepsTree));
  if (!view.ok()) return view.status().message();
  MutexLock lock(mutex_);
  size_t running = 0;
  for (const auto& [id, recording] : recordings_) running += recording->is_over ? 0 : 1;
  if (running >= options_.most_at_once || recordings_.count(volume_id) > 0) {
    return "this node records others at the moment";
  }
  auto recording = std::make_unique<Recording>();
  Recording* const own = recording.get();
  own->thread = std::jthread([this, own, volume_id, volume, report, view = *view](const std::stop_token& stop) {
    Record(volume_id, volume, report, view, stop);
    MutexLock done(mutex_);
    own->is_over = true;
    one_is_over_.NotifyAll();
  });
  recordings_[volume_id] = std::move(recording);
  return "";
}

void DepsRecorder::Record(const std::string& volume_id, const InstallVolume& volume, const InstallReport& report,
                          const deps::TreeView& view, const std::stop_token& stop) const {
  // Of this thread, and so of those that it starts.
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kLowestPriority);
  deps::RecordRequest request;
  request.key = *volume.order.key;
  request.pinning = volume.order.pinning;
  request.ttl = volume.order.ttl;
  request.lease_folder = options_.lease_folder;
  request.convert.threads = options_.threads;
  request.recorded_by = RecorderOf(volume, options_.node);
  RecordingEnd end{.install_seconds = report.seconds};
  const TimePoint begin = clock_.Now();
  const auto run = [&]() -> Status {
    deps::InstalledTree tree;
    tree.view = view;
    tree.seconds = report.seconds;
    tree.max_files = options_.max_files;
    tree.on_scanned = [&]() -> Status {
      if (HasStarted(volume)) {
        return AbortedError("the program had started before the files could be looked at");
      }
      Answer(volume, "they are being recorded for the next start");
      return Status();
    };
    ASSIGN_OR_RETURN(request.trust, deps::LoadTrust(options_.trust, RealFileSystem()));
    ASSIGN_OR_RETURN(const std::unique_ptr<blocks::BlobStore> store, options_.open_for_writing());
    deps::RecordProgress progress;
    const deps::RecordOutcome outcome = deps::RecordInstalled(request, tree, *store, &progress, clock_, stop);
    RETURN_IF_ERROR(outcome.status);
    const deps::SnapshotRecord& record = outcome.report.snapshot.record;
    log_.Info(outcome.report.was_there ? "dependencies had been recorded meanwhile" : "dependencies recorded",
              {{"volume", volume_id},
               {"key", outcome.report.snapshot.manifest.key},
               {"digest", outcome.report.snapshot.descriptor.digest.ToString()},
               {"pod", volume.pod.ns + "/" + volume.pod.name},
               {"service_account", volume.fate.service_account},
               {"node", options_.node},
               {"signed_by", request.trust.signing ? request.trust.signing->id() : ""},
               {"files", record.files},
               {"bytes", record.bytes},
               {"stored_bytes", record.new_bytes},
               {"scan_seconds", outcome.report.scan_seconds},
               {"store_seconds", outcome.report.store_seconds}});
    end.result = outcome.report.was_there ? RecordingResult::kSuperfluous : RecordingResult::kRecorded;
    end.snapshot = FactsOf(outcome.report.snapshot);
    end.new_bytes = outcome.report.was_there ? 0 : record.new_bytes;
    if (!outcome.report.was_there) return Status();
    end.why_not = "another worker has recorded them";
    Answer(volume, end.why_not);
    return Status();
  };
  const Status status = run();
  end.seconds = ToSeconds(clock_.Now() - begin);
  if (status.ok()) return on_end_(volume_id, volume, end);
  end.result = ResultOf(status);
  end.why_not = status.message();
  End(volume_id, volume, end);
}

void DepsRecorder::End(const std::string& volume_id, const InstallVolume& volume, const RecordingEnd& end) const {
  log_.Warn("dependencies not recorded", {{"volume", volume_id}, {"key", KeyOf(volume.order)}, {"error", end.why_not}});
  Answer(volume, "not recorded: " + end.why_not);
  on_end_(volume_id, volume, end);
}

// For the wrapper, which goes on, and for people in its log. The folder may be gone with the pod.
void DepsRecorder::Answer(const InstallVolume& volume, const std::string& text) const {
  std::string line = text.substr(0, kMaxAnswerLine);
  for (char& c : line) c = static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  host_.WriteFile(fmt::format("{}/{}/{}", volume.folder, kDepsControl, kDepsAnswer), line + "\n", kAnswerMode)
      .IgnoreError();
}

bool DepsRecorder::HasStarted(const InstallVolume& volume) const {
  const std::string path = fmt::format("{}/{}/{}", volume.folder, kDepsControl, kDepsStarted);
  return host_.ReadFileStart(path, 1).ok();
}

}  // namespace paceline::agent
