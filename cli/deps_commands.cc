#include "cli/deps_commands.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/deps_request.h"
#include "cli/deps_restore.h"
#include "cli/deps_tables.h"
#include "cli/error_advice.h"
#include "cli/fs_tables.h"
#include "cli/progress_line.h"
#include "lib/base/units.h"
#include "lib/blocks/image/image_check.h"
#include "lib/deps/collector.h"
#include "lib/deps/quarantine.h"

namespace paceline::cli {
namespace {

constexpr Duration kStoreAnswer = std::chrono::minutes(2);
// Emptying these would take the machine with it.
constexpr std::string_view kNeverEmptied[] = {"/",     "/bin",   "/boot", "/dev",  "/etc",  "/home",
                                              "/lib",  "/lib64", "/opt",  "/proc", "/root", "/run",
                                              "/sbin", "/srv",   "/sys",  "/tmp",  "/usr",  "/var"};

struct DepsOptions {
  DepsArguments key;
  RestoreOptions restore;
  std::string ttl, wait = "0", grace = "24h";
  std::vector<std::string> allowed_secrets;
  std::vector<std::string> directories;  // to unmount
  std::string name;                      // a key, or its beginning
  int threads = 0;
  bool records_again = false, empties_first = false, always_installs = false, keeps_privileges = false;
  bool is_forced = false, is_dry_run = false, shows_all = false;
};

class DepsRunner {
 public:
  DepsRunner(const DepsOptions& options, const std::string& ns, OutputFormat format, const Clock& clock)
      : options_(options), ns_(ns), format_(format), clock_(clock), places_(options.key.registry, clock) {}

  int Record();
  int Restore();
  int Unmount();
  int List();
  int Show();
  int Verify();
  int Lift();
  int Collect();
  int Explain();

 private:
  Deadline Soon() const { return Deadline::After(clock_, kStoreAnswer); }
  Result<std::unique_ptr<blocks::BlobStore>> OpenStore(blocks::StoreAccess access) const {
    return places_.OpenStore(options_.key.store, access);
  }
  Result<deps::RecordRequest> RequestToRecord() const;
  Result<deps::FoundSnapshot> Named(blocks::BlobStore& store) const;
  Result<std::vector<deps::FoundSnapshot>> Snapshots(blocks::BlobStore& store) const;
  int RecordPrivately(const deps::RecordRequest& request, const deps::RecordOutcome& outcome) const;
  Status CheckSnapshot(blocks::BlobStore& store, const deps::FoundSnapshot& snapshot, const deps::Trust& trust) const;
  Result<std::pair<deps::FoundSnapshot, std::vector<deps::KeyDifference>>> Nearest(blocks::BlobStore& store,
                                                                                   const Json& now) const;

