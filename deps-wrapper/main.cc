// paceline-deps: stands before a container's program and makes sure of its dependencies. In this order: they are there;
// they come within a bounded time; a restore brings them; the install, as the user wrote it. Then it becomes the
// program, which thus has the same process id, signals and exit code as without it.
//
// Linked statically and made of little, since it runs in images of any libc, and as process 1 of its container.
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

struct Outcome {
  const char* how = "";  // "in place", "restored", "installed"; "" when nothing worked
  std::string reason;    // why not something quicker
  int code = 0;          // with which to end when nothing worked
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

void Install(const Options& options, Signals& signals, Outcome* outcome) {
  const ChildEnd end = RunCommand(signals, options.install, options.install_limit_seconds);
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

void Append(const std::string& path, int flags, const std::string& line) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);
  if (file < 0) return;  // nobody waits for it so much that the program should not start
  const ssize_t written = write(file, line.data(), line.size());
  if (written < 0) fprintf(stderr, "paceline-deps: cannot write %s: %s\n", path.c_str(), strerror(errno));
  close(file);
}

void Report(const Options& options, const Outcome& outcome, double seconds) {
  char number[64];
  snprintf(number, sizeof number, "%.1f", seconds);
  std::string line = "paceline-deps: dependencies ";
  line += *outcome.how != '\0' ? outcome.how : "are not there";
  line += std::string(" after ") + number + " s";
  const bool explains = !outcome.reason.empty() && std::strcmp(outcome.how, "in place") != 0;
  if (explains) line += " (" + outcome.reason + ")";
  fprintf(stderr, "%s\n", line.c_str());
  if (!options.report.empty()) {
    Append(options.report, O_TRUNC,
           std::string("{\"how\":\"") + outcome.how + "\",\"reason\":\"" + Quoted(outcome.reason) +
               "\",\"seconds\":" + number + ",\"key\":\"" + Quoted(options.key) + "\"}\n");
  }
  if (*outcome.how == '\0' || options.stage_file.empty()) return;
  char marker[64];
  snprintf(marker, sizeof marker, "dependencies_ready %.6f\n", WallSeconds());
  Append(options.stage_file, O_APPEND, marker);
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
  const Outcome outcome = Provide(options, signals);
  Report(options, outcome, static_cast<double>(NowMs() - start_ms) / 1000);
  if (*outcome.how == '\0') return outcome.code;
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
