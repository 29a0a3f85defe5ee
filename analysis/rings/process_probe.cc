#include "analysis/rings/process_probe.h"

#include <algorithm>
#include <charconv>
#include <vector>

namespace paceline::analysis {

namespace {

using namespace std::chrono_literals;

constexpr size_t kMaxFile = 64 * 1024;
constexpr Duration kLeastWindow = 1s;  // shares of less are noise
constexpr Duration kListPeriod = 5s;   // proxy threads come with communicators
constexpr std::string_view kProxyThread = "NCCL Progress";

std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  while (true) {
    const size_t begin = text.find_first_not_of(" \t\n");
    if (begin == std::string_view::npos) return words;
    text.remove_prefix(begin);
    const size_t end = std::min(text.find_first_of(" \t\n"), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

bool ReadNumber(std::string_view text, int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 0;
}

double ShareOf(Duration part, Duration whole) { return std::clamp(ToSeconds(part) / ToSeconds(whole), 0.0, 1.0); }

}  // namespace

Result<char> ParseProcessState(std::string_view stat) {
  const size_t bracket = stat.rfind(')');
  if (bracket == std::string_view::npos || bracket + 2 >= stat.size() || stat[bracket + 1] != ' ') {
    return InvalidArgumentError("process state: malformed stat");
  }
  return stat[bracket + 2];
}

Result<SchedulerTimes> ParseSchedulerTimes(std::string_view schedstat) {
  const std::vector<std::string_view> words = Words(schedstat);
  int64_t running = 0, waiting = 0;
  if (words.size() < 3 || !ReadNumber(words[0], running) || !ReadNumber(words[1], waiting)) {
    return InvalidArgumentError("scheduler times: malformed schedstat");
  }
  return SchedulerTimes{Duration(running), Duration(waiting)};
}

Result<std::string> ParseCpuCgroup(std::string_view cgroup) {
  std::string unified;
  while (!cgroup.empty()) {
    const size_t end = std::min(cgroup.find('\n'), cgroup.size());
    const std::string_view line = cgroup.substr(0, end);
    cgroup.remove_prefix(std::min(end + 1, cgroup.size()));
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string controllers(line.substr(first + 1, second - first - 1));
    const std::string path(line.substr(second + 1));
    // Controllers that are mounted together share a folder with all their names.
    if (("," + controllers + ",").find(",cpu,") != std::string::npos) return controllers + path;
    if (controllers.empty()) unified = path;
  }
  if (unified.empty()) return NotFoundError("cpu cgroup: no such line");
  return unified;
}

Result<Duration> ParseThrottled(std::string_view cpu_stat) {
  const std::vector<std::string_view> words = Words(cpu_stat);
  for (size_t i = 0; i + 1 < words.size(); i++) {
    int64_t number = 0;
    if (words[i] != "throttled_usec" && words[i] != "throttled_time") continue;
    if (!ReadNumber(words[i + 1], number)) return InvalidArgumentError("cpu.stat: malformed");
    return words[i] == "throttled_usec" ? Duration(std::chrono::microseconds(number)) : Duration(number);
  }
  return NotFoundError("cpu.stat: no throttled time");
}

Result<uint64_t> ParseIoBytes(std::string_view io) {
  const std::vector<std::string_view> words = Words(io);
  uint64_t bytes = 0;
  int found = 0;
  for (size_t i = 0; i + 1 < words.size(); i++) {
    if (words[i] != "rchar:" && words[i] != "wchar:") continue;
    int64_t number = 0;
    if (!ReadNumber(words[i + 1], number)) return InvalidArgumentError("io: malformed");
    bytes += static_cast<uint64_t>(number);
    found++;
  }
  return found == 2 ? Result<uint64_t>(bytes) : InvalidArgumentError("io: no rchar and wchar");
}

ProcessState ProcessProbe::StateOf(int64_t pid) const {
  const Result<std::string> stat = files_.ReadFile(proc_root_ + "/" + std::to_string(pid) + "/stat", kMaxFile);
  if (!stat.ok()) return ProcessState::kUnknown;
  const Result<char> state = ParseProcessState(*stat);
  if (!state.ok()) return ProcessState::kUnknown;
  if (*state == 'T' || *state == 't') return ProcessState::kStopped;
  return *state == 'Z' || *state == 'X' ? ProcessState::kDead : ProcessState::kRunning;
}

void ProcessProbe::ListProxyThreads(int64_t pid, Seen& seen) const {
  const std::string tasks = proc_root_ + "/" + std::to_string(pid) + "/task";
  const Result<std::vector<std::string>> threads = files_.List(tasks);
  if (!threads.ok()) return;
  std::map<std::string, SchedulerTimes> found;
  for (const std::string& thread : *threads) {
    const Result<std::string> name = files_.ReadFile(tasks + "/" + thread + "/comm", kMaxFile);
    if (!name.ok() || name->rfind(kProxyThread, 0) != 0) continue;
    const auto known = seen.threads.find(thread);
    found[thread] = known != seen.threads.end() ? known->second : SchedulerTimes{Duration(-1), Duration(-1)};
  }
  seen.threads = std::move(found);
}

std::optional<Duration> ProcessProbe::ThrottledOf(int64_t pid) const {
  const Result<std::string> text = files_.ReadFile(proc_root_ + "/" + std::to_string(pid) + "/cgroup", kMaxFile);
  if (!text.ok()) return std::nullopt;
  const Result<std::string> path = ParseCpuCgroup(*text);
  if (!path.ok()) return std::nullopt;
  const std::string slash = path->front() == '/' ? "" : "/";
  const Result<std::string> stat = files_.ReadFile(cgroup_root_ + slash + *path + "/cpu.stat", kMaxFile);
  if (!stat.ok()) return std::nullopt;
  const Result<Duration> throttled = ParseThrottled(*stat);
  return throttled.ok() ? std::optional(*throttled) : std::nullopt;
}

std::optional<ProxyThreadView> ProcessProbe::ProxyThreadOf(int64_t pid, TimePoint now) {
  const auto [place, is_new] = processes_.try_emplace(pid);
  Seen& seen = place->second;
  if (!is_new && now - seen.at < kLeastWindow) return seen.view;
  if (is_new || now - seen.listed >= kListPeriod) {
    ListProxyThreads(pid, seen);
    seen.listed = now;
  }
  std::optional<ProxyThreadView> view;
  const Duration window = now - seen.at;
  for (auto& [thread, before] : seen.threads) {
    const std::string path = proc_root_ + "/" + std::to_string(pid) + "/task/" + thread + "/schedstat";
    const Result<std::string> text = files_.ReadFile(path, kMaxFile);
    const Result<SchedulerTimes> times = text.ok() ? ParseSchedulerTimes(*text) : Result<SchedulerTimes>(text.status());
    if (!times.ok()) continue;
    if (!is_new && before.running >= Duration::zero()) {
      const double waiting = ShareOf(times->waiting - before.waiting, window);
      if (!view || waiting > view->waiting) view = {ShareOf(times->running - before.running, window), waiting, 0};
    }
    before = *times;
  }
  const std::optional<Duration> throttled = ThrottledOf(pid);
  if (view && throttled && seen.throttled) view->throttled = ShareOf(*throttled - *seen.throttled, window);
  seen.throttled = throttled;
  seen.at = now;
  seen.view = view;
  return view;
}

std::optional<double> ProcessProbe::IoRateOf(int64_t pid, TimePoint now) {
  const auto place = io_.find(pid);
  if (place != io_.end() && now - place->second.at < kLeastWindow) return place->second.rate;
  const Result<std::string> text = files_.ReadFile(proc_root_ + "/" + std::to_string(pid) + "/io", kMaxFile);
  const Result<uint64_t> bytes = text.ok() ? ParseIoBytes(*text) : Result<uint64_t>(text.status());
  if (!bytes.ok()) {
    io_.erase(pid);
    return std::nullopt;
  }
  SeenIo seen{*bytes, now, std::nullopt};
  if (place != io_.end()) {
    const uint64_t moved = *bytes - std::min(*bytes, place->second.bytes);
    seen.rate = static_cast<double>(moved) / ToSeconds(now - place->second.at);
  }
  io_[pid] = seen;
  return seen.rate;
}

}  // namespace paceline::analysis
