#include "agent/facts/kernel_facts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <optional>

namespace paceline::agent {
namespace {

// Where an EROFS image may be mounted from a plain file: Linux 6.12 brought CONFIG_EROFS_FS_BACKED_BY_FILE.
constexpr KernelVersion kFileBackedErofsSince{6, 12};

// Files of /proc have no size to go by; what we read there is small, so a limit guards against a wrong root.
std::optional<std::string> ReadSmallFile(const std::string& path) {
  constexpr size_t kLimitBytes = 4 * 1024 * 1024;
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  std::string text;
  char piece[16 * 1024];
  while (text.size() < kLimitBytes && (in.read(piece, sizeof piece) || in.gcount() > 0)) {
    text.append(piece, static_cast<size_t>(in.gcount()));
  }
  return text;
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

FeatureFact FilesystemFact(const std::string& root, const std::string& release, std::string_view name) {
  std::optional<std::string> filesystems = ReadSmallFile(root + "/proc/filesystems");
  if (!filesystems) return {Support::kUnknown, "cannot read /proc/filesystems"};
  if (HasFilesystem(*filesystems, name)) return {Support::kYes, "in /proc/filesystems"};

  const std::string modules = "/lib/modules/" + release;
  std::optional<std::string> dependencies = ReadSmallFile(root + modules + "/modules.dep");
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

// True when the running kernel has a function of EROFS's file backend. The list is long, so it is read line by line.
bool KernelSymbolsNameErofsFileBackend(const std::string& root) {
  std::ifstream symbols(root + "/proc/kallsyms");
  for (std::string line; std::getline(symbols, line);) {
    if (line.find(" erofs_fileio_") != std::string::npos) return true;
  }
  return false;
}

FeatureFact FileBackedErofsFact(const std::string& root, const std::string& release, const FeatureFact& erofs) {
  if (erofs.support == Support::kNo) return {Support::kNo, "no EROFS"};
  if (ParseKernelVersion(release) < kFileBackedErofsSince) {
    return {Support::kNo, fmt::format("needs Linux {}.{}", kFileBackedErofsSince.major, kFileBackedErofsSince.minor)};
  }
  if (KernelSymbolsNameErofsFileBackend(root)) return {Support::kYes, "in the running kernel"};
  std::optional<std::string> config = ReadSmallFile(root + "/boot/config-" + release);
  if (config) {
    std::optional<bool> enabled = KernelConfigHas(*config, "CONFIG_EROFS_FS_BACKED_BY_FILE");
    if (enabled) return {*enabled ? Support::kYes : Support::kNo, "CONFIG_EROFS_FS_BACKED_BY_FILE"};
  }
  return {Support::kUnknown, "new enough; the kernel's configuration and symbols do not tell"};
}

FeatureFact FuseFact(const std::string& root, const std::string& release) {
  FeatureFact filesystem = FilesystemFact(root, release, "fuse");
  if (filesystem.support == Support::kNo) return filesystem;
  struct stat info {};
  if (stat((root + "/dev/fuse").c_str(), &info) != 0) return {Support::kNo, "no /dev/fuse"};
  if (!S_ISCHR(info.st_mode)) return {Support::kNo, "/dev/fuse is not a device"};
  return {Support::kYes, "/dev/fuse; file system " + filesystem.detail};
}

std::string CgroupVersion(const std::string& root) {
  const auto has = [&root](const char* path) { return access((root + path).c_str(), F_OK) == 0; };
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

void CollectKernelFacts(const std::string& root_path, NodeFacts* facts) {
  const std::string root = root_path == "/" ? "" : root_path;
  std::optional<std::string> release = ReadSmallFile(root + "/proc/sys/kernel/osrelease");
  facts->kernel_release = release ? std::string(Trim(*release)) : "unknown";
  struct utsname names {};
  if (uname(&names) == 0) facts->architecture = names.machine;

  facts->erofs = FilesystemFact(root, facts->kernel_release, "erofs");
  facts->file_backed_erofs = FileBackedErofsFact(root, facts->kernel_release, facts->erofs);
  facts->overlayfs = FilesystemFact(root, facts->kernel_release, "overlay");
  facts->fuse = FuseFact(root, facts->kernel_release);
  facts->cgroup_version = CgroupVersion(root);
  facts->cpu_count = CountCpuList(ReadSmallFile(root + "/sys/devices/system/cpu/online").value_or(""));
  facts->memory_bytes = ParseMemTotal(ReadSmallFile(root + "/proc/meminfo").value_or(""));
}

}  // namespace paceline::agent
