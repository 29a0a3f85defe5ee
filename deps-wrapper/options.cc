#include "deps-wrapper/options.h"

#include <cstdlib>
#include <cstring>
#include <string_view>

namespace paceline::deps_wrapper {
namespace {

constexpr char kStageVariable[] = "PACELINE_STAGE_FILE=";
constexpr long kMaxSeconds = 7L * 24 * 3600;

bool ReadSeconds(const char* text, int* seconds) {
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (end == text || *end != '\0' || value < 0 || value > kMaxSeconds) return false;
  *seconds = static_cast<int>(value);
  return true;
}

// A flag with a value: "" when it was taken.
std::string Take(std::string_view flag, const char* value, Options* options) {
  if (flag == "--sentinel") {
    options->sentinels.emplace_back(value);
  } else if (flag == "--key") {
    options->key = value;
  } else if (flag == "--restore") {
    options->restore = value;
  } else if (flag == "--install") {
    options->install = value;
  } else if (flag == "--report") {
    options->report = value;
  } else if (flag == "--answer") {
    options->answer = value;
  } else if (flag == "--started") {
    options->started = value;
  } else if (flag == "--only") {
    options->only.emplace_back(value);
  } else {
    int* seconds = flag == "--wait"            ? &options->wait_seconds
                   : flag == "--restore-limit" ? &options->restore_limit_seconds
                   : flag == "--install-limit" ? &options->install_limit_seconds
                   : flag == "--answer-limit"  ? &options->answer_seconds
                                               : nullptr;
    if (seconds == nullptr) return "unknown option " + std::string(flag);
    if (!ReadSeconds(value, seconds)) return std::string(flag) + " takes whole seconds, not " + value;
  }
  return "";
}

}  // namespace

const char kUsage[] =
    "usage: paceline-deps [OPTION]... -- PROGRAM [ARGUMENT]...\n"
    "Makes sure that a program's dependencies are there, then becomes the program.\n"
    "  --sentinel FILE          there when the dependencies are; repeatable\n"
    "  --key KEY                that the sentinels must name\n"
    "  --wait SECONDS           how long to wait for the sentinels (0)\n"
    "  --restore COMMAND        tried when they are not there\n"
    "  --restore-limit SECONDS  it is stopped after that (600)\n"
    "  --install COMMAND        run when that does not help\n"
    "  --install-limit SECONDS  it is stopped after that (0: never)\n"
    "  --only NAME              a variable that the install sees; repeatable (all of them)\n"
    "  --mark                   write the sentinels after an install\n"
    "  --report FILE            gets one line of JSON about what was done\n"
    "  --answer FILE            waited for after an install that began with nothing there\n"
    "  --answer-limit SECONDS   for so long at most (0)\n"
    "  --started FILE           made before the program is started\n"
    "  --supervise              stay as the program's parent: pass signals on, reap orphans\n";

std::string ReadOptions(int argc, char** argv, char** environment, Options* options) {
  int at = 1;
  for (; at < argc; ++at) {
    const std::string_view word = argv[at];
    if (word == "--") break;
    if (word == "--supervise" || word == "--mark") {
      (word == "--mark" ? options->marks : options->supervises) = true;
      continue;
    }
    if (!word.starts_with("--")) return "the program must come after --";
    const size_t equals = word.find('=');
    const bool has_value = equals != std::string_view::npos;
    if (!has_value && (at + 1 == argc || std::strcmp(argv[at + 1], "--") == 0)) {
      return std::string(word) + " takes a value";
    }
    const char* value = has_value ? argv[at] + equals + 1 : argv[at + 1];
    const std::string wrong = Take(word.substr(0, equals), value, options);
    if (!wrong.empty()) return wrong;
    if (!has_value) ++at;
  }
  for (++at; at < argc; ++at) options->program.push_back(argv[at]);
  if (options->program.empty()) return "no program was given";
  options->program.push_back(nullptr);
  for (char** entry = environment; *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, kStageVariable, sizeof kStageVariable - 1) == 0) {
      options->stage_file = *entry + sizeof kStageVariable - 1;
    }
  }
  return "";
}

std::vector<std::string> PlainWords(const std::string& command) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : command) {
    if (std::strchr("|&;<>()$`\"'\\*?[]#~=%!{}\n\r", c) != nullptr) return {};
    if (c != ' ' && c != '\t') {
      word += c;
    } else if (!word.empty()) {
      words.push_back(word);
      word.clear();
    }
  }
  if (!word.empty()) words.push_back(word);
  return words;
}

}  // namespace paceline::deps_wrapper