  const DepsOptions& options_;
  const std::string ns_;
  const OutputFormat format_;
  const Clock& clock_;
  const ImagePlaces places_;
};

Status EmptyDirectories(const std::vector<std::string>& roots) {
  for (const std::string& root : roots) {
    if (std::find(std::begin(kNeverEmptied), std::end(kNeverEmptied), root) != std::end(kNeverEmptied)) {
      return InvalidArgumentError("--empty-first would empty " + root + ", which is never right");
    }
  }
  std::error_code error;
  for (const std::string& root : roots) {
    for (std::filesystem::directory_iterator at(root, error), end; !error && at != end; at.increment(error)) {
      std::filesystem::remove_all(at->path(), error);
      if (error) return ErrnoStatus(error.value(), "empty " + root);
    }
  }
  return Status();
}

Result<deps::RecordRequest> DepsRunner::RequestToRecord() const {
  ASSIGN_OR_RETURN(deps::RecordRequest request, MakeRequest(options_.key, ns_, ProcessEnvironment(), clock_));
  if (!options_.ttl.empty()) {
    ASSIGN_OR_RETURN(request.ttl, ParseDuration(options_.ttl));
  }
  ASSIGN_OR_RETURN(request.wait, ParseDuration(options_.wait));
  request.output = format_ == OutputFormat::kTable ? deps::CommandOutput::kAsIs : deps::CommandOutput::kToStderr;
  request.privileges = options_.keeps_privileges ? deps::Privileges::kKept : deps::Privileges::kDropped;
  request.allowed_secrets = options_.allowed_secrets;
  request.records_again = options_.records_again;
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  request.convert.threads = options_.threads > 0 ? options_.threads : cores;
  ASSIGN_OR_RETURN(request.trust, deps::LoadTrust(options_.key.trust, RealFileSystem()));
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  request.recorded_by = {{"user", std::to_string(geteuid())}, {"host", host}};
  if (options_.empties_first) RETURN_IF_ERROR(EmptyDirectories(request.key.capture));
  return request;
}

// The user's program comes first: what keeps a recording from working does not keep the install from being run.
int DepsRunner::RecordPrivately(const deps::RecordRequest& request, const deps::RecordOutcome& outcome) const {
  fmt::print(stderr, "{}", RenderNotice(kNotRecordedAdvice, "pacectl: not recorded: " + outcome.status.message()));
  if (outcome.ran_install) return outcome.report.install.code;
  const Result<deps::CommandEnd> end =
      deps::RunInstall(request.key.command, request.environment, request.output, clock_);
  return end.ok() ? end->code : Fail(end.status());
}

int DepsRunner::Record() {
  const TimePoint start = clock_.Now();
  const Result<deps::RecordRequest> request = RequestToRecord();
  if (!request.ok()) return Fail(request.status());
  deps::RecordOutcome outcome;
  Result<std::unique_ptr<blocks::BlobStore>> store = OpenStore(blocks::StoreAccess::kWrite);
  if (store.ok()) {
    deps::RecordProgress progress;
    const ProgressLine line(clock_, [&] { return PhaseText(progress); });
    outcome = deps::RecordInstall(*request, **store, &progress, clock_, {});
  } else {
    outcome.status = store.status();
  }
  if (!outcome.status.ok() && options_.always_installs) return RecordPrivately(*request, outcome);
  const int install = outcome.report.install.code;
  if (!outcome.status.ok()) {
    const int failed = Fail(outcome.status);
    return install != 0 ? install : failed;
  }
  const double seconds = ToSeconds(clock_.Now() - start);
  if (format_ != OutputFormat::kTable) {
    fmt::print("{}", RenderValue(RecordValue(outcome.report, clock_.WallNow(), seconds), format_));
  } else {
    fmt::print(stderr, "{}", RecordSummary(outcome.report, seconds));
  }
  return 0;
}

int DepsRunner::Restore() {
  const TimePoint start = clock_.Now();
  Result<deps::RecordRequest> request = MakeRequest(options_.key, ns_, ProcessEnvironment(), clock_);
  if (!request.ok()) return Fail(request.status());
  const Result<RestoreReport> report = RestoreSnapshot(options_.key, *std::move(request), options_.restore, clock_);
  if (!report.ok()) {
    const int failed = Fail(report.status());
    return report.status().code() == StatusCode::kNotFound ? kExitNoSnapshot : failed;
  }
  const double seconds = ToSeconds(clock_.Now() - start);
  const bool is_mounted = report->by == RestoredBy::kMount;
  const char* how = report->by == RestoredBy::kNothing ? "in place already" : is_mounted ? "mounted" : "copied";
  if (format_ != OutputFormat::kTable) {
    fmt::print("{}", RenderValue({{"key", report->key},
                                  {"how", report->by == RestoredBy::kNothing ? "none"
                                          : is_mounted                       ? "mount"
                                                                             : "copy"},
                                  {"files", report->files},
                                  {"bytes", report->bytes},
                                  {"seconds", seconds}},
                                 format_));
  } else {
    fmt::print(stderr, "{} {} in {}\n", report->key.substr(0, 12), how, FormatSeconds(seconds));
  }
  return 0;
}

int DepsRunner::Unmount() {
  const Status unmounted =
      UnmountSnapshot(options_.directories, options_.restore,
                      options_.is_forced ? deps::DetachMode::kAlways : deps::DetachMode::kWhenIdle, clock_);
  return unmounted.ok() ? 0 : Fail(unmounted);
}

Result<std::vector<deps::FoundSnapshot>> DepsRunner::Snapshots(blocks::BlobStore& store) const {
  ASSIGN_OR_RETURN(deps::SnapshotList list, deps::ListSnapshots(store, options_.shows_all ? "" : ns_, Soon()));
  for (const std::string& broken : list.broken)
    fmt::print(stderr, "{}", RenderNotice(kBrokenSnapshotAdvice, "pacectl: " + broken));
  return std::move(list.snapshots);
}

Result<deps::FoundSnapshot> DepsRunner::Named(blocks::BlobStore& store) const {
  // A whole key needs no list.
  if (blocks::ParseDigest("sha256:" + options_.name).ok()) return deps::FindSnapshot(store, options_.name, Soon());
  ASSIGN_OR_RETURN(std::vector<deps::FoundSnapshot> all, Snapshots(store));
  std::erase_if(all, [&](const auto& snapshot) { return !snapshot.manifest.key.starts_with(options_.name); });
  if (all.size() == 1) return std::move(all[0]);
  if (all.empty()) return NotFoundError("no snapshot's key begins with " + options_.name + "; see pacectl deps ls");
  return InvalidArgumentError(fmt::format("{} snapshots have keys that begin with {}", all.size(), options_.name));
}

int DepsRunner::List() {
  Result<std::unique_ptr<blocks::BlobStore>> store = OpenStore(blocks::StoreAccess::kRead);
  if (!store.ok()) return Fail(store.status());
  const Result<std::vector<deps::FoundSnapshot>> list = Snapshots(**store);
  if (!list.ok()) return Fail(list.status());
  const WallTime now = clock_.WallNow();
  if (format_ != OutputFormat::kTable) {
    nlohmann::json values = nlohmann::json::array();
    for (const deps::FoundSnapshot& snapshot : *list) values.push_back(SnapshotValue(snapshot, now));
    fmt::print("{}", RenderValue(values, format_));
  } else if (list->empty()) {
    fmt::print(stderr, "no snapshots{}; make one with: pacectl deps record\n",
               options_.shows_all ? "" : " of namespace " + ns_);
  } else {
    fmt::print("{}", RenderTable(SnapshotTable(*list, now)));
  }
  return 0;
}

int DepsRunner::Show() {
  Result<std::unique_ptr<blocks::BlobStore>> store = OpenStore(blocks::StoreAccess::kRead);
  if (!store.ok()) return Fail(store.status());
  const Result<deps::FoundSnapshot> snapshot = Named(**store);
  if (!snapshot.ok()) return Fail(snapshot.status());
  const WallTime now = clock_.WallNow();
  fmt::print("{}", format_ == OutputFormat::kTable ? ShowSnapshot(*snapshot, now)
                                                   : RenderValue(SnapshotValue(*snapshot, now), format_));
  return 0;
}

Status DepsRunner::CheckSnapshot(blocks::BlobStore& store, const deps::FoundSnapshot& snapshot,
                                 const deps::Trust& trust) const {
  std::atomic<uint64_t> done{0};
  const ProgressLine line(
      clock_, [&] { return fmt::format("{} of {} checked", SizeText(done), SizeText(snapshot.record.stored_bytes)); });
  blocks::CheckOptions check;
  check.on_progress = [&done](uint64_t bytes) { done += bytes; };
  if (snapshot.manifest.quarantine) {
    return NotFoundError("put aside: " + snapshot.manifest.quarantine->why + "; see pacectl deps lift");
  }
  if (trust.is_required) {
    ASSIGN_OR_RETURN(const deps::SignatureFacts signature,
                     deps::LookAtSignature(store, snapshot.descriptor.digest, trust.trusted, Soon()));
    if (signature.state != deps::SignatureState::kGood) {
      return PermissionDeniedError(deps::ExplainSignature(signature));
    }
  }
  RETURN_IF_ERROR(blocks::CheckLayer(store, snapshot.manifest.layer, check, clock_, {}).status());
  const blocks::Digest image = blocks::Sha256Of(deps::DerivedImage(snapshot.manifest, snapshot.descriptor));
  return store.GetManifest(image.ToString(), Soon()).status();
}

int DepsRunner::Verify() {
  Result<std::unique_ptr<blocks::BlobStore>> store = OpenStore(blocks::StoreAccess::kRead);
  if (!store.ok()) return Fail(store.status());
  Result<std::vector<deps::FoundSnapshot>> list = std::vector<deps::FoundSnapshot>();
  if (options_.name.empty()) {
    list = Snapshots(**store);
  } else if (Result<deps::FoundSnapshot> one = Named(**store); one.ok()) {
    list->push_back(*std::move(one));
  } else {
    list = one.status();
  }
  if (!list.ok()) return Fail(list.status());
  const Result<deps::Trust> trust = deps::LoadTrust(options_.key.trust, RealFileSystem());
  if (!trust.ok()) return Fail(trust.status());
  bool is_broken = false;
  Table table{{"KEY", "STATUS"}, {}};
  nlohmann::json values = nlohmann::json::array();
  for (const deps::FoundSnapshot& snapshot : *list) {
    const Status status = CheckSnapshot(**store, snapshot, *trust);
    is_broken = is_broken || !status.ok();
    table.rows.push_back({snapshot.manifest.key.substr(0, 12), status.ok() ? "ok" : status.message()});
    values.push_back({{"key", snapshot.manifest.key}, {"ok", status.ok()}, {"error", status.message()}});
  }
  fmt::print("{}", format_ == OutputFormat::kTable ? RenderTable(table) : RenderValue(values, format_));
  return is_broken ? kExitBroken : 0;
}

int DepsRunner::Lift() {
  Result<std::unique_ptr<blocks::BlobStore>> store = OpenStore(blocks::StoreAccess::kWrite);
  if (!store.ok()) return Fail(store.status());
  const Result<deps::FoundSnapshot> snapshot = Named(**store);
  if (!snapshot.ok()) return Fail(snapshot.status());
  const Status lifted = deps::LiftQuarantine(**store, snapshot->manifest.key, Soon());
  if (!lifted.ok()) return Fail(lifted);
  fmt::print(stderr, "{} is offered again\n", snapshot->manifest.key.substr(0, 12));
  return 0;
}

int DepsRunner::Collect() {
  const std::string folder = StoreFolder(options_.key.store);
  if (folder.empty()) {
    return Fail(UnimplementedError("a registry collects its own blobs; pacectl deps gc works on file:/// stores"));
  }
  const Result<Duration> grace = ParseDuration(options_.grace);
  if (!grace.ok()) return Fail(grace.status());
  deps::CollectOptions collect;
  collect.grace = *grace;
  collect.mode = options_.is_dry_run ? blocks::CollectMode::kDryRun : blocks::CollectMode::kRemove;
  const Result<deps::CollectReport> report =
      deps::CollectStore(folder, LeaseFolderOf(options_.key.store), collect, clock_);
  if (report.status().code() == StatusCode::kAborted) {
    return Fail(AbortedError("somebody records into this store now; try again later"));
  }
  if (!report.ok()) return Fail(report.status());
  for (const std::string& broken : report->broken) {
    fmt::print(stderr, "{}", RenderNotice(kBrokenSnapshotAdvice, "pacectl: " + broken));
  }
  fmt::print("{}", format_ == OutputFormat::kTable ? CollectSummary(*report, options_.is_dry_run)
                                                   : RenderValue(CollectValue(*report, options_.is_dry_run), format_));
  return 0;
}

// The snapshot whose key document differs in the fewest fields.
Result<std::pair<deps::FoundSnapshot, std::vector<deps::KeyDifference>>> DepsRunner::Nearest(blocks::BlobStore& store,
                                                                                             const Json& now) const {
  ASSIGN_OR_RETURN(const std::vector<deps::FoundSnapshot> all, Snapshots(store));
  if (all.empty()) return NotFoundError("there is no snapshot to compare with; make one with: pacectl deps record");
  std::pair<deps::FoundSnapshot, std::vector<deps::KeyDifference>> nearest;
  bool is_first = true;
  for (const deps::FoundSnapshot& snapshot : all) {
    if (snapshot.record.key_document.empty()) continue;
    const Json recorded = ParseJson(snapshot.record.key_document).value_or(Json::object());
    std::vector<deps::KeyDifference> differences = deps::ExplainDifference(recorded, now);
    if (!is_first && differences.size() >= nearest.second.size()) continue;
    nearest = {snapshot, std::move(differences)};
    is_first = false;
  }
  return nearest;
}

int DepsRunner::Explain() {
  Result<deps::RecordRequest> request = MakeRequest(options_.key, ns_, ProcessEnvironment(), clock_);
  if (!request.ok()) return Fail(request.status());
  const Result<deps::BaseState> base =
      deps::LookAtBase(request->key.capture, deps::CaptureRules(request->key.exclude, request->key.capture));
  if (!base.ok()) return Fail(base.status());
  request->key.base = base->base;
  const Json now = deps::KeyDocument(request->key);
  const std::string key = deps::KeyOf(now).Hex();
  Result<std::unique_ptr<blocks::BlobStore>> store = OpenStore(blocks::StoreAccess::kRead);
  if (!store.ok()) return Fail(store.status());
  const auto nearest = Nearest(**store, now);
  const std::vector<deps::KeyDifference> differences =
      nearest.ok() ? nearest->second : std::vector<deps::KeyDifference>();
  const std::string other = nearest.ok() ? nearest->first.manifest.key : "";
  if (format_ != OutputFormat::kTable) {
    fmt::print("{}", RenderValue({{"key", key},
                                  {"keyInputs", now},
                                  {"pinned", request->pinning.is_pinned},
                                  {"pinnedReason", request->pinning.reason},
                                  {"nearest", other},
                                  {"differences", DifferencesValue(differences)}},
                                 format_));
    return 0;
  }
  fmt::print("key    {}\nclass  {} ({})\n", key, request->pinning.is_pinned ? "pinned" : "floating",
             request->pinning.reason);
  if (!nearest.ok()) {
    fmt::print("{}\n", nearest.status().message());
  } else if (differences.empty()) {
    fmt::print("there is a snapshot of this key\n");
  } else {
    fmt::print("no snapshot of this key; the nearest one, {}, differs in:\n{}", other.substr(0, 12),
               RenderTable(DifferenceTable(differences)));
  }
  return 0;
}

using DepsBody = int (DepsRunner::*)();

class DepsGroup final : public DepsCommands {
 public:
  DepsGroup(CLI::App& app, std::string* output, const std::string* ns) : output_(output), ns_(ns) {
    group_ = app.add_subcommand("deps", "what install commands leave in directories: recorded once, then put back");
    group_->require_subcommand(1)->fallthrough();
    AddRecord();
    AddRestore();
    CLI::App* list = AddReader("ls", "snapshots of a store, newest first", &DepsRunner::List);
    list->add_flag("-A,--all-namespaces", options_.shows_all, "of every namespace");
    AddName(*AddReader("show", "all that is known of a snapshot", &DepsRunner::Show))->required();
    CLI::App* verify =
        AddReader("verify", "read snapshots whole and check every digest; exit code 3 when something is wrong",
                  &DepsRunner::Verify);
    AddName(*verify);
    AddTrustedKeys(*verify);
    AddName(*AddReader("lift", "offer a snapshot again that was put aside", &DepsRunner::Lift))->required();
    CLI::App* collect = AddReader("gc", "remove expired snapshots and what nobody needs", &DepsRunner::Collect);
    collect->add_option("--grace", options_.grace, "leave alone what is younger")->capture_default_str();
    collect->add_flag("--dry-run", options_.is_dry_run, "only say what would be removed");
    CLI::App* explain =
        Add("explain-key", "the key that these arguments give, and why it misses", &DepsRunner::Explain);
    AddKeyArguments(*explain, &options_.key);
  }

