#include "snapshotter/plugin/run_plugin.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>

#include "lib/base/local_socket.h"
#include "lib/base/metrics.h"
#include "lib/base/unique_fd.h"
#include "lib/base/version.h"
#include "lib/fusefs/session.h"
#include "lib/net/http_server.h"
#include "lib/net/metrics_page.h"
#include "snapshotter/control_loop.h"
#include "snapshotter/kernel_mounts.h"
#include "snapshotter/metadata_pages.h"
#include "snapshotter/plugin/converted_images.h"
#include "snapshotter/plugin/image_metrics.h"
#include "snapshotter/plugin/peer_sharing.h"
#include "snapshotter/plugin/remote_images.h"
#include "snapshotter/plugin/snapshot_server.h"

namespace paceline::snapshotter {
namespace {

constexpr Duration kLockLimit = std::chrono::seconds(60);
constexpr Duration kLockPoll = std::chrono::milliseconds(200);
constexpr int kServingThreads = 64;
constexpr std::string_view kPeersQuestion = "peers ";

// Waits for a server before this one to end, as in a roll-out.
Result<UniqueFd> LockRoot(const std::string& root, const Clock& clock, const std::stop_token& stop) {
  const std::string path = root + "/lock";
  UniqueFd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.is_valid()) return ErrnoStatus(errno, path);
  const Deadline deadline = Deadline::After(clock, kLockLimit);
  while (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return ErrnoStatus(errno, path);
    if (deadline.Expired(clock)) return UnavailableError("another process uses " + root);
    if (!clock.SleepFor(kLockPoll, stop)) return CancelledError("asked to stop");
  }
  return lock;
}

// The ids of snapshots on whose folders something is mounted.
std::set<uint64_t> MountedSnapshots(const std::vector<std::string>& mounts, const std::string& root) {
  const std::string before = root + "/snapshots/", after = "/fs";
  std::set<uint64_t> ids;
  for (const std::string& mount : mounts) {
    if (!mount.starts_with(before) || !mount.ends_with(after)) continue;
    uint64_t id = 0;
    const char* const end = mount.data() + mount.size() - after.size();
    const auto [stopped, error] = std::from_chars(mount.data() + before.size(), end, id);
    if (error == std::errc() && stopped == end) ids.insert(id);
  }
  return ids;
}

OverlayTraits ReadOverlayTraits() {
  OverlayTraits traits;
  traits.has_index = access("/sys/module/overlay/parameters/index", F_OK) == 0;
  std::ifstream map("/proc/self/uid_map");
  uint64_t inside = 0, outside = 0, count = 0;
  map >> inside >> outside >> count;
  traits.needs_user_xattr = map && (outside != 0 || count != UINT32_MAX);
  return traits;
}

// All of a server, in the order of its making; it ends in the other.
class Plugin {
 public:
  Plugin(const PluginConfig& config, const Clock& clock, Logger& log, std::stop_token stop)
      : config_(config),
        clock_(clock),
        log_(log),
        stop_(std::move(stop)),
        registry_(MetricsRegistry::Create()),
        metrics_(*registry_),
        outcomes_(clock) {}

  ~Plugin() {
    // What was asked for is answered; with a keeper, what comes after waits for the next plugin.
    telling_.request_stop();
    recording_.request_stop();
    serving_.request_stop();
    if (sharing_ != nullptr) sharing_->Stop();
    if (telling_.joinable()) telling_.join();
    if (recording_.joinable()) recording_.join();
    if (serving_.joinable()) serving_.join();
  }

  Status Start() {
    registry_->AddProcessMetrics(Version(), Revision());
    RETURN_IF_ERROR(files_.MakeDirectories(files_folder(), 0700));
    ASSIGN_OR_RETURN(lock_, LockRoot(config_.root, clock_, stop_));
    ASSIGN_OR_RETURN(table_, SnapshotTable::Open(config_.root, files_, clock_));
    if (table_->damaged_records() > 0) {
      log_.Error("damaged snapshot records set aside", {{"count", table_->damaged_records()}});
    }
    RETURN_IF_ERROR(TakeOver());
    RETURN_IF_ERROR(StartImages());
    const Status serving = StartFiles();
    if (!serving.ok()) {
      images_->Disable(serving);
      log_.Error("no image can be opened lazily, all are pulled", {{"error", serving}});
    }
    snapshots_ = std::make_unique<Snapshots>(config_.root, ReadOverlayTraits(), *table_, *images_, log_);
    const Status cleaned = snapshots_->CleanUp();
    if (!cleaned.ok()) log_.Warn("left-over folders stay", {{"error", cleaned}});
    RETURN_IF_ERROR(StartHttp());
    sharing_->Serve(*engine_);
    StartStatus();
    ASSIGN_OR_RETURN(server_, SnapshotServer::Start(config_.socket, *snapshots_, clock_, log_, metrics_));
    return Status();
  }

