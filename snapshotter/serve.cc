#include "snapshotter/serve.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "lib/base/filesystem.h"
#include "lib/base/json.h"
#include "lib/base/local_socket.h"
#include "lib/base/unique_fd.h"
#include "lib/blocks/registry/registry_store.h"
#include "snapshotter/connection_keeper.h"
#include "snapshotter/control_loop.h"
#include "snapshotter/image_opener.h"
#include "snapshotter/read_around.h"

namespace paceline::snapshotter {
namespace {

constexpr char kDefaultCacheFolder[] = "/var/lib/paceline/blocks";
constexpr int kMaxCacheFolders = 64;
constexpr size_t kMaxHotSetBytes = 256 << 20;
constexpr size_t kMaxStatsBytes = 1 << 20;
constexpr Duration kAliveLimit = std::chrono::seconds(5);

// The folder that was asked for, or the first of the usual ones that no other mount uses.
Result<std::unique_ptr<blocks::ChunkCache>> OpenCache(const ServeConfig& config, const Clock& clock,
                                                      std::string* folder) {
  blocks::ChunkCacheOptions options;
  options.quota_bytes = config.fetch.cache_quota.bytes;
  options.folder = *folder = config.cache_folder;
  if (!options.folder.empty()) return blocks::ChunkCache::Open(options, clock);
  for (int number = 1; number <= kMaxCacheFolders; ++number) {
    options.folder = *folder = fmt::format("{}-{}", kDefaultCacheFolder, number);
    Result<std::unique_ptr<blocks::ChunkCache>> cache = blocks::ChunkCache::Open(options, clock);
    if (cache.ok() || cache.status().code() != StatusCode::kAborted) return cache;
  }
  return ResourceExhaustedError(fmt::format("{} mounts have a cache already", kMaxCacheFolders));
}

Json StatsJson(const blocks::ImageReader& image, const blocks::ChunkCache& cache) {
  const blocks::ImageStats stats = image.stats();
  const blocks::ChunkCacheStats kept = cache.stats();
  return {{"reads", stats.reads},
          {"readBytes", stats.read_bytes},
          {"chunkHits", stats.chunk_hits},
          {"chunkMisses", stats.chunk_misses},
          {"failedReads", stats.failed_reads},
          {"memoryBytes", stats.memory_bytes},
          {"diskBytes", stats.disk_bytes},
          {"peerBytes", stats.peer_bytes},
          {"originBytes", stats.origin_bytes},
          {"originRequests", stats.origin_requests},
          {"prefetchedBytes", stats.prefetched_bytes},
          {"damagedChunks", stats.damaged_chunks},
          {"lostChunks", stats.lost_chunks},
          {"cache",
           {{"usedBytes", kept.used_bytes},
            {"evictedChunks", kept.evicted_chunks},
            {"damagedChunks", kept.damaged_chunks},
            {"mendedMetadata", kept.mended_metadata},
            {"fullDisk", kept.full_disk}}}};
}

// All that lives as long as the mount, in the order of its making.
class Server {
 public:
  Server(const ServeConfig& config, const Clock& clock, Logger& log) : config_(config), clock_(clock), log_(log) {}
  ~Server() {
    mount_.reset();
    std::error_code ignored;  // what is left costs space, and its name says what it is
    if (!upper_folder_.empty()) std::filesystem::remove_all(upper_folder_, ignored);
  }

