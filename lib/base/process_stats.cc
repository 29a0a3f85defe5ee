#include "lib/base/process_stats.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <memory>

#include "lib/base/unique_fd.h"

namespace paceline {

namespace {

// Takes the next blank-separated word off `text`; empty at the end.
std::string_view TakeWord(std::string_view& text) {
  const size_t start = text.find_first_not_of(" \n");
  if (start == std::string_view::npos) return text = {};
  text.remove_prefix(start);
  const std::string_view word = text.substr(0, text.find_first_of(" \n"));
  text.remove_prefix(word.size());
  return word;
}

bool ParseNumber(std::string_view word, uint64_t& number) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size() && !word.empty();
}

Result<std::string> ReadProcFile(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_valid()) return ErrnoStatus(errno, "open " + path);
  std::string text;
  char buffer[4096];
  ssize_t count = 0;
  while ((count = ::read(fd.get(), buffer, sizeof buffer)) > 0) text.append(buffer, count);
  if (count < 0) return ErrnoStatus(errno, "read " + path);
  return text;
}

Result<uint64_t> CountDescriptors(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(path.c_str()), ::closedir);
  if (dir == nullptr) return ErrnoStatus(errno, "open " + path);
  uint64_t count = 0;
  while (const dirent* entry = ::readdir(dir.get())) {
    if (entry->d_name[0] != '.') ++count;
  }
  return count - 1;  // the one that this very listing holds open
}

}  // namespace

Result<ProcessStats> ParseProcStat(std::string_view stat, double boot_time_seconds, const ProcUnits& units) {
  // Field 2 is the name in brackets, unescaped: only the last closing bracket is certain to end it.
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return InvalidArgumentError("/proc/<pid>/stat has no process name");
  std::string_view rest = stat.substr(name_end + 1);
  uint64_t user_ticks = 0, system_ticks = 0, start_ticks = 0, resident_pages = 0;
  ProcessStats stats;
  // Numbers of fields as in proc(5).
  const struct {
    int field;
    uint64_t* value;
  } wanted[] = {{14, &user_ticks},  {15, &system_ticks},        {20, &stats.threads},
                {22, &start_ticks}, {23, &stats.virtual_bytes}, {24, &resident_pages}};
  int field = 2;
  for (const auto& want : wanted) {
    std::string_view word;
    for (; field < want.field; ++field) word = TakeWord(rest);
    if (!ParseNumber(word, *want.value)) {
      return InvalidArgumentError(fmt::format("field {} of /proc/<pid>/stat is \"{}\"", want.field, word));
    }
  }
  const double ticks = static_cast<double>(units.ticks_per_second);
  stats.cpu_seconds = static_cast<double>(user_ticks + system_ticks) / ticks;
  stats.start_time_seconds = boot_time_seconds + static_cast<double>(start_ticks) / ticks;
  stats.resident_bytes = resident_pages * units.page_bytes;
  return stats;
}

Result<double> ParseBootTime(std::string_view proc_stat) {
  while (!proc_stat.empty()) {
    std::string_view line = proc_stat.substr(0, proc_stat.find('\n'));
    proc_stat.remove_prefix(std::min(proc_stat.size(), line.size() + 1));
    uint64_t seconds = 0;
    if (TakeWord(line) == "btime" && ParseNumber(TakeWord(line), seconds)) return static_cast<double>(seconds);
  }
  return NotFoundError("/proc/stat has no btime line");
}

Result<ProcessStats> ReadOwnProcessStats(const std::string& proc_root) {
  ASSIGN_OR_RETURN(const std::string machine, ReadProcFile(proc_root + "/stat"));
  ASSIGN_OR_RETURN(const double boot_time, ParseBootTime(machine));
  ASSIGN_OR_RETURN(const std::string own, ReadProcFile(proc_root + "/self/stat"));
  const ProcUnits units{static_cast<uint64_t>(::sysconf(_SC_CLK_TCK)), static_cast<uint64_t>(::sysconf(_SC_PAGESIZE))};
  ASSIGN_OR_RETURN(ProcessStats stats, ParseProcStat(own, boot_time, units));
  ASSIGN_OR_RETURN(stats.open_descriptors, CountDescriptors(proc_root + "/self/fd"));
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return ErrnoStatus(errno, "getrlimit");
  stats.max_descriptors = limit.rlim_cur;
  return stats;
}

}  // namespace paceline
