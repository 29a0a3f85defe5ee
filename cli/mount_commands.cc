#include "cli/mount_commands.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/image_places.h"
#include "cli/image_status.h"
#include "cli/image_tables.h"
#include "lib/base/filesystem.h"
#include "lib/base/json.h"
#include "lib/base/local_socket.h"
#include "lib/deps/command.h"
#include "lib/kube/config_exec.h"

namespace paceline::cli {
namespace {

constexpr char kProgram[] = "paceline-snapshotter";
constexpr std::chrono::minutes kFindLimit{2};
constexpr std::chrono::minutes kAskLimit{3};
constexpr std::chrono::seconds kStatusLimit{10};
constexpr size_t kMaxStatusBytes = 4 << 20;

struct MountOptions {
  std::string socket = kSnapshotterSocket;
  std::string image, directory, store, platform, cache_folder, cache_quota, hot_set, log_file, backing;
  bool is_writable = false;
  bool is_forced = false;
  RegistryAccess registry;
};

// Becomes the other program; returns only when that does not work.
int Become(std::vector<std::string> arguments) {
  const std::string path = SnapshotterPath();
  std::vector<char*> words;
  arguments.insert(arguments.begin(), path);
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  std::fflush(stdout);
  execvp(path.c_str(), words.data());
  return Fail(UnavailableError(fmt::format("cannot run {}: {}", path, strerror(errno))));
}

// Runs it beside us, with what it prints on standard error, and tells `done` when it has worked.
int RunAndTell(std::vector<std::string> arguments, const Json& done, OutputFormat format, const Clock& clock) {
  arguments.insert(arguments.begin(), SnapshotterPath());
  const Result<deps::CommandEnd> end = deps::RunProgram(arguments, deps::CommandOutput::kToStderr, clock);
  if (!end.ok()) return Fail(end.status());
  if (end->code != 0) {
    return Fail(UnavailableError(fmt::format("{} ended with {} (its reason is above)", arguments[0], end->code)));
  }
  fmt::print("{}", RenderValue(done, format));
  return 0;
}

// What the process behind a mount answers.
Result<Json> AskServer(const std::string& directory, const std::string& question, const Clock& clock) {
  ASSIGN_OR_RETURN(const std::string answer, kube::RunProgram(SnapshotterPath(), {"ask", directory, question}, {},
                                                              Deadline::After(clock, kAskLimit), clock));
  return ParseJson(answer);
}

class MountGroup final : public MountCommands {
 public:
  MountGroup(CLI::App& app, std::string* output) {
    CLI::App* group = app.get_subcommand("image");
    mount_ = group->add_subcommand("mount", "mount a converted image lazily: files are fetched as they are read");
    mount_->add_option("image", options_.image, "the original, its digest, or the converted image's digest or tag")
        ->required();
    mount_->add_option("directory", options_.directory, "an empty directory")->required();
    mount_->add_option("--store", options_.store, kStoreHelp)->required();
    mount_->add_option("--platform", options_.platform, "OS/ARCHITECTURE[/VARIANT] (this machine's unless given)");
    mount_->add_option("--cache-folder", options_.cache_folder, "where chunks are kept (ext4, xfs or btrfs)");
    mount_->add_option("--cache-quota", options_.cache_quota, "most that they may take (20GiB unless given)");
    mount_->add_option("--hot-set", options_.hot_set, "file of \"hotset record\": its chunks are fetched first");
    mount_->add_option("--log-file", options_.log_file, "log of the process that serves the mount");
    mount_->add_option("--backing", options_.backing, "auto, file or loop: how EROFS gets at its layers");
    mount_->add_flag("--writable", options_.is_writable, "take writes, which are dropped when it is unmounted");
    AddRegistryOptions(*mount_, &options_.registry);
    unmount_ = group->add_subcommand("unmount", "take a mounted image down, also when its server has died");
    unmount_->add_option("directory", options_.directory)->required();
    unmount_->add_flag("--force", options_.is_forced, "also while it is in use: whoever uses it gets errors");
    hotset_ = group->add_subcommand("hotset", "what a mounted image has read so far");
    hotset_->require_subcommand(1);
    CLI::App* record = hotset_->add_subcommand(
        "record", "print the chunks in the order of their first use, for --hot-set of a later mount (as JSON)");
    record->add_option("directory", options_.directory, "where it is mounted")->required();
    status_ = group->add_subcommand("status",
                                    "how the images of this node came here, and where their bytes came from; or what "
                                    "one mounted image has read");
    status_->add_option("directory", options_.directory,
                        "where an image is mounted; without it those of the node's snapshotter are shown");
    status_->add_option("--socket", options_.socket, "status socket of the node's snapshotter")->capture_default_str();
    for (CLI::App* command : {mount_, unmount_, record, status_}) {
      command->add_option("-o,--output", *output, "table, json or yaml")->capture_default_str();
    }
    for (CLI::App* command : {mount_, unmount_, hotset_, record, status_}) command->fallthrough();
  }

