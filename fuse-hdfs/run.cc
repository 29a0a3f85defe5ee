#include "fuse-hdfs/run.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "fuse-hdfs/control_server.h"
#include "fuse-hdfs/mount_metrics.h"
#include "lib/base/json.h"
#include "lib/base/version.h"
#include "lib/fusefs/session.h"

namespace paceline::fuse_hdfs {
namespace {

MountTotals TotalsOf(const MountFileSystem& mount) {
  const MountStats& stats = mount.stats();
  const Prefetcher::Stats prefetch = mount.prefetch_stats();
  MountTotals totals;
  totals.read_bytes = stats.read_bytes.load();
  totals.written_bytes = stats.written_bytes.load();
  totals.commits = stats.commits.load();
  totals.failed_commits = stats.failed_commits.load();
  totals.prefetched_bytes = prefetch.asked_bytes;
  totals.prefetched_files_opened = prefetch.claimed_files;
  totals.cache_hits = stats.status_hits.load();
  totals.cache_misses = stats.status_misses.load();
  totals.open_handles = stats.open_handles.load();
  totals.unsent_bytes = mount.held_bytes();
  totals.known_inodes = mount.known_nodes();
  totals.cached_paths = mount.cached_statuses();
  return totals;
}

std::string StatsText(const MountConfig& config, const MountFileSystem& mount) {
  const MountStats& stats = mount.stats();
  const Prefetcher::Stats prefetch = mount.prefetch_stats();
  nlohmann::json value = {{"uri", config.uri},
                          {"directory", config.directory},
                          {"version", Version()},
                          {"readBytes", stats.read_bytes.load()},
                          {"writtenBytes", stats.written_bytes.load()},
                          {"unsentBytes", mount.held_bytes()},
                          {"commits", stats.commits.load()},
                          {"failedCommits", stats.failed_commits.load()},
                          {"openHandles", stats.open_handles.load()},
                          {"knownInodes", mount.known_nodes()},
                          {"cachedPaths", mount.cached_statuses()},
                          {"cacheHits", stats.status_hits.load()},
                          {"cacheMisses", stats.status_misses.load()},
                          {"prefetch",
                           {{"files", prefetch.files},
                            {"bytes", prefetch.asked_bytes},
                            {"openedFiles", prefetch.claimed_files},
                            {"expiredFiles", prefetch.expired_files}}}};
  if (const std::optional<StartRead::Span> start = stats.start_read.span()) {
    value["firstReadAt"] = FormatRfc3339Micro(start->first);
    value["startReadEndAt"] = FormatRfc3339Micro(start->last);
  }
  return DumpJsonPretty(value) + "\n";
}

struct Parts {
  const MountConfig& config;
  const Clock& clock;
  Logger& log;
  MountFileSystem& mount;
  fusefs::Session& session;
  MountMetrics& metrics;
};

// A path may have blanks, at which the line was split.
std::string PrefetchText(const Parts& parts, const std::vector<std::string>& words) {
  std::string path = words[1];
  for (size_t i = 2; i < words.size(); ++i) path += " " + words[i];
  const Result<Prefetcher::Plan> plan = parts.mount.Prefetch(PathBelowMount(parts.config, path));
  if (!plan.ok()) return "error: " + plan.status().ToString() + "\n";
  return fmt::format("files={} bytes={}\n", plan->files, plan->bytes);
}

std::string Control(const Parts& parts, const std::vector<std::string>& words) {
  const std::string& command = words.front();
  if (command == "stats") return StatsText(parts.config, parts.mount);
  if (command == "metrics") return parts.metrics.Render();
  if (command == "flush") {
    const Status status = parts.mount.FlushAll(Deadline::After(parts.clock, parts.config.commit_limit));
    return status.ok() ? "ok\n" : "error: " + status.ToString() + "\n";
  }
  if (command == "drop-caches") {
    parts.mount.DropCaches();
    for (const uint64_t inode : parts.mount.Inodes()) parts.session.Invalidate(inode);
    return "ok\n";
  }
  if (command == "prefetch" && words.size() > 1) return PrefetchText(parts, words);
  if (command == "log-level" && words.size() == 2) {
    LogLevel level = LogLevel::kInfo;
    const Status status = ParseLogLevel(words[1], &level);
    if (!status.ok()) return "error: " + status.message() + "\n";
    parts.log.SetLevel(level);
    return "ok\n";
  }
  return "error: unknown command; there are stats, metrics, flush, drop-caches, prefetch PATH, log-level LEVEL\n";
}

void PrefetchFirst(const MountConfig& config, MountFileSystem& mount, Logger& log) {
  for (const std::string& path : PrefetchPathsOf(config)) {
    const Result<Prefetcher::Plan> plan = mount.Prefetch(path);
    if (plan.ok()) {
      log.Info("loading ahead", {{"path", path}, {"files", plan->files}, {"bytes", plan->bytes}});
    } else {
      log.Warn("cannot load ahead", {{"path", path}, {"error", plan.status()}});
    }
  }
}

Status CheckRoot(hdfs::FileSystem& fs, const MountConfig& config, const std::string& path, const Clock& clock) {
  const Deadline deadline = Deadline::After(clock, config.metadata_limit);
  Result<hdfs::FileStatus> root = fs.Stat(path, deadline);
  if (root.status().code() == StatusCode::kNotFound && config.creates_directory) {
    // Every node of a job may be here at once; to be second is fine.
    const Status made = fs.Mkdirs(path, 0755, hdfs::MkdirsMode::kMakeParents, deadline);
    if (!made.ok()) return made.Annotate(config.uri);
    root = fs.Stat(path, deadline);
  }
  if (!root.ok()) return root.status().Annotate(config.uri);
  if (root->type != hdfs::FileStatus::Type::kDirectory) return InvalidArgumentError(config.uri + ": not a directory");
  return Status();
}

}  // namespace

Status RunMount(const MountConfig& config, const Clock& clock, Logger& log, std::stop_token stop,
                const std::function<Status()>& on_mounted) {
  ASSIGN_OR_RETURN(const hdfs::Location location, LocationOf(config));
  ASSIGN_OR_RETURN(const hdfs::FileSystemOptions options, FileSystemOptionsOf(config, location));
  ASSIGN_OR_RETURN(const std::unique_ptr<hdfs::FileSystem> fs, hdfs::OpenFileSystem(location, options, clock));
  RETURN_IF_ERROR(CheckRoot(*fs, config, location.path, clock));

  MountFileSystem mount(*fs, clock, log, RulesOf(config, location, options.config));
  MountMetrics metrics([&mount] { return TotalsOf(mount); });
  ASSIGN_OR_RETURN(const std::unique_ptr<fusefs::Session> session,
                   fusefs::Session::Mount(MountOptionsOf(config), mount, clock,
                                          [&metrics](std::string_view request, Duration took, int error) {
                                            metrics.Observe(request, took, error);
                                          }));
  std::unique_ptr<ControlServer> control;
  if (!config.control_socket.empty()) {
    const Parts parts{config, clock, log, mount, *session, metrics};
    ASSIGN_OR_RETURN(control, ControlServer::Start(config.control_socket, clock,
                                                   [parts](const auto& words) { return Control(parts, words); }));
  }
  RETURN_IF_ERROR(on_mounted());
  log.Info("mounted", {{"uri", config.uri}, {"directory", config.directory}});
  // Beside the serving: listings of a busy NameNode must not keep the first request waiting.
  const std::jthread prefetch([&] { PrefetchFirst(config, mount, log); });
  RETURN_IF_ERROR(session->Serve(stop));
  log.Info("unmounting", {{"uri", config.uri}, {"directory", config.directory}});
  control.reset();
  return mount.FlushAll(Deadline::After(clock, config.commit_limit)).Annotate("write out open files");
}

}  // namespace paceline::fuse_hdfs