  void Stop() {
    server_->Shutdown(config_.shutdown_grace);
    http_->Shutdown(config_.shutdown_grace);
    cache_->SaveUseTimes();
  }

  size_t snapshot_count() const { return table_->All().size(); }
  uint16_t metrics_port() const { return http_->port(); }

 private:
  std::string files_folder() const { return config_.root + "/layers"; }

  // Goes on with the mounts of an earlier plugin where a keeper has their connection. Else they only give errors:
  // containers that run keep them, and new ones must get new ones.
  Status TakeOver() {
    ASSIGN_OR_RETURN(const std::vector<std::string> mounts, MountsBelow(config_.root));
    const bool has_files = std::find(mounts.begin(), mounts.end(), files_folder()) != mounts.end();
    if (!config_.keeper.socket.empty()) {
      Result<KeeperClient> keeper = ReachKeeper(config_.keeper, config_.spawns_keeper, clock_, stop_);
      if (keeper.ok()) {
        keeper_ = *std::move(keeper);
      } else {
        log_.Warn("no keeper: mounts end with this process", {{"error", keeper.status()}});
      }
    }
    if (keeper_) {
      Result<std::optional<fusefs::Connection>> taken = keeper_->Take();
      if (!taken.ok()) log_.Error("the keeper gave nothing, mounting anew", {{"error", taken.status()}});
      if (taken.ok()) connection_ = *std::move(taken);
      if (connection_ && has_files && IsAlive(*connection_)) {
        mounted_ = MountedSnapshots(mounts, config_.root);
        log_.Info("going on with the mounts of an earlier plugin", {{"layers", mounted_.size()}});
        return Status();
      }
      connection_.reset();
    }
    for (const std::string& mount : mounts) {
      if (mount != config_.root) Unmount(mount, Detach::kLazily).IgnoreError();
    }
    return Status();
  }

  PeerSharingOptions SharingOptions() const {
    PeerSharingOptions options;
    options.certificates = config_.peer_certificates;
    options.address = config_.peer_address;
    options.port = config_.peer_port;
    options.server_name = config_.peer_server_name;
    options.slack = config_.peer_slack_percent / 100.0;
    options.limits.requests = config_.peer_max_requests;
    options.limits.bytes_per_second = config_.peer_max_rate.bytes;
    return options;
  }

  std::string Describe() const { return DescribeImages(*opened_, outcomes_, *hot_sets_, sharing_->Describe()); }

  Status StartImages() {
    blocks::ChunkCacheOptions cache;
    cache.folder = config_.root + "/cache";
    cache.quota_bytes = config_.fetch.cache_quota.bytes;
    ASSIGN_OR_RETURN(cache_, blocks::ChunkCache::Open(cache, clock_));
    sharing_ = std::make_unique<PeerSharing>(SharingOptions(), clock_, log_, metrics_);
    engine_ = std::make_unique<blocks::ChunkEngine>(EngineOptionsOf(config_.fetch), *cache_, sharing_->peers(), clock_);
    ImageTableOptions images;
    images.manifests_folder = cache.folder + "/manifests";
    images.registry = blocks::RegistryOptionsOf(config_.registry);
    images.read_around_bytes = config_.read_around.bytes;
    images.open_limit = config_.fetch.open_limit;
    opened_ = std::make_unique<ImageTable>(images, *cache_, *engine_, clock_, stop_);
    ConvertedImagesOptions converted;
    converted.stores = config_.stores;
    converted.find_limit = config_.find_limit;
    converted_ = std::make_unique<ConvertedImages>(converted, *opened_, clock_);
    HotSetOptions hot_sets;
    hot_sets.folder = cache.folder + "/hot-sets";
    hot_sets.window = config_.hot_set_window;
    hot_sets.max_prefetch_bytes = config_.hot_set_limit.bytes;
    hot_sets.fill_below_bytes = config_.fill_below.bytes;
    hot_sets.is_shared = config_.shares_hot_sets;
    hot_sets_ = std::make_unique<HotSetRecorder>(hot_sets, *opened_, clock_, log_, metrics_);
    recording_ = std::jthread([this](std::stop_token stop) { hot_sets_->Run(std::move(stop)); });
    FollowImages(*registry_, metrics_, *opened_, *cache_);
    RemoteImagesOptions remote;
    remote.files_folder = files_folder();
    remote.backing = BackingOf(config_.backing);
    remote.mounted = mounted_;
    remote.on_mounted = [this](uint64_t id, blocks::ImageReader& image, uint32_t layer) {
      StoreMetadataPages(*session_, id, image, layer).IgnoreError();
    };
    images_ = std::make_unique<RemoteImages>(
        remote, ImageParts{*opened_, *converted_, *hot_sets_, outcomes_},
        [this](uint64_t id) {
          const SnapshotPtr snapshot = table_->FindById(id);
          return snapshot == nullptr ? std::nullopt : snapshot->remote;
        },
        log_, metrics_);
    return Status();
  }