  bool is_given() const override {
    return mount_->parsed() || unmount_->parsed() || hotset_->parsed() || status_->parsed();
  }

  int Run(OutputFormat format, const Clock& clock) override {
    if (mount_->parsed()) return Mount(format, clock);
    if (hotset_->parsed()) return RecordHotSet(format, clock);
    if (status_->parsed()) return options_.directory.empty() ? ShowNode(format, clock) : ShowStatus(format, clock);
    std::vector<std::string> arguments = {"unmount", options_.directory};
    if (options_.is_forced) arguments.emplace_back("--force");
    if (format == OutputFormat::kTable) return Become(std::move(arguments));
    return RunAndTell(std::move(arguments), {{"directory", options_.directory}, {"mounted", false}}, format, clock);
  }

 private:
  int ShowNode(OutputFormat format, const Clock& clock) const {
    const Result<std::string> status =
        AskLocal(options_.socket, "images", kMaxStatusBytes, clock, Deadline::After(clock, kStatusLimit));
    if (!status.ok()) {
      return Fail(
          status.status().Annotate("the snapshotter of this node (--socket says where, a directory asks a mount)"));
    }
    const Result<Table> table = ImageStatusTable(*status);
    if (!table.ok()) return Fail(table.status());
    if (format == OutputFormat::kTable) {
      fmt::print("{}", RenderTable(*table));
    } else {
      fmt::print("{}", RenderValue(ParseJson(*status).value_or(Json()), format));
    }
    return 0;
  }

  Result<std::string> FindDigest(const ImagePlaces& places, const Clock& clock) const {
    blocks::Platform platform = blocks::ThisPlatform();
    if (!options_.platform.empty()) {
      ASSIGN_OR_RETURN(platform, blocks::ParsePlatform(options_.platform));
    }
    ASSIGN_OR_RETURN(const std::unique_ptr<blocks::BlobStore> store,
                     places.OpenStore(options_.store, blocks::StoreAccess::kRead));
    ASSIGN_OR_RETURN(const FoundImage found,
                     places.FindImage(*store, options_.image, platform, Deadline::After(clock, kFindLimit)));
    return found.manifest.descriptor.digest.ToString();
  }

  int ShowStatus(OutputFormat format, const Clock& clock) const {
    const Result<Json> stats = AskServer(options_.directory, "stats", clock);
    if (!stats.ok()) return Fail(stats.status());
    fmt::print("{}", format == OutputFormat::kTable ? RenderTable(MountTable(*stats)) : RenderValue(*stats, format));
    return 0;
  }

  // A document for programs, as large as the image is: JSON goes through as it is.
  int RecordHotSet(OutputFormat format, const Clock& clock) const {
    if (format != OutputFormat::kYaml) return Become({"ask", options_.directory, "hotset"});
    const Result<Json> hot_set = AskServer(options_.directory, "hotset", clock);
    if (!hot_set.ok()) return Fail(hot_set.status());
    fmt::print("{}", RenderValue(*hot_set, format));
    return 0;
  }

  int Mount(OutputFormat format, const Clock& clock) const {
    const ImagePlaces places(options_.registry, clock);
    const Result<std::string> digest = FindDigest(places, clock);
    if (!digest.ok()) return Fail(digest.status());
    std::vector<std::string> arguments = {"serve",   "--daemon", "--store",     options_.store,
                                          "--image", *digest,    "--directory", options_.directory};
    const std::pair<const char*, const std::string*> settings[] = {{"--cache-folder", &options_.cache_folder},
                                                                   {"--cache-quota", &options_.cache_quota},
                                                                   {"--fetch-hot-set", &options_.hot_set},
                                                                   {"--log-file", &options_.log_file},
                                                                   {"--backing", &options_.backing}};
    for (const auto& [flag, value] : settings) {
      if (!value->empty()) arguments.insert(arguments.end(), {flag, *value});
    }
    const std::vector<std::string> access = places.SnapshotterArguments();
    arguments.insert(arguments.end(), access.begin(), access.end());
    if (options_.is_writable) arguments.emplace_back("--writable");
    if (format == OutputFormat::kTable) return Become(std::move(arguments));
    const Json done = {{"directory", options_.directory}, {"mounted", true}, {"image", *digest}};
    return RunAndTell(std::move(arguments), done, format, clock);
  }

  MountOptions options_;
  CLI::App* mount_ = nullptr;
  CLI::App* unmount_ = nullptr;
  CLI::App* hotset_ = nullptr;
  CLI::App* status_ = nullptr;
};

}  // namespace

std::string SnapshotterPath() {
  const RealFileSystem files;
  const Result<std::string> self = files.ReadSymlink("/proc/self/exe");
  if (!self.ok()) return kProgram;
  std::string beside = self->substr(0, self->rfind('/') + 1) + kProgram;
  return access(beside.c_str(), X_OK) == 0 ? beside : kProgram;
}

std::unique_ptr<MountCommands> MountCommands::AddTo(CLI::App& app, std::string* output) {
  return std::make_unique<MountGroup>(app, output);
}

}  // namespace paceline::cli
