#include "agent/facts/kernel_facts.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace paceline::agent {
namespace {

// Where an EROFS image may be mounted from a plain file: Linux 6.12 brought CONFIG_EROFS_FS_BACKED_BY_FILE.
constexpr KernelVersion kFileBackedErofsSince{6, 12};

constexpr size_t kSmallFileBytes = 4 * 1024 * 1024;
constexpr size_t kSymbolsBytes = 128 * 1024 * 1024;  // /proc/kallsyms, about 10 MB

std::optional<std::string> Read(const FileSystem& files, const std::string& path, size_t max_bytes = kSmallFileBytes) {
  Result<std::string> text = files.ReadFile(path, max_bytes);
  if (!text.ok()) return std::nullopt;  // whoever asks says what it could not see
  return *std::move(text);
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ' || text.back() == '\0')) text.remove_suffix(1);
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  return text;
}

// Calls `visit` with each line until it returns false.
template <typename Visit>
void ForEachLine(std::string_view text, Visit visit) {
  while (!text.empty()) {
    size_t end = text.find('\n');
    if (!visit(text.substr(0, end))) return;
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

bool HasFilesystem(std::string_view proc_filesystems, std::string_view name) {
  bool is_found = false;
  ForEachLine(proc_filesystems, [&](std::string_view line) {
    size_t tab = line.rfind('\t');
    is_found = Trim(tab == std::string_view::npos ? line : line.substr(tab + 1)) == name;
    return !is_found;
  });
  return is_found;
}

// True when `list` (modules.dep or modules.builtin) names the module file `module`.ko, compressed or not.
bool NamesModule(std::string_view list, std::string_view module) {
  bool is_found = false;
  const std::string file = fmt::format("/{}.ko", module);
  ForEachLine(list, [&](std::string_view line) {
    is_found = line.substr(0, line.find(':')).find(file) != std::string_view::npos;
    return !is_found;
  });
  return is_found;
}

FeatureFact FilesystemFact(const FileSystem& files, const std::string& release, std::string_view name) {
  std::optional<std::string> filesystems = Read(files, "/proc/filesystems");
  if (!filesystems) return {Support::kUnknown, "cannot read /proc/filesystems"};
  if (HasFilesystem(*filesystems, name)) return {Support::kYes, "in /proc/filesystems"};

  const std::string modules = "/lib/modules/" + release;
  std::optional<std::string> dependencies = Read(files, modules + "/modules.dep");
  if (!dependencies) return {Support::kUnknown, fmt::format("not loaded, and {} cannot be read", modules)};
  if (NamesModule(*dependencies, name)) return {Support::kYes, fmt::format("module {}, not loaded", name)};
  return {Support::kNo, fmt::format("neither in /proc/filesystems nor in {}", modules)};
}

// Looks for a line that is exactly "<option>=y"; nullopt when the option is not mentioned at all.
std::optional<bool> KernelConfigHas(std::string_view config, std::string_view option) {
  std::optional<bool> answer;
  const std::string enabled = fmt::format("{}=y", option);
  const std::string disabled = fmt::format("# {} is not set", option);
  ForEachLine(config, [&](std::string_view line) {
    if (line == enabled) answer = true;
    if (line == disabled) answer = false;
    return !answer.has_value();
  });
  return answer;
}

FeatureFact FileBackedErofsFact(const FileSystem& files, const std::string& release, const FeatureFact& erofs) {
  if (erofs.support == Support::kNo) return {Support::kNo, "no EROFS"};
  if (ParseKernelVersion(release) < kFileBackedErofsSince) {
    return {Support::kNo, fmt::format("needs Linux {}.{}", kFileBackedErofsSince.major, kFileBackedErofsSince.minor)};
  }
  std::optional<std::string> symbols = Read(files, "/proc/kallsyms", kSymbolsBytes);
  if (symbols && symbols->find(" erofs_fileio_") != std::string::npos) return {Support::kYes, "in the running kernel"};
  std::optional<std::string> config = Read(files, "/boot/config-" + release);
  if (config) {
    std::optional<bool> enabled = KernelConfigHas(*config, "CONFIG_EROFS_FS_BACKED_BY_FILE");
    if (enabled) return {*enabled ? Support::kYes : Support::kNo, "CONFIG_EROFS_FS_BACKED_BY_FILE"};
  }
  return {Support::kUnknown, "new enough; the kernel's configuration and symbols do not tell"};
}

FeatureFact FuseFact(const FileSystem& files, const std::string& release) {
  FeatureFact filesystem = FilesystemFact(files, release, "fuse");
  if (filesystem.support == Support::kNo) return filesystem;
  Result<FileInfo> device = files.Stat("/dev/fuse");
  if (!device.ok()) return {Support::kNo, "no /dev/fuse"};
  if (device->type != FileInfo::Type::kOther) return {Support::kNo, "/dev/fuse is not a device"};
  return {Support::kYes, "/dev/fuse; file system " + filesystem.detail};
}

std::string CgroupVersion(const FileSystem& files) {
  const auto has = [&files](const char* path) { return files.Stat(path).ok(); };
  if (has("/sys/fs/cgroup/cgroup.controllers")) return "v2";
  const bool has_v1 = has("/sys/fs/cgroup/memory") || has("/sys/fs/cgroup/cpu");
  if (!has_v1) return "unknown";
  return has("/sys/fs/cgroup/unified/cgroup.controllers") ? "hybrid" : "v1";
}

}  // namespace

KernelVersion ParseKernelVersion(std::string_view release) {
  KernelVersion version;
  const char* end = release.data() + release.size();
  auto major = std::from_chars(release.data(), end, version.major);
  if (major.ec != std::errc() || major.ptr == end || *major.ptr != '.') return {};
  auto minor = std::from_chars(major.ptr + 1, end, version.minor);
  if (minor.ec != std::errc() || version.major < 0 || version.minor < 0) return {};
  return version;
}

int CountCpuList(std::string_view list) {
  constexpr int kMostCpus = 1 << 20;  // far above any machine; a larger number is garbage
  list = Trim(list);
  int count = 0;
  while (!list.empty()) {
    std::string_view range = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), range.size() + 1));
    int first = 0;
    const char* end = range.data() + range.size();
    auto parsed = std::from_chars(range.data(), end, first);
    if (parsed.ec != std::errc() || first < 0 || first > kMostCpus) return 0;
    int last = first;
    if (parsed.ptr != end) {
      if (*parsed.ptr != '-') return 0;
      parsed = std::from_chars(parsed.ptr + 1, end, last);
      if (parsed.ec != std::errc() || parsed.ptr != end || last < first || last > kMostCpus) return 0;
    }
    count += last - first + 1;
  }
  return count;
}