  bool is_given() const override {
    return std::any_of(bodies_.begin(), bodies_.end(), [](const auto& body) { return body.first->parsed(); });
  }

  int Run(OutputFormat format, const Clock& clock) override {
    DepsRunner runner(options_, ns_->empty() ? "default" : *ns_, format, clock);
    for (const auto& [command, body] : bodies_) {
      if (command->parsed()) return (runner.*body)();
    }
    return 2;
  }

 private:
  CLI::App* Add(const std::string& name, const std::string& help, DepsBody body) {
    CLI::App* command = group_->add_subcommand(name, help);
    command->add_option("-o,--output", *output_, "table, json or yaml")->capture_default_str();
    command->fallthrough();
    bodies_.emplace_back(command, body);
    return command;
  }
  CLI::App* AddReader(const std::string& name, const std::string& help, DepsBody body) {
    CLI::App* command = Add(name, help, body);
    AddStoreArguments(*command, &options_.key);
    return command;
  }
  CLI::Option* AddName(CLI::App& command) {
    return command.add_option("snapshot", options_.name, "a snapshot's key, or its beginning");
  }
  void AddTrustedKeys(CLI::App& command) {
    command.add_option_function<std::string>(
        "--key",
        [this](const std::string& path) {
          options_.key.trust.trusted_keys = path;
          options_.key.trust.is_required = true;
        },
        "PEM file with the public keys of those who may have recorded: others' snapshots are refused");
  }

