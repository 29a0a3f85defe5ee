#include "cli/fs_commands.h"

#include <fmt/format.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/fs_bench.h"
#include "cli/fs_tables.h"
#include "cli/fs_transfer.h"
#include "lib/base/units.h"
#include "lib/hdfs/open.h"

namespace paceline::cli {
namespace {

constexpr Duration kDataLimit = std::chrono::seconds(120);
constexpr Duration kQuiet = std::chrono::minutes(10);  // longer than any close of ours takes

struct FsOptions {
  std::vector<std::string> uris;
  std::string from, to;
  std::string hadoop_config_dir;
  std::string user;
  std::string layout = "plain";
  bool is_recursive = false;
  bool is_forced = false;
  bool lists_directory_itself = false;
  bool makes_parents = false;
  bool sums_up = false;
  int threads = 8;
  std::string size = "1GiB";
  int files = 1;
  int replication = 0;
  bool keeps_files = false;
};

// A filesystem and where in it.
struct Place {
  hdfs::Location location;
  std::shared_ptr<hdfs::FileSystem> fs;
  std::string Show(const std::string& path) const {
    return location.authority.empty() ? fmt::format("{}://{}", location.scheme, path)
                                      : fmt::format("{}://{}{}", location.scheme, location.authority, path);
  }
};

class Runner {
 public:
  Runner(const FsOptions& options, OutputFormat format, Duration limit, const Clock& clock)
      : options_(options), format_(format), limit_(limit), clock_(clock) {}

  Status List();
  Status Stat();
  Status Cat();
  Status Get();
  Status Put();
  Status Remove();
  Status Move();
  Status MakeDirectory();
  Status DiskUsage();
  Status Blocks();
  Status Clean();
  Status Bench();
  Status Prefetch();

 private:
  Result<Place> Open(const std::string& uri);
  Deadline Soon() const { return Deadline::After(clock_, limit_); }
  Status ListBelow(const Place& place, const std::string& path, std::vector<ListedFile>& files);
  Status CleanBelow(const Place& place, const std::string& path, size_t& removed);
  Status AddUsage(hdfs::FileSystem& fs, const std::string& path, const hdfs::FileStatus& status, Usage& usage);
  ProgressSink Progress();
  void PrintFiles(const std::vector<ListedFile>& files) const;
  void Report(std::string_view verb, const TransferResult& result, TimePoint start) const;