  Status Start(const std::stop_token& stop) {
    ASSIGN_OR_RETURN(place_, FindMountPlace(config_.state_folder, config_.directory));
    ReachKeeperOf(stop);
    std::optional<fusefs::Connection> connection = TakeConnection();
    if (!connection) RETURN_IF_ERROR(RemoveDeadMount());
    std::string cache_folder;
    ASSIGN_OR_RETURN(cache_, OpenCache(config_, clock_, &cache_folder));
    ASSIGN_OR_RETURN(const std::shared_ptr<blocks::BlobStore> store, OpenStore(blocks::StoreAccess::kRead, stop));
    const Deadline deadline = Deadline::After(clock_, config_.fetch.open_limit);
    ASSIGN_OR_RETURN(const blocks::Digest digest, blocks::ParseDigest(config_.image));
    ASSIGN_OR_RETURN(manifest_, LoadManifest(*store, digest, cache_folder + "/manifests", deadline));
    engine_ = std::make_unique<blocks::ChunkEngine>(EngineOptionsOf(config_.fetch), *cache_, nullptr, clock_);
    ASSIGN_OR_RETURN(image_, OpenImage(manifest_, store, *cache_, *engine_, deadline));
    around_ = std::make_unique<ReadAround>(*image_, config_.read_around.bytes);
    MountHotSetOptions hot_set = HotSetOptionsOf(config_);
    if (!config_.hot_set.empty()) {
      ASSIGN_OR_RETURN(const std::string text, files_.ReadFile(config_.hot_set, kMaxHotSetBytes));
      ASSIGN_OR_RETURN(hot_set.given, ParseHotSet(text));
    }
    // While it is being mounted the first chunks travel.
    hot_set_ = std::make_unique<MountHotSet>(
        std::move(hot_set), HotSetImage{digest, IndexDigests(manifest_), *image_, *around_},
        [this, store](blocks::StoreAccess access) -> Result<std::shared_ptr<blocks::BlobStore>> {
          if (access == blocks::StoreAccess::kRead) return store;
          return OpenStore(access, {});
        },
        clock_, log_);

    ImageMountOptions options;
    options.around = around_.get();
    options.place = place_;
    options.backing = BackingOf(config_.backing);
    if (config_.is_writable) {
      // A folder of an earlier mount must not show through.
      upper_folder_ = fmt::format("{}/written-{}", cache_folder, clock_.WallNow().time_since_epoch().count());
      options.upper_folder = upper_folder_;
    }
    if (keeper_) options.keep = [this](const fusefs::Connection& made) { return keeper_->Keep(made); };
    if (connection) {
      log_.Warn("going on with the mount of a server that has died", {{"directory", place_.directory}});
      ASSIGN_OR_RETURN(mount_, ImageMount::Resume(options, *std::move(connection), *image_, clock_));
    } else {
      ASSIGN_OR_RETURN(mount_, ImageMount::Mount(options, *image_, clock_));
    }
    ASSIGN_OR_RETURN(listener_, ListenLocal(place_.socket()));
    if (!config_.control_socket.empty()) {
      ASSIGN_OR_RETURN(keepers_, ListenLocal(config_.control_socket));
    }
    return Status();
  }

  void Run(StopSignal& stop) {
    std::jthread keepers;
    if (keepers_.get() >= 0) {
      keepers = std::jthread([this](std::stop_token end) {
        RunControlLoop(
            keepers_.get(), [this](const std::string& line) { return AnswerLook(line); }, clock_, std::move(end));
      });
    }
    RunControlLoop(
        listener_.get(), [&](const std::string& line) { return Answer(line, stop); }, clock_, stop.token());
    if (mount_ == nullptr) return;
    const Status down = mount_->TakeDown(Detach::kLazily);
    if (!down.ok()) log_.Warn("unmount failed", {{"directory", place_.directory}, {"error", down}});
    if (down.ok()) ReleaseKeeper();
    hot_set_->Finish();
  }

  std::string Summary() const {
    return fmt::format("mounted on {}: {} layers, EROFS by {}", place_.directory, manifest_.layers.size(),
                       BackingName(mount_->backing()));
  }
  const MountPlace& place() const { return place_; }

 private:
  Result<std::shared_ptr<blocks::BlobStore>> OpenStore(blocks::StoreAccess access, const std::stop_token& stop) const {
    ASSIGN_OR_RETURN(
        std::unique_ptr<blocks::BlobStore> store,
        blocks::OpenStoreUrl(config_.store, access, blocks::RegistryOptionsOf(config_.registry), files_, clock_, stop));
    return std::shared_ptr<blocks::BlobStore>(std::move(store));
  }

  // Without one the mount works, and dies with this process.
  void ReachKeeperOf(const std::stop_token& stop) {
    if (!config_.keeps_connection) return;
    KeeperConfig config;
    config.socket = place_.keeper_socket();
    Result<KeeperClient> keeper = ReachKeeper(config, true, clock_, stop);
    if (keeper.ok()) {
      keeper_ = *std::move(keeper);
    } else {
      log_.Warn("no keeper: the mount ends with this process", {{"error", keeper.status()}});
    }
  }

