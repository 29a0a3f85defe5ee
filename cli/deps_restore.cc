#include "cli/deps_restore.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/fs_tables.h"
#include "cli/mount_commands.h"
#include "cli/progress_line.h"
#include "lib/base/filesystem.h"
#include "lib/deps/command.h"
#include "lib/deps/copy_restorer.h"
#include "lib/deps/offer.h"

namespace paceline::cli {
namespace {

constexpr Duration kRestoreLimit = std::chrono::minutes(2);

class Restore {
 public:
  Restore(const DepsArguments& arguments, const RestoreOptions& options, const Clock& clock)
      : arguments_(arguments), options_(options), clock_(clock), places_(arguments.registry, clock) {}

  Result<RestoreReport> Run(deps::RecordRequest request) {
    roots_ = request.key.capture;
    ASSIGN_OR_RETURN(const deps::BaseState base,
                     deps::LookAtBase(roots_, deps::CaptureRules(request.key.exclude, roots_)));
    request.key.base = base.base;
    RestoreReport report;
    report.key = deps::KeyOf(deps::KeyDocument(request.key)).Hex();
    if (base.has_sentinels && base.sentinel_key == report.key) return report;
    RETURN_IF_ERROR(CheckBase(base));
    ASSIGN_OR_RETURN(store_, places_.OpenStore(arguments_.store, blocks::StoreAccess::kRead));
    ASSIGN_OR_RETURN(const deps::Trust trust, deps::LoadTrust(arguments_.trust, RealFileSystem()));
    const deps::Offer offer = deps::FindOffer(*store_, report.key, trust, clock_.WallNow(), Soon());
    if (offer.state == deps::OfferState::kEnded) return NotFoundError(offer.why.message() + "; record it again");
    if (offer.state != deps::OfferState::kUsable) return offer.why;
    const deps::FoundSnapshot& found = *offer.snapshot;
    RETURN_IF_ERROR(CheckLinks(found));
    report.by = options_.copies ? RestoredBy::kCopy : RestoredBy::kMount;
    RETURN_IF_ERROR(options_.copies ? CopyFiles(found, &report) : Mount(found));
    return report;
  }

 private:
  Deadline Soon() const { return Deadline::After(clock_, kRestoreLimit); }

  Status CheckBase(const deps::BaseState& base) const {
    if (base.was_cut_off) {
      return InvalidArgumentError(
          roots_.front() +
          " is half full, from an install or a restore that failed or was cut off: remove what lies in it");
    }
    if (base.sentinel_key.empty()) return Status();
    return InvalidArgumentError(roots_.front() + " holds another snapshot, " + base.sentinel_key.substr(0, 12) +
                                ": unmount it (pacectl deps unmount) or remove what lies in it");
  }

  static Status CheckLinks(const deps::FoundSnapshot& found) {
    const std::vector<deps::ExternalLink> dead = deps::DeadLinks(found.record.external_links);
    if (dead.empty()) return Status();
    return InvalidArgumentError(
        fmt::format("{} points to {}, which is not on this machine: the snapshot was recorded "
                    "in another image",
                    dead[0].path, dead[0].target));
  }

  Status CopyFiles(const deps::FoundSnapshot& found, RestoreReport* report) {
    deps::CopyOptions copy;
    copy.roots = roots_;
    const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    copy.threads = options_.threads > 0 ? options_.threads : cores;
    deps::CopyReport copied;
    {
      const ProgressLine line(clock_, [&] {
        return fmt::format("{} of {} files  {} of {}", copied.files.load(), found.record.files, SizeText(copied.bytes),
                           SizeText(found.record.bytes));
      });
      RETURN_IF_ERROR(deps::RestoreByCopy(*store_, found.manifest.layer, copy, &copied, clock_, {}));
    }
    report->files = copied.files;
    report->bytes = copied.bytes;
    return Status();
  }

