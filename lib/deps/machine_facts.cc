#include "lib/deps/machine_facts.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "lib/base/filesystem.h"
#include "lib/deps/command.h"

namespace paceline::deps {
namespace {

constexpr Duration kInterpreterLimit = std::chrono::seconds(20);
// Isolated and without site: only what the interpreter itself is.
constexpr char kAskPython[] =
    "import sys; print(sys.implementation.cache_tag, '.'.join(map(str, sys.version_info[:3])), sys.base_prefix)";

std::string LibcName() {
  char text[64] = "";
  const size_t size = confstr(_CS_GNU_LIBC_VERSION, text, sizeof text);
  return size > 1 && size <= sizeof text ? text : "unknown";
}

std::string Value(const std::map<std::string, std::string>& map, const std::string& name) {
  const auto found = map.find(name);
  return found == map.end() ? "" : found->second;
}

Result<std::string> AskPython(const std::string& name, const std::map<std::string, std::string>& environment,
                              const Clock& clock) {
  std::vector<std::string> variables;
  for (const auto& [key, value] : environment) variables.push_back(key + "=" + value);
  Result<std::string> answer = AskProgram({name, "-I", "-S", "-c", kAskPython}, Value(environment, "PATH"), variables,
                                          clock, Deadline::After(clock, kInterpreterLimit));
  if (!answer.ok() && answer.status().code() == StatusCode::kNotFound) return std::string("absent");
  if (!answer.ok()) return answer;
  while (answer->ends_with('\n')) answer->pop_back();
  return answer;
}

}  // namespace

std::string SystemName(std::string_view os_release) {
  std::string id = "unknown", version;
  while (!os_release.empty()) {
    const size_t end = std::min(os_release.find('\n'), os_release.size());
    const std::string_view line = os_release.substr(0, end);
    os_release.remove_prefix(std::min(end + 1, os_release.size()));
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    std::string value;
    for (const char c : line.substr(equals + 1)) {
      if (c != '"' && c != '\'' && c != '\r') value += c;
    }
    if (line.substr(0, equals) == "ID") id = value;
    if (line.substr(0, equals) == "VERSION_ID") version = value;
  }
  return version.empty() ? id : id + " " + version;
}

std::pair<int, int> GlibcVersion(std::string_view libc) {
  std::pair<int, int> version{0, 0};
  if (std::sscanf(std::string(libc).c_str(), "glibc %d.%d", &version.first, &version.second) != 2) return {0, 0};
  return version;
}

Result<MachineFacts> ReadMachineFacts(const std::vector<std::string>& interpreters,
                                      const std::map<std::string, std::string>& environment, const Clock& clock) {
  MachineFacts facts;
  utsname name = {};
  if (uname(&name) != 0) return ErrnoStatus(errno, "uname");
  facts.arch = name.machine;
  facts.libc = LibcName();
  facts.system = SystemName(RealFileSystem().ReadFile("/etc/os-release", 1U << 16).value_or(""));
  for (const std::string& interpreter : interpreters) {
    ASSIGN_OR_RETURN(facts.interpreters[interpreter], AskPython(interpreter, environment, clock));
  }
  facts.user = fmt::format("{}:{}", geteuid(), getegid());
  facts.home = Value(environment, "HOME");
  char* directory = getcwd(nullptr, 0);
  if (directory == nullptr) return ErrnoStatus(errno, "find the working directory");
  facts.directory = directory;
  std::free(directory);
  // It can only be read by setting it.
  const mode_t mask = umask(022);
  umask(mask);
  facts.umask = fmt::format("{:03o}", mask);
  return facts;
}

}  // namespace paceline::deps