  const FsOptions& options_;
  const OutputFormat format_;
  const Duration limit_;
  const Clock& clock_;
  Place opened_;  // the last one: most commands stay on one filesystem
  TimePoint next_progress_{};
};

Result<Place> Runner::Open(const std::string& uri) {
  ASSIGN_OR_RETURN(hdfs::Location location, hdfs::ParseLocation(uri));
  const bool is_same = opened_.fs != nullptr && opened_.location.scheme == location.scheme &&
                       opened_.location.authority == location.authority;
  if (!is_same) {
    hdfs::FileSystemOptions options;
    if (location.scheme != "file") {
      ASSIGN_OR_RETURN(options.config, hdfs::LoadHadoopConfig(options_.hadoop_config_dir));
    }
    options.user = options_.user;
    ASSIGN_OR_RETURN(options.layout, hdfs::ParseWriteLayout(options_.layout));
    ASSIGN_OR_RETURN(opened_.fs, hdfs::OpenFileSystem(location, options, clock_));
  }
  opened_.location = std::move(location);
  return opened_;
}

void Runner::PrintFiles(const std::vector<ListedFile>& files) const {
  if (format_ == OutputFormat::kTable) {
    fmt::print("{}", files.empty() ? "" : RenderTable(FileTable(files)));
    return;
  }
  nlohmann::json list = nlohmann::json::array();
  for (const ListedFile& file : files) list.push_back(FileValue(file));
  fmt::print("{}", RenderValue(list, format_));
}

Status Runner::ListBelow(const Place& place, const std::string& path, std::vector<ListedFile>& files) {
  ASSIGN_OR_RETURN(std::vector<hdfs::FileStatus> entries, hdfs::ListAll(*place.fs, path, Soon()));
  for (hdfs::FileStatus& entry : entries) {
    if (!place.fs->IsVisibleName(entry.name)) continue;
    const std::string below = JoinPath(path, entry.name);
    const bool goes_down = options_.is_recursive && entry.type == hdfs::FileStatus::Type::kDirectory;
    files.push_back({place.Show(below), std::move(entry)});
    if (goes_down) RETURN_IF_ERROR(ListBelow(place, below, files));
  }
  return Status();
}

Status Runner::List() {
  std::vector<ListedFile> files;
  for (const std::string& uri : options_.uris) {
    ASSIGN_OR_RETURN(const Place place, Open(uri));
    const std::string& path = place.location.path;
    ASSIGN_OR_RETURN(const hdfs::FileStatus status, place.fs->Stat(path, Soon()));
    if (status.type != hdfs::FileStatus::Type::kDirectory || options_.lists_directory_itself) {
      files.push_back({place.Show(path), status});
    } else {
      RETURN_IF_ERROR(ListBelow(place, path, files));
    }
  }
  PrintFiles(files);
  return Status();
}

Status Runner::Stat() {
  nlohmann::json list = nlohmann::json::array();
  for (const std::string& uri : options_.uris) {
    ASSIGN_OR_RETURN(const Place place, Open(uri));
    ASSIGN_OR_RETURN(const hdfs::FileStatus status, place.fs->Stat(place.location.path, Soon()));
    list.push_back(FileValue({place.Show(place.location.path), status}));
  }
  // One file reads best as lines of "key: value", which is what YAML is.
  const OutputFormat format = format_ == OutputFormat::kTable ? OutputFormat::kYaml : format_;
  fmt::print("{}", RenderValue(list.size() == 1 ? list.front() : list, format));
  return Status();
}

Status Runner::Cat() {
  std::vector<std::byte> buffer(4 << 20);
  for (const std::string& uri : options_.uris) {
    ASSIGN_OR_RETURN(const Place place, Open(uri));
    ASSIGN_OR_RETURN(const std::unique_ptr<hdfs::Reader> reader, place.fs->Open(place.location.path, Soon()));
    for (uint64_t offset = 0; offset < reader->length_bytes();) {
      reader->Prefetch({.offset = offset, .length = 64 << 20});
      ASSIGN_OR_RETURN(const size_t got, reader->Read(offset, buffer, Deadline::After(clock_, kDataLimit)));
      if (got == 0) return DataLossError(uri + ": shorter than it was when it was opened");
      if (fwrite(buffer.data(), 1, got, stdout) != got) return UnavailableError("cannot write to standard output");
      offset += got;
    }
  }
  return fflush(stdout) == 0 ? Status() : UnavailableError("cannot write to standard output");
}

// A line that is drawn anew on a terminal; nothing elsewhere.
ProgressSink Runner::Progress() {
  if (format_ != OutputFormat::kTable || isatty(STDERR_FILENO) == 0) return nullptr;
  return [this, start = clock_.Now()](uint64_t done, uint64_t total) {
    const TimePoint now = clock_.Now();
    if (now < next_progress_ && done < total) return;
    next_progress_ = now + kProgressPeriod;
    const double seconds = std::max(0.001, ToSeconds(now - start));
    const double rate = static_cast<double>(done) / seconds;
    const double left = rate > 0 ? static_cast<double>(total - std::min(done, total)) / rate : 0;
    const double share = total > 0 ? 100.0 * static_cast<double>(done) / static_cast<double>(total) : 100;
    fmt::print(stderr, "\r\033[K{:5.1f} %  {} of {}  {}/s  {} left{}", share, SizeText(done), SizeText(total),
               SizeText(static_cast<uint64_t>(rate)), FormatSeconds(left), done == total ? "\n" : "");
  };
}

void Runner::Report(std::string_view verb, const TransferResult& result, TimePoint start) const {
  const double seconds = ToSeconds(clock_.Now() - start);
  if (format_ != OutputFormat::kTable) {
    fmt::print("{}", RenderValue({{"files", result.files}, {"bytes", result.bytes}, {"seconds", seconds}}, format_));
    return;
  }
  const double rate = static_cast<double>(result.bytes) / std::max(0.001, seconds);
  fmt::print("{} {} file{}, {} in {} ({}/s)\n", verb, result.files, result.files == 1 ? "" : "s",
             SizeText(result.bytes), FormatSeconds(seconds), SizeText(static_cast<uint64_t>(rate)));
}

Status Runner::Get() {
  ASSIGN_OR_RETURN(const Place place, Open(options_.from));
  const TransferOptions transfer{
      .threads = options_.threads, .call_limit = kDataLimit, .overwrites = options_.is_forced};
  const TimePoint start = clock_.Now();
  ASSIGN_OR_RETURN(const TransferResult result,
                   Download(*place.fs, place.location.path, options_.to, transfer, clock_, Progress()));
  Report("fetched", result, start);
  return Status();
}

Status Runner::Put() {
  ASSIGN_OR_RETURN(const Place place, Open(options_.to));
  const TransferOptions transfer{.call_limit = kDataLimit, .overwrites = options_.is_forced};
  const TimePoint start = clock_.Now();
  ASSIGN_OR_RETURN(const TransferResult result,
                   Upload(*place.fs, options_.from, place.location.path, transfer, clock_, Progress()));
  Report("stored", result, start);
  return Status();
}

Status Runner::Remove() {
  for (const std::string& uri : options_.uris) {
    ASSIGN_OR_RETURN(const Place place, Open(uri));
    if (place.location.path == "/") return InvalidArgumentError(uri + ": the root is not removed");
    const hdfs::RemoveMode mode =
        options_.is_recursive ? hdfs::RemoveMode::kRecursive : hdfs::RemoveMode::kFileOrEmptyDirectory;
    const Status status = place.fs->Remove(place.location.path, mode, Soon());
    if (options_.is_forced && status.code() == StatusCode::kNotFound) continue;
    RETURN_IF_ERROR(status);
  }
  return Status();
}

Status Runner::Move() {
  ASSIGN_OR_RETURN(const Place from, Open(options_.from));
  ASSIGN_OR_RETURN(const Place to, Open(options_.to));
  if (from.location.scheme != to.location.scheme || from.location.authority != to.location.authority) {
    return InvalidArgumentError("a move stays on one filesystem; use get and put");
  }
  std::string target = to.location.path;
  Result<hdfs::FileStatus> there = to.fs->Stat(target, Soon());
  if (there.ok() && there->type == hdfs::FileStatus::Type::kDirectory) {
    target = JoinPath(target, from.location.path.substr(from.location.path.rfind('/') + 1));
  }
  const hdfs::RenameMode mode = options_.is_forced ? hdfs::RenameMode::kOverwrite : hdfs::RenameMode::kFailIfExists;
  const Status status = from.fs->Rename(from.location.path, target, mode, Soon());
  if (status.code() != StatusCode::kAlreadyExists || options_.is_forced) return status;
  return AlreadyExistsError(to.Show(target) + " is there already; --force replaces it");
}

Status Runner::MakeDirectory() {
  for (const std::string& uri : options_.uris) {
    ASSIGN_OR_RETURN(const Place place, Open(uri));
    const std::string& path = place.location.path;
    if (!options_.makes_parents && place.fs->Stat(path, Soon()).ok())
      return AlreadyExistsError(uri + " is there already");
    const hdfs::MkdirsMode mode =
        options_.makes_parents ? hdfs::MkdirsMode::kMakeParents : hdfs::MkdirsMode::kParentMustExist;
    RETURN_IF_ERROR(place.fs->Mkdirs(path, 0755, mode, Soon()));
  }
  return Status();
}

Status Runner::AddUsage(hdfs::FileSystem& fs, const std::string& path, const hdfs::FileStatus& status, Usage& usage) {
  if (status.type != hdfs::FileStatus::Type::kDirectory) {
    ++usage.files;
    usage.bytes += status.length_bytes;
    usage.raw_bytes += status.length_bytes * std::max<uint32_t>(1, status.replication);
    return Status();
  }
  ++usage.directories;
  ASSIGN_OR_RETURN(const std::vector<hdfs::FileStatus> entries, hdfs::ListAll(fs, path, Soon()));
  for (const hdfs::FileStatus& entry : entries) {
    // A folder of stripes is counted with the file that it belongs to.
    if (entry.type == hdfs::FileStatus::Type::kDirectory && !fs.IsVisibleName(entry.name)) continue;
    RETURN_IF_ERROR(AddUsage(fs, JoinPath(path, entry.name), entry, usage));
  }
  return Status();
}

Status Runner::DiskUsage() {
  std::vector<Usage> usages;
  for (const std::string& uri : options_.uris) {
    ASSIGN_OR_RETURN(const Place place, Open(uri));
    const std::string& path = place.location.path;
    ASSIGN_OR_RETURN(const hdfs::FileStatus status, place.fs->Stat(path, Soon()));
    std::vector<std::pair<std::string, hdfs::FileStatus>> roots = {{path, status}};
    if (!options_.sums_up && status.type == hdfs::FileStatus::Type::kDirectory) {
      ASSIGN_OR_RETURN(const std::vector<hdfs::FileStatus> entries, hdfs::ListAll(*place.fs, path, Soon()));
      roots.clear();
      for (const hdfs::FileStatus& entry : entries) roots.emplace_back(JoinPath(path, entry.name), entry);
    }
    for (const auto& [root, root_status] : roots) {
      Usage usage{.path = place.Show(root)};
      RETURN_IF_ERROR(AddUsage(*place.fs, root, root_status, usage));
      usages.push_back(std::move(usage));
    }
  }
  if (format_ == OutputFormat::kTable) {
    fmt::print("{}", usages.empty() ? "" : RenderTable(UsageTable(usages)));
    return Status();
  }
  nlohmann::json list = nlohmann::json::array();
  for (const Usage& usage : usages) list.push_back(UsageValue(usage));
  fmt::print("{}", RenderValue(list, format_));
  return Status();
}

Status Runner::Blocks() {
  ASSIGN_OR_RETURN(const Place place, Open(options_.from));
  ASSIGN_OR_RETURN(const std::vector<hdfs::BlockLocation> blocks,
                   place.fs->Locate(place.location.path, {.offset = 0, .length = INT64_MAX}, Soon()));
  if (format_ == OutputFormat::kTable) {
    fmt::print("{}", blocks.empty() ? "" : RenderTable(BlockTable(blocks)));
    return Status();
  }
  nlohmann::json list = nlohmann::json::array();
  for (const hdfs::BlockLocation& block : blocks) list.push_back(BlockValue(block));
  fmt::print("{}", RenderValue(list, format_));
  return Status();
}

Status Runner::CleanBelow(const Place& place, const std::string& path, size_t& removed) {
  ASSIGN_OR_RETURN(const size_t here, place.fs->RemoveStaleParts(path, kQuiet, Deadline::After(clock_, kDataLimit)));
  removed += here;
  if (!options_.is_recursive) return Status();
  ASSIGN_OR_RETURN(const std::vector<hdfs::FileStatus> entries, hdfs::ListAll(*place.fs, path, Soon()));
  for (const hdfs::FileStatus& entry : entries) {
    if (entry.type != hdfs::FileStatus::Type::kDirectory || !place.fs->IsVisibleName(entry.name)) continue;
    RETURN_IF_ERROR(CleanBelow(place, JoinPath(path, entry.name), removed));
  }
  return Status();
}

Status Runner::Clean() {
  size_t removed = 0;
  for (const std::string& uri : options_.uris) {
    ASSIGN_OR_RETURN(const Place place, Open(uri));
    RETURN_IF_ERROR(CleanBelow(place, place.location.path, removed));
  }
  if (format_ == OutputFormat::kTable) {
    fmt::print("removed {} hidden file{} and folders of dead writers\n", removed, removed == 1 ? "" : "s");
  } else {
    fmt::print("{}", RenderValue({{"removed", removed}}, format_));
  }
  return Status();
}

Status Runner::Bench() {
  ASSIGN_OR_RETURN(const ByteSize size, ParseByteSize(options_.size));
  if (size.bytes == 0) return InvalidArgumentError("--size: there is nothing to measure in an empty file");
  ASSIGN_OR_RETURN(const Place place, Open(options_.from));
  const std::string& path = place.location.path;
  ASSIGN_OR_RETURN(const hdfs::FileStatus status, place.fs->Stat(path, Soon()));
  const BenchOptions bench{.file_bytes = size.bytes,
                           .files = options_.files,
                           .replication = static_cast<uint32_t>(options_.replication),
                           .keeps_files = options_.keeps_files,
                           .call_limit = kDataLimit};
  std::vector<BenchResult> results;
  if (status.type == hdfs::FileStatus::Type::kDirectory) {
    ASSIGN_OR_RETURN(results, BenchDirectory(*place.fs, path, bench, clock_, Progress()));
  } else {
    ASSIGN_OR_RETURN(const BenchResult read, BenchFile(*place.fs, path, bench, clock_, Progress()));
    results.push_back(read);
  }
  if (format_ == OutputFormat::kTable) {
    fmt::print("{}", RenderTable(BenchTable(results)));
    return Status();
  }
  nlohmann::json list = nlohmann::json::array();
  for (const BenchResult& result : results) list.push_back(BenchValue(result));
  fmt::print("{}", RenderValue(list, format_));
  return Status();
}

// The mount answers to this attribute: docs/hdfs-mount.md. No socket of it need be in reach, as inside of a pod.
Status Runner::Prefetch() {
  for (const std::string& path : options_.uris) {
    char answer[128];
    const ssize_t size = getxattr(path.c_str(), "user.paceline.prefetch", answer, sizeof answer);
    if (size < 0 && (errno == ENODATA || errno == EOPNOTSUPP)) {
      return InvalidArgumentError(path + ": no file of a paceline-hdfs-mount, or one that is being written");
    }
    if (size < 0) return ErrnoStatus(errno, path);
    if (format_ == OutputFormat::kTable)
      fmt::print("{}: {}\n", path, std::string_view(answer, static_cast<size_t>(size)));
  }
  return Status();
}

using Body = Status (Runner::*)();

class FsGroup final : public FsCommands {
 public:
  FsGroup(CLI::App& app, std::string* output) : output_(output) {
    group_ = app.add_subcommand("fs", "files on HDFS (hdfs://host:port/path) or in a folder (file:///path)");
    group_->require_subcommand(1)->fallthrough();
    group_->add_option("--hadoop-config-dir", options_.hadoop_config_dir,
                       "folder of core-site.xml and hdfs-site.xml ($HADOOP_CONF_DIR unless given)");
    group_->add_option("--user", options_.user, "HDFS user ($HADOOP_USER_NAME, else you)");
    AddListing();
    AddChanging();
    CLI::App* get = AddPair("get", "fetch a file or a directory", "uri", "local", &Runner::Get);
    get->add_option("--threads", options_.threads, "pieces of a file fetched at once")
        ->check(CLI::Range(1, 256))
        ->capture_default_str();
    AddForce(*get);
    CLI::App* put = AddPair("put", "store a file or a directory", "local", "uri", &Runner::Put);
    AddForce(*put);
    AddLayout(*put);
    AddMeasuring();
  }

