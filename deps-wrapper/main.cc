// paceline-deps: stands before a container's program and makes sure of its dependencies. In this order: they are there;
// they come within a bounded time; a restore brings them; the install, as the user wrote it. Then it becomes the
// program, which thus has the same process id, signals and exit code as without it.
//
// Linked statically and made of little, since it runs in images of any libc, and as process 1 of its container.
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "deps-wrapper/child.h"
#include "deps-wrapper/clock.h"
#include "deps-wrapper/options.h"

namespace paceline::deps_wrapper {
namespace {

constexpr int kUsageError = 2;
constexpr int64_t kLookEveryMs = 100;
constexpr size_t kMaxSentinelBytes = 4096;
constexpr char kRecordedAnswer[] = "they are being recorded for the next start";  // as the recorder says it

struct Outcome {
  const char* how = "";    // "in place", "restored", "installed"; "" when nothing worked
  std::string reason;      // why not something quicker
  bool was_clean = false;  // an install began with nothing in the sentinels' directories
  double seconds = 0;
  int code = 0;  // with which to end when nothing worked
};

std::string ReadSmall(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return "";
  std::string text(kMaxSentinelBytes, '\0');
  const ssize_t got = read(file, text.data(), text.size());
  close(file);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return text;
}

// "" when all sentinels are right.
std::string WhyNotInPlace(const Options& options) {
  if (options.sentinels.empty()) return "no sentinel was named";
  for (const std::string& sentinel : options.sentinels) {
    const std::string text = ReadSmall(sentinel);
    if (text.empty()) return sentinel + " is not there";
    // The key is 64 hexadecimal digits: nothing else in the file looks like it.
    if (!options.key.empty() && text.find("\"" + options.key + "\"") == std::string::npos) {
      return sentinel + " is of another key";
    }
  }
  return "";
}

std::string EndText(const ChildEnd& end, int limit_seconds) {
  if (end.cannot_run) return "cannot be run: " + end.problem;
  if (end.was_late) return "took longer than " + std::to_string(limit_seconds) + " s";
  return "ended with " + std::to_string(end.code);
}

// True when the environment is there at the end.
bool Restore(const Options& options, Signals& signals, Outcome* outcome) {
  if (options.restore.empty()) return false;
  const ChildEnd end = RunCommand(signals, options.restore, options.restore_limit_seconds);
  if (end.code != 0 || end.was_late || end.cannot_run) {
    outcome->reason = "the restore " + EndText(end, options.restore_limit_seconds);
    return false;
  }
  const std::string missing = options.sentinels.empty() ? "" : WhyNotInPlace(options);
  if (!missing.empty()) outcome->reason = "after the restore " + missing;
  return missing.empty();
}

bool IsEmptyDirectory(const std::string& path) {
  DIR* directory = opendir(path.c_str());
  if (directory == nullptr) return errno == ENOENT;
  bool is_empty = true;
  while (const dirent* entry = readdir(directory)) {
    const std::string_view name = entry->d_name;
    is_empty = is_empty && (name == "." || name == "..");
  }
  closedir(directory);
  return is_empty;
}

bool HasNothing(const Options& options) {
  for (const std::string& sentinel : options.sentinels) {
    if (!IsEmptyDirectory(sentinel.substr(0, sentinel.rfind('/')))) return false;
  }
  return true;
}

// Of ours, what the install may see.
std::vector<char*> InstallEnvironment(const Options& options) {
  std::vector<char*> chosen;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view name = std::string_view(*entry).substr(0, std::string_view(*entry).find('='));
    bool is_named = options.only.empty();
    for (const std::string& one : options.only) is_named = is_named || one == name;
    if (is_named) chosen.push_back(*entry);
  }
  chosen.push_back(nullptr);
  return chosen;
}

void Install(const Options& options, Signals& signals, Outcome* outcome) {
  outcome->was_clean = HasNothing(options);
  const std::vector<char*> environment = InstallEnvironment(options);
  const ChildEnd end = RunCommand(signals, options.install, options.install_limit_seconds, environment.data());
  if (end.code == 0 && !end.was_late && !end.cannot_run) {
    outcome->how = "installed";
    return;
  }
  outcome->reason +=
      (outcome->reason.empty() ? "" : "; ") + ("the install " + EndText(end, options.install_limit_seconds));
  outcome->code = end.code == 0 ? 1 : end.code;
}

Outcome Provide(const Options& options, Signals& signals) {
  Outcome outcome;
  const int64_t until_ms = NowMs() + int64_t{options.wait_seconds} * 1000;
  for (;;) {
    outcome.reason = WhyNotInPlace(options);
    if (outcome.reason.empty()) {
      outcome.how = "in place";
      return outcome;
    }
    if (NowMs() >= until_ms || signals.AwaitEnd(kLookEveryMs)) break;
  }
  if (signals.ending() == 0 && Restore(options, signals, &outcome)) {
    outcome.how = "restored";
    outcome.reason.clear();
    return outcome;
  }
  if (signals.ending() == 0 && !options.install.empty()) {
    Install(options, signals, &outcome);
  } else if (signals.ending() == 0) {
    outcome.code = 1;
  }
  if (signals.ending() != 0) {
    outcome.how = "";
    outcome.code = 128 + signals.ending();
    outcome.reason = "stopped by signal " + std::to_string(signals.ending());
  }
  return outcome;
}

// JSON's text without its quotes; what else is below a blank becomes one.
std::string Quoted(std::string_view text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return quoted;
}

bool Append(const std::string& path, int flags, const std::string& line) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);
  if (file < 0) return false;  // nobody waits for it so much that the program should not start
  const bool is_written = write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  if (!is_written) fprintf(stderr, "paceline-deps: cannot write %s: %s\n", path.c_str(), strerror(errno));
  close(file);
  return is_written;
}