  // Of a server that died and whose mounts are all there.
  std::optional<fusefs::Connection> TakeConnection() {
    if (!keeper_) return std::nullopt;
    Result<std::optional<fusefs::Connection>> taken = keeper_->Take();
    if (!taken.ok() || !*taken || !IsAlive(**taken)) return std::nullopt;
    const Result<std::vector<std::string>> left = MountsBelow(place_.folder);
    const bool has_layers = left.ok() && left->size() > 1;
    const Deadline soon = Deadline::After(clock_, kAliveLimit);
    const Status other = AskLocal(place_.socket(), "stats", kMaxStatsBytes, clock_, soon).status();
    const bool is_served = other.ok() || other.code() == StatusCode::kDeadlineExceeded;
    if (!has_layers || is_served) return std::nullopt;
    return std::move(**taken);
  }

  void ReleaseKeeper() {
    if (keeper_) keeper_->Release().IgnoreError();  // it ends by itself, a little later
  }

  // What a server that was killed has left there serves nobody any more, and would be in the way of its successor.
  Status RemoveDeadMount() const {
    ASSIGN_OR_RETURN(const std::vector<std::string> left, MountsBelow(place_.folder));
    if (left.empty()) return Status();
    const Deadline soon = Deadline::After(clock_, kAliveLimit);
    const Status alive = AskLocal(place_.socket(), "stats", kMaxStatsBytes, clock_, soon).status();
    if (alive.ok() || alive.code() == StatusCode::kDeadlineExceeded)
      return Status();  // the mount says that it is taken
    log_.Warn("a mount whose server has died is removed", {{"directory", place_.directory}});
    const Status down = TakeDownPlace(place_, Detach::kLazily);
    return down.code() == StatusCode::kNotFound ? Status() : down;
  }

  Json Stats() const {
    Json json = StatsJson(*image_, *cache_);
    const HotSetFacts facts = hot_set_->facts();
    json["hotSet"] = {{"state", HotSetPhaseText(facts.phase)}, {"chunks", facts.chunks}, {"bytes", facts.bytes}};
    return json;
  }

  // Changes nothing; from any thread.
  std::string AnswerLook(const std::string& line) const {
    if (line == "stats") return DumpJson(Stats());
    if (line == "hotset") return EncodeHotSet({IndexDigests(manifest_), image_->accesses().accesses()});
    return "error: unknown command";
  }

  std::string Answer(const std::string& line, StopSignal& stop) {
    if (line == "stats" || line == "hotset") return AnswerLook(line);
    if (line == "settle") {
      engine_->AwaitIdle(Deadline::After(clock_, config_.fetch.open_limit));
      return DumpJson(Stats());
    }
    if (line != "unmount" && line != "unmount force") return "error: unknown command";
    const Status down = mount_->TakeDown(line == "unmount" ? Detach::kNo : Detach::kLazily);
    if (!down.ok()) return "error: " + down.message();
    ReleaseKeeper();
    // Before the answer: whoever gets it may mount the same at once.
    hot_set_->Finish();
    stop.RequestStop();
    return "unmounted";
  }

  const ServeConfig& config_;
  const Clock& clock_;
  Logger& log_;
  const RealFileSystem files_;
  MountPlace place_;
  std::string upper_folder_;  // where writes go; "" for a read-only mount
  blocks::BlockImageManifest manifest_;
  std::unique_ptr<blocks::ChunkCache> cache_;
  std::unique_ptr<blocks::ChunkEngine> engine_;
  std::unique_ptr<blocks::ImageReader> image_;
  std::unique_ptr<ReadAround> around_;
  std::unique_ptr<MountHotSet> hot_set_;
  std::unique_ptr<ImageMount> mount_;
  UniqueFd listener_;
  UniqueFd keepers_;                    // of whoever keeps this process; may be none
  std::optional<KeeperClient> keeper_;  // connected as long as we live: that is how it knows
};

}  // namespace

Status Serve(const ServeConfig& config, const Clock& clock, Logger& log, StopSignal& stop,
             const std::function<Status(const std::string& summary)>& on_mounted) {
  Server server(config, clock, log);
  RETURN_IF_ERROR(server.Start(stop.token()));
  RETURN_IF_ERROR(on_mounted(server.Summary()));
  log.Info("serving", {{"directory", server.place().directory}, {"digest", config.image}, {"store", config.store}});
  server.Run(stop);
  return Status();
}

}  // namespace paceline::snapshotter