  bool is_given() const override { return group_->parsed(); }

  int Run(OutputFormat format, Duration limit, const Clock& clock) override {
    Runner runner(options_, format, limit, clock);
    for (const auto& [command, body] : bodies_) {
      if (!command->parsed()) continue;
      const Status status = (runner.*body)();
      if (status.ok()) return 0;
      return Fail(status);
    }
    return 2;
  }

 private:
  CLI::App* Add(const std::string& name, const std::string& help, Body body) {
    CLI::App* command = group_->add_subcommand(name, help);
    command->add_option("-o,--output", *output_, "table, json or yaml")->capture_default_str();
    command->fallthrough();
    bodies_.emplace_back(command, body);
    return command;
  }
  CLI::App* AddMany(const std::string& name, const std::string& help, Body body) {
    CLI::App* command = Add(name, help, body);
    command->add_option("uri", options_.uris, "one or more")->required();
    return command;
  }
  CLI::App* AddPair(const std::string& name, const std::string& help, const char* first, const char* second,
                    Body body) {
    CLI::App* command = Add(name, help, body);
    command->add_option(first, options_.from)->required();
    command->add_option(second, options_.to)->required();
    return command;
  }
  void AddForce(CLI::App& command) { command.add_flag("-f,--force", options_.is_forced, "replace what is there"); }