  Status StartFiles() {
    files_served_ = std::make_unique<LayerFiles>(*images_);
    fusefs::MountOptions fuse;
    fuse.directory = files_folder();
    fuse.source = "paceline-layers";
    fuse.type = "paceline-layers";
    fuse.is_read_only = true;
    fuse.max_threads = kServingThreads;
    if (!keeper_) {
      ASSIGN_OR_RETURN(session_, fusefs::Session::Mount(fuse, *files_served_, clock_, nullptr));
    } else {
      if (!connection_) {
        ASSIGN_OR_RETURN(connection_, fusefs::Session::Connect(fuse));
        RETURN_IF_ERROR(keeper_->Keep(*connection_));
      }
      ASSIGN_OR_RETURN(session_,
                       fusefs::Session::Adopt(fuse, *std::move(connection_), *files_served_, clock_, nullptr));
      connection_.reset();
    }
    serving_ = std::jthread([this](std::stop_token stop) { session_->Serve(std::move(stop)).IgnoreError(); });
    return Status();
  }

  Status StartHttp() {
    net::ServerOptions options;
    options.address = config_.metrics_address;
    options.port = static_cast<uint16_t>(config_.metrics_port);
    std::map<std::string, net::Handler> routes;
    routes["GET /metrics"] = [this](const net::ServerRequest& request, Deadline) {
      return net::MetricsPage(request, registry_->Render());
    };
    routes["GET /v1/images"] = [this](const net::ServerRequest&, Deadline) {
      net::ServerResponse response;
      response.content_type = "application/json";
      response.body = Describe();
      return response;
    };
    routes["GET /healthz"] = [](const net::ServerRequest&, Deadline) {
      net::ServerResponse response;
      response.body = "ok\n";
      return response;
    };
    ASSIGN_OR_RETURN(http_, net::HttpServer::Start(options, std::move(routes), nullptr, clock_, log_));
    return Status();
  }

  // Images are opened without it as well.
  void StartStatus() {
    if (config_.status_socket.empty()) return;
    Result<UniqueFd> listener = ListenLocal(config_.status_socket);
    if (!listener.ok()) {
      log_.Warn("no status for the node's agent", {{"error", listener.status()}});
      return;
    }
    status_socket_ = *std::move(listener);
    const auto answer = [this](const std::string& line) -> std::string {
      if (line == "images") return Describe();
      if (line.starts_with(kPeersQuestion)) return sharing_->SetPeers(line.substr(kPeersQuestion.size()));
      return R"({"error": "the questions are: images, peers"})"
             "\n";
    };
    telling_ = std::jthread([this, answer](std::stop_token stop) {
      RunControlLoop(status_socket_.get(), answer, clock_, std::move(stop));
    });
  }

  const PluginConfig& config_;
  const Clock& clock_;
  Logger& log_;
  const std::stop_token stop_;
  const std::unique_ptr<MetricsRegistry> registry_;
  PluginMetrics metrics_;
  ImageOutcomes outcomes_;
  RealFileSystem files_;
  UniqueFd lock_;
  std::unique_ptr<SnapshotTable> table_;
  std::optional<KeeperClient> keeper_;  // connected as long as we live: that is how it knows
  std::optional<fusefs::Connection> connection_;
  std::set<uint64_t> mounted_;  // snapshots whose layers an earlier plugin mounted
  std::unique_ptr<blocks::ChunkCache> cache_;
  std::unique_ptr<PeerSharing> sharing_;
  std::unique_ptr<blocks::ChunkEngine> engine_;
  std::unique_ptr<ImageTable> opened_;
  std::unique_ptr<ConvertedImages> converted_;
  std::unique_ptr<HotSetRecorder> hot_sets_;
  std::jthread recording_;
  std::unique_ptr<RemoteImages> images_;
  std::unique_ptr<LayerFiles> files_served_;
  std::unique_ptr<fusefs::Session> session_;
  std::jthread serving_;
  std::unique_ptr<Snapshots> snapshots_;
  std::unique_ptr<net::HttpServer> http_;
  UniqueFd status_socket_;
  std::jthread telling_;
  std::unique_ptr<SnapshotServer> server_;
};

}  // namespace

Status RunPlugin(const PluginConfig& config, const Clock& clock, Logger& log, std::stop_token stop) {
  Plugin plugin(config, clock, log, stop);
  RETURN_IF_ERROR(plugin.Start());
  log.Info("serving", {{"socket", config.socket},
                       {"root", config.root},
                       {"snapshots", plugin.snapshot_count()},
                       {"port", plugin.metrics_port()}});
  while (clock.SleepFor(std::chrono::hours(1), stop)) {
  }
  plugin.Stop();
  log.Info("stopped", {{"socket", config.socket}});
  return Status();
}

}  // namespace paceline::snapshotter