  // The layer by paceline-snapshotter on a folder of ours, then an overlay on each directory.
  Status Mount(const deps::FoundSnapshot& found) {
    if (geteuid() != 0) {
      return PermissionDeniedError("mounting takes root; --copy writes the files instead");
    }
    const deps::OverlayPlace place = deps::PlaceOf(roots_, options_.run_folder, options_.upper_folder);
    RealFileSystem files;
    for (const std::string& folder : {place.top(), place.state()}) RETURN_IF_ERROR(files.MakeDirectories(folder, 0755));
    for (const std::string& root : roots_) RETURN_IF_ERROR(files.MakeDirectories(root, 0755));
    // What an earlier mount, cut off, has left must not show through.
    std::error_code error;
    std::filesystem::remove_all(place.upper, error);
    if (error) return ErrnoStatus(error.value(), "empty " + place.upper);
    RETURN_IF_ERROR(StartServer(found, place));
    const Status mounted = MountOverlays(place);
    if (!mounted.ok()) StopServer(place, clock_, deps::DetachMode::kAlways).IgnoreError();  // the first failure counts
    return mounted;
  }

  static Status MountOverlays(const deps::OverlayPlace& place) {
    ASSIGN_OR_RETURN(const std::string layer, deps::FindLayer(place.state()));
    return deps::MountOverRoots(place, layer);
  }

  Status StartServer(const deps::FoundSnapshot& found, const deps::OverlayPlace& place) {
    const std::string image = deps::DerivedImage(found.manifest, found.descriptor);
    const std::string digest = blocks::Sha256Of(image).ToString();
    std::vector<std::string> words = {SnapshotterPath(), "serve",          "--daemon",   "--store",
                                      arguments_.store,  "--image",        digest,       "--directory",
                                      place.top(),       "--state-folder", place.state()};
    words.insert(words.end(), {"--hot-set-use", options_.leaves_hot_set_out ? "none" : "record"});
    const std::pair<const char*, const std::string*> settings[] = {{"--cache-folder", &options_.cache_folder},
                                                                   {"--cache-quota", &options_.cache_quota},
                                                                   {"--log-file", &options_.log_file},
                                                                   {"--backing", &options_.backing}};
    for (const auto& [flag, value] : settings) {
      if (!value->empty()) words.insert(words.end(), {flag, *value});
    }
    const std::vector<std::string> access = places_.SnapshotterArguments();
    words.insert(words.end(), access.begin(), access.end());
    ASSIGN_OR_RETURN(const deps::CommandEnd end, deps::RunProgram(words, deps::CommandOutput::kToStderr, clock_));
    if (end.code == 0) return Status();
    return UnavailableError(fmt::format("{} ended with {} (its reason is above)", words[0], end.code));
  }

 public:
  static Status StopServer(const deps::OverlayPlace& place, const Clock& clock, deps::DetachMode mode) {
    std::vector<std::string> words = {SnapshotterPath(), "unmount", place.top(), "--state-folder", place.state()};
    if (mode == deps::DetachMode::kAlways) words.emplace_back("--force");
    ASSIGN_OR_RETURN(const deps::CommandEnd end, deps::RunProgram(words, deps::CommandOutput::kToStderr, clock));
    if (end.code != 0) return UnavailableError("the snapshot's layer could not be unmounted (the reason is above)");
    std::error_code ignored;  // empty folders
    std::filesystem::remove_all(place.folder, ignored);
    return Status();
  }

 private:
  const DepsArguments& arguments_;
  const RestoreOptions& options_;
  const Clock& clock_;
  const ImagePlaces places_;
  std::vector<std::string> roots_;
  std::unique_ptr<blocks::BlobStore> store_;
};

}  // namespace

Result<RestoreReport> RestoreSnapshot(const DepsArguments& arguments, deps::RecordRequest request,
                                      const RestoreOptions& options, const Clock& clock) {
  return Restore(arguments, options, clock).Run(std::move(request));
}

Status UnmountSnapshot(const std::vector<std::string>& directories, const RestoreOptions& options,
                       deps::DetachMode mode, const Clock& clock) {
  ASSIGN_OR_RETURN(const std::vector<std::string> roots, ResolveRoots(directories));
  const deps::OverlayPlace place = deps::PlaceOf(roots, options.run_folder, options.upper_folder);
  const Status unmounted = deps::UnmountRoots(place, mode);
  if (!unmounted.ok() && unmounted.code() != StatusCode::kNotFound) return unmounted;
  // The layer may be left of a restore that was cut off.
  if (!deps::FindLayer(place.state()).ok()) return unmounted;
  return Restore::StopServer(place, clock, mode);
}

}  // namespace paceline::cli