std::string ParseOsImage(std::string_view os_release) {
  constexpr std::string_view kKey = "PRETTY_NAME=";
  std::string name;
  ForEachLine(os_release, [&](std::string_view line) {
    if (line.substr(0, kKey.size()) != kKey) return true;
    std::string_view value = Trim(line.substr(kKey.size()));
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
    name = value;
    return false;
  });
  return name;
}

uint64_t ParseMemTotal(std::string_view meminfo) {
  constexpr std::string_view kKey = "MemTotal:";
  uint64_t bytes = 0;
  ForEachLine(meminfo, [&](std::string_view line) {
    if (line.substr(0, kKey.size()) != kKey) return true;
    std::string_view number = Trim(line.substr(kKey.size()));
    uint64_t kibibytes = 0;
    auto parsed = std::from_chars(number.data(), number.data() + number.size(), kibibytes);
    if (parsed.ec == std::errc() && kibibytes <= UINT64_MAX / 1024) bytes = kibibytes * 1024;
    return false;
  });
  return bytes;
}

void CollectKernelFacts(const FileSystem& files, NodeFacts* facts) {
  std::optional<std::string> release = Read(files, "/proc/sys/kernel/osrelease");
  facts->kernel_release = release ? std::string(Trim(*release)) : "unknown";
  struct utsname names {};
  if (uname(&names) == 0) facts->architecture = names.machine;
  facts->os_image = ParseOsImage(Read(files, "/etc/os-release").value_or(""));

  facts->erofs = FilesystemFact(files, facts->kernel_release, "erofs");
  facts->file_backed_erofs = FileBackedErofsFact(files, facts->kernel_release, facts->erofs);
  facts->overlayfs = FilesystemFact(files, facts->kernel_release, "overlay");
  facts->fuse = FuseFact(files, facts->kernel_release);
  facts->cgroup_version = CgroupVersion(files);
  facts->cpu_count = CountCpuList(Read(files, "/sys/devices/system/cpu/online").value_or(""));
  facts->memory_bytes = ParseMemTotal(Read(files, "/proc/meminfo").value_or(""));
}

}  // namespace paceline::agent