  void AddLayout(CLI::App& command) {
    command
        .add_option("--layout", options_.layout,
                    "plain: ordinary files, written in parallel; single: by one pipeline; striped: dealt over several "
                    "files, which only Paceline reads")
        ->check(CLI::IsMember({"plain", "single", "striped"}))
        ->capture_default_str();
  }

  void AddMeasuring() {
    CLI::App* bench =
        Add("bench", "measure how fast a directory is written and read, or a file is read", &Runner::Bench);
    bench->add_option("uri", options_.from, "a directory, for files that are removed again, or a file to read")
        ->required();
    bench->add_option("--size", options_.size, "of each file that is written")->capture_default_str();
    bench->add_option("--files", options_.files, "files written and read at once")
        ->check(CLI::Range(1, 256))
        ->capture_default_str();
    bench->add_option("--replication", options_.replication, "of the files that are written; 0: the server's default")
        ->check(CLI::Range(0, 512));
    bench->add_flag("--keep", options_.keeps_files, "do not remove them");
    AddLayout(*bench);
    Add("prefetch", "tell a mount that files will be read, so that it loads them before they are opened",
        &Runner::Prefetch)
        ->add_option("path", options_.uris, "files and directories on a paceline-hdfs-mount, one or more")
        ->required();
  }

  void AddListing() {
    CLI::App* ls = AddMany("ls", "list files and directories", &Runner::List);
    ls->add_flag("-R,--recursive", options_.is_recursive, "with all below");
    ls->add_flag("-d,--directory", options_.lists_directory_itself, "a directory itself, not what is in it");
    AddMany("stat", "all that is known of a file", &Runner::Stat);
    AddMany("cat", "print files", &Runner::Cat);
    AddMany("du", "sizes of what is in a directory", &Runner::DiskUsage)
        ->add_flag("-s,--summarize", options_.sums_up, "one line for each argument");
    Add("blocks", "where each block of a file lies", &Runner::Blocks)->add_option("uri", options_.from)->required();
  }
  void AddChanging() {
    CLI::App* rm = AddMany("rm", "remove files and empty directories", &Runner::Remove);
    rm->add_flag("-r,--recursive", options_.is_recursive, "directories with all that is in them");
    rm->add_flag("-f,--force", options_.is_forced, "what is not there is fine");
    AddForce(*AddPair("mv", "rename, or move into a directory", "from", "to", &Runner::Move));
    AddMany("clean", "remove hidden files in directories that writers of Paceline left when they died", &Runner::Clean)
        ->add_flag("-R,--recursive", options_.is_recursive, "also in the directories below");
    AddMany("mkdir", "make directories", &Runner::MakeDirectory)
        ->add_flag("-p,--parents", options_.makes_parents, "with those above, and fine when it is there");
  }

  std::string* output_;
  FsOptions options_;
  CLI::App* group_;
  std::vector<std::pair<CLI::App*, Body>> bodies_;
};

}  // namespace

std::unique_ptr<FsCommands> FsCommands::AddTo(CLI::App& app, std::string* output) {
  return std::make_unique<FsGroup>(app, output);
}

}  // namespace paceline::cli