// Whoever looks for the file finds all of it or nothing.
void Replace(const std::string& path, const std::string& line) {
  const std::string draft = path + ".new";
  if (Append(draft, O_TRUNC, line)) rename(draft.c_str(), path.c_str());
}

std::string Tenths(double seconds) {
  char number[64];
  snprintf(number, sizeof number, "%.1f", seconds);
  return number;
}

void WriteReport(const Options& options, const Outcome& outcome) {
  if (options.report.empty()) return;
  Replace(options.report, std::string("{\"how\":\"") + outcome.how + "\",\"reason\":\"" + Quoted(outcome.reason) +
                              "\",\"seconds\":" + Tenths(outcome.seconds) + ",\"key\":\"" + Quoted(options.key) +
                              "\",\"clean\":" + (outcome.was_clean ? "true" : "false") + "}\n");
}

// From now on a restart of the container finds the environment in place.
void Mark(const Options& options) {
  for (const std::string& sentinel : options.sentinels) {
    Replace(sentinel, "{\"base\":\"\",\"key\":\"" + Quoted(options.key) + "\"}\n");
  }
}

// Lets the recorder see what was installed before the program adds to it. The answer is for people.
std::string AwaitAnswer(const Options& options, Signals& signals) {
  const int64_t until_ms = NowMs() + int64_t{options.answer_seconds} * 1000;
  for (;;) {
    const std::string answer = ReadSmall(options.answer);
    if (!answer.empty()) return answer.substr(0, answer.find('\n'));
    if (NowMs() >= until_ms || signals.AwaitEnd(kLookEveryMs)) break;
  }
  return "nobody records it (no answer for " + std::to_string(options.answer_seconds) + " s)";
}

void Tell(const Options& options, const Outcome& outcome, const std::string& answer) {
  std::string line = "paceline-deps: dependencies ";
  line += *outcome.how != '\0' ? outcome.how : "are not there";
  line += " after " + Tenths(outcome.seconds) + " s";
  const bool explains = !outcome.reason.empty() && std::strcmp(outcome.how, "in place") != 0;
  if (explains) line += " (" + outcome.reason + ")";
  if (!answer.empty()) line += "; " + answer;
  fprintf(stderr, "%s\n", line.c_str());
  if (*outcome.how == '\0' || options.stage_file.empty()) return;
  std::string markers;
  const auto mark = [&markers](const char* name) {
    char marker[64];
    snprintf(marker, sizeof marker, "%s %.6f\n", name, WallSeconds());
    markers += marker;
  };
  mark(std::strcmp(outcome.how, "installed") == 0 ? "dependencies_installed" : "dependencies_restored");
  if (answer == kRecordedAnswer) mark("dependencies_recorded");
  mark("dependencies_ready");
  Append(options.stage_file, O_APPEND, markers);
}

// True when the program may start.
bool Finish(const Options& options, Signals& signals, Outcome* outcome) {
  std::string answer;
  const bool was_installed = std::strcmp(outcome->how, "installed") == 0;
  if (was_installed && options.marks) Mark(options);
  WriteReport(options, *outcome);  // after that the directories are looked at
  if (was_installed && outcome->was_clean && !options.answer.empty()) answer = AwaitAnswer(options, signals);
  if (signals.ending() != 0 && *outcome->how != '\0') {
    outcome->how = "";
    outcome->code = 128 + signals.ending();
    outcome->reason = "stopped by signal " + std::to_string(signals.ending());
  }
  Tell(options, *outcome, answer);
  if (*outcome->how == '\0') return false;
  if (!options.started.empty()) Append(options.started, O_TRUNC, "started\n");
  return true;
}

int Main(int argc, char** argv) {
  Options options;
  const std::string wrong = ReadOptions(argc, argv, environ, &options);
  if (!wrong.empty()) {
    fprintf(stderr, "paceline-deps: %s\n%s", wrong.c_str(), kUsage);
    return kUsageError;
  }
  const int64_t start_ms = NowMs();
  Signals signals;
  Outcome outcome = Provide(options, signals);
  outcome.seconds = static_cast<double>(NowMs() - start_ms) / 1000;
  if (!Finish(options, signals, &outcome)) return outcome.code;
  if (options.supervises) {
    const ChildEnd end = signals.Run(options.program.data(), 0);
    if (end.cannot_run) fprintf(stderr, "paceline-deps: cannot run %s: %s\n", options.program[0], end.problem.c_str());
    return end.code;
  }
  signals.Restore();
  execvp(options.program[0], options.program.data());
  const int error = errno;
  fprintf(stderr, "paceline-deps: cannot run %s: %s\n", options.program[0], strerror(error));
  return error == ENOENT ? 127 : 126;
}

}  // namespace
}  // namespace paceline::deps_wrapper

int main(int argc, char** argv) { return paceline::deps_wrapper::Main(argc, argv); }