  void AddRecord() {
    CLI::App* record = Add("record", "run an install and record what it did to directories", &DepsRunner::Record);
    AddKeyArguments(*record, &options_.key);
    record->add_option("--ttl", options_.ttl, "life of the snapshot (30d when everything is pinned, else 24h)");
    record->add_option("--wait", options_.wait, "how long to wait for another recorder of the same key")
        ->capture_default_str();
    record->add_option("--allow-secret", options_.allowed_secrets,
                       "pattern of paths whose contents look like secrets and are none; repeatable");
    record->add_option("--threads", options_.threads, "threads that compress (one for each processor unless given)")
        ->check(CLI::Range(1, 1024));
    record->add_option("--sign-key", options_.key.trust.signing_key,
                       "PEM file with a private Ed25519 key that the snapshot is signed with");
    record->add_flag("--again", options_.records_again, "record also when there is a snapshot of this key");
    record->add_flag("--empty-first", options_.empties_first, "remove what lies in the captured directories first");
    record->add_flag("--keep-privileges", options_.keeps_privileges, "keep setuid, setgid and file capabilities");
    record->add_flag("--always-install", options_.always_installs,
                     "run the install also when it cannot be recorded; the exit code is the install's");
  }

  void AddRestore() {
    CLI::App* restore =
        Add("restore", "put a snapshot in place of an install; exit code 4 when there is none", &DepsRunner::Restore);
    AddKeyArguments(*restore, &options_.key);
    AddTrustedKeys(*restore);
    restore->add_flag("--copy", options_.restore.copies, "write the files instead of mounting them");
    restore
        ->add_option("--threads", options_.restore.threads, "threads that copy (one for each processor unless given)")
        ->check(CLI::Range(1, 1024));
    restore->add_option("--cache-folder", options_.restore.cache_folder, "where a mount keeps what it has fetched");
    restore->add_option("--cache-quota", options_.restore.cache_quota, "most that it may take (20GiB unless given)");
    restore->add_option("--log-file", options_.restore.log_file, "log of the process that serves the mount");
    restore->add_option("--backing", options_.restore.backing, "auto, file or loop: how EROFS gets at its layer");
    restore->add_flag("--no-hot-set", options_.restore.leaves_hot_set_out,
                      "fetch nothing ahead of what is read, and do not record what is read first");
    CLI::App* unmount =
        Add("unmount", "take a mounted snapshot down; what was written over it is dropped", &DepsRunner::Unmount);
    unmount->add_option("directory", options_.directories, "the directories it was restored to")->required();
    unmount->add_flag("--force", options_.is_forced, "also while it is in use");
    for (CLI::App* command : {restore, unmount}) {
      command->add_option("--run-folder", options_.restore.run_folder, "where mounts keep their state")
          ->capture_default_str();
      command->add_option("--upper-folder", options_.restore.upper_folder, "where writes to a mount go, on a disk")
          ->capture_default_str();
    }
  }

  std::string* output_;
  const std::string* ns_;
  DepsOptions options_;
  CLI::App* group_;
  std::vector<std::pair<CLI::App*, DepsBody>> bodies_;
};

}  // namespace

std::unique_ptr<DepsCommands> DepsCommands::AddTo(CLI::App& app, std::string* output, const std::string* ns) {
  return std::make_unique<DepsGroup>(app, output, ns);
}

}  // namespace paceline::cli
