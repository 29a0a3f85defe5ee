#include "lib/base/config.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "lib/base/config_file.h"
#include "lib/base/filesystem.h"
#include "lib/base/log_format.h"
#include "lib/base/version.h"

namespace paceline {

namespace {

constexpr size_t kMaxFileBytes = 1 << 20;
constexpr int kUsageExitCode = 2;
constexpr char kOwnFlags[][24] = {"config", "help", "version", "print-default-config"};

[[noreturn]] void BadField(const std::string& key, const std::string& why) {
  std::fprintf(stderr, "configuration field \"%s\": %s\n", key.c_str(), why.c_str());
  std::abort();
}

bool IsCamelCasePath(const std::string& key) {
  bool starts_word = true;
  for (const char c : key) {
    const bool is_lower = c >= 'a' && c <= 'z';
    const bool is_other = (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (c == '.' ? starts_word : !(is_lower || (is_other && !starts_word))) return false;
    starts_word = c == '.';
  }
  return !starts_word;
}

// Environment variables and flags give lists with commas; a list of nothing is written as an empty value.
std::vector<std::string> SplitCommas(const std::string& text) {
  std::vector<std::string> items;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find(',', start), text.size());
    items.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return items;
}

// CLI11 takes arguments from the back, and understands an empty value only as an argument of its own.
std::vector<std::string> ForCli11(const std::vector<std::string>& args) {
  std::vector<std::string> reversed;
  for (auto arg = args.rbegin(); arg != args.rend(); ++arg) {
    const bool is_empty_value = arg->size() > 3 && arg->rfind("--", 0) == 0 && arg->find('=') == arg->size() - 1;
    if (is_empty_value) reversed.emplace_back();
    reversed.push_back(is_empty_value ? arg->substr(0, arg->size() - 1) : *arg);
  }
  return reversed;
}

std::string Lines(const std::vector<std::string>& lines) { return fmt::format("{}", fmt::join(lines, "\n")); }

const char* SourceName(ConfigField::Source source) {
  switch (source) {
    case ConfigField::Source::kDefault: return "default";
    case ConfigField::Source::kFile: return "file";
    case ConfigField::Source::kEnvironment: return "environment";
    case ConfigField::Source::kFlag: return "flag";
  }
  return "unknown";
}

}  // namespace

struct ConfigSpec::CommandLine {
  bool wants_help = false;
  bool wants_version = false;
  bool wants_defaults = false;
  std::string config_path;
  std::map<std::string, std::vector<std::string>> values;  // by flag name, as given, never empty
};

ConfigSpec::ConfigSpec(std::string program, std::string summary)
    : program_(std::move(program)), summary_(std::move(summary)) {}

ConfigField& ConfigSpec::Add(std::string key, ConfigField::Target target, std::string doc) {
  if (!IsCamelCasePath(key)) BadField(key, "keys are camelCase words joined by dots");
  if (doc.empty()) BadField(key, "has no documentation");
  ConfigField field(std::move(key), target, std::move(doc));
  for (const char* own : kOwnFlags) {
    if (field.flag() == own) BadField(field.key(), "its flag is one that every program has");
  }
  for (const ConfigField& other : fields_) {
    if (other.flag() == field.flag()) BadField(field.key(), "its flag is that of \"" + other.key() + "\" too");
    const bool is_section =
        other.key().rfind(field.key() + ".", 0) == 0 || field.key().rfind(other.key() + ".", 0) == 0;
    if (is_section) BadField(field.key(), "one of it and \"" + other.key() + "\" is a section of the other");
  }
  return fields_.emplace_back(std::move(field));
}

void ConfigSpec::AddCheck(std::function<Status()> check) { checks_.push_back(std::move(check)); }

// CLI11 splits the command line; the values stay text, so that all sources are converted by the same code.
Result<ConfigSpec::CommandLine> ConfigSpec::ReadFlags(const std::vector<std::string>& args) const {
  CommandLine line;
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  app.add_flag("-h,--help", line.wants_help);
  app.add_flag("--version", line.wants_version);
  app.add_flag("--print-default-config", line.wants_defaults);
  app.add_option("--config", line.config_path)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  std::map<std::string, CLI::Option*> options;
  for (const ConfigField& field : fields_) {
    const std::string name = "--" + field.flag();
    CLI::Option* option = field.is_bool() ? app.add_flag(name) : app.add_option(name);
    option->expected(field.is_bool() ? 0 : 1)->allow_extra_args(false);
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    options[field.flag()] = option;
  }
  try {
    app.parse(ForCli11(args));
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string what = error.what();  // "--name: 1 required TEXT missing"
    return InvalidArgumentError(what.substr(0, what.find(':')) + " needs a value; --help shows how flags are written");
  } catch (const CLI::Error& error) {
    return InvalidArgumentError(std::string(error.what()) + "; --help shows how flags are written");
  }
  for (const std::string& extra : app.remaining()) {
    if (extra.empty()) return InvalidArgumentError("a switch was given an empty value; write =true or =false");
    if (extra.rfind('-', 0) != 0) return InvalidArgumentError(fmt::format("unexpected argument \"{}\"", extra));
    std::vector<std::string> known(std::begin(kOwnFlags), std::end(kOwnFlags));
    for (const ConfigField& field : fields_) known.push_back(field.flag());
    const std::string name = extra.substr(0, extra.find('='));
    const std::string nearest = NearestName(name.substr(std::min<size_t>(2, name.size())), known);
    return InvalidArgumentError(nearest.empty()
                                    ? fmt::format("unknown flag \"{}\"; --help lists all flags", name)
                                    : fmt::format("unknown flag \"{}\"; did you mean \"--{}\"?", name, nearest));
  }
  for (const auto& [flag, option] : options) {
    if (option->count() > 0) line.values[flag] = option->results();
  }
  return line;
}

void ConfigSpec::ApplyFile(const std::string& path, const ConfigSources& sources, std::vector<std::string>& mistakes) {
  const Result<std::string> text = sources.read_file(path);
  if (!text.ok()) {
    mistakes.push_back("cannot read the --config file: " + text.status().message());
    return;
  }
  ApplyConfigYaml(path, *text, fields_, mistakes);
}

void ConfigSpec::ApplyEnvironment(const ConfigSources& sources, std::vector<std::string>& mistakes) {
  for (ConfigField& field : fields_) {
    if (field.env().empty()) continue;
    const std::optional<std::string> value = sources.env(field.env());
    if (!value || value->empty()) continue;
    const Status status =
        field.Set(field.is_list() ? SplitCommas(*value) : std::vector{*value}, ConfigField::Source::kEnvironment);
    if (!status.ok()) mistakes.push_back(fmt::format("environment variable {}: {}", field.env(), status.message()));
  }
}

void ConfigSpec::ApplyFlags(const CommandLine& line, std::vector<std::string>& mistakes) {
  for (ConfigField& field : fields_) {
    const auto given = line.values.find(field.flag());
    if (given == line.values.end()) continue;
    std::vector<std::string> values;
    if (!field.is_list()) {
      values.push_back(given->second.back());
    } else {
      for (const std::string& value : given->second) {
        for (std::string& item : SplitCommas(value)) values.push_back(std::move(item));
      }
    }
    const Status status = field.Set(values, ConfigField::Source::kFlag);
    if (!status.ok()) mistakes.push_back(fmt::format("--{}: {}", field.flag(), status.message()));
  }
}

void ConfigSpec::RunChecks(std::vector<std::string>& mistakes) const {
  for (const auto& check : checks_) {
    const Status status = check();
    if (!status.ok()) mistakes.push_back(status.message());
  }
}

Result<ParseOutcome> ConfigSpec::Parse(const ConfigSources& sources) {
  if (default_yaml_.empty()) default_yaml_ = CurrentYaml();
  ASSIGN_OR_RETURN(const CommandLine line, ReadFlags(sources.args));
  if (line.wants_help) return ParseOutcome{false, 0, Help()};
  if (line.wants_version) return ParseOutcome{false, 0, VersionLine(program_) + "\n"};
  if (line.wants_defaults) return ParseOutcome{false, 0, default_yaml_};
  std::vector<std::string> mistakes;
  if (!line.config_path.empty()) ApplyFile(line.config_path, sources, mistakes);
  ApplyEnvironment(sources, mistakes);
  ApplyFlags(line, mistakes);
  if (mistakes.empty()) RunChecks(mistakes);  // they may rely on each field being sound by itself
  if (!mistakes.empty()) return InvalidArgumentError(Lines(mistakes));
  return ParseOutcome{};
}

std::optional<int> ConfigSpec::ParseForMain(int argc, const char* const* argv) {
  const RealFileSystem files;
  ConfigSources sources;
  sources.args.assign(argv + std::min(argc, 1), argv + argc);
  sources.env = [](const std::string& variable) -> std::optional<std::string> {
    const char* value = std::getenv(variable.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
  sources.read_file = [&files](const std::string& path) { return files.ReadFile(path, kMaxFileBytes); };
  const Result<ParseOutcome> outcome = Parse(sources);
  if (!outcome.ok()) {
    std::fprintf(stderr, "%s: configuration:\n%s\n", program_.c_str(), outcome.status().message().c_str());
    return kUsageExitCode;
  }
  if (outcome->should_run) return std::nullopt;
  std::fputs(outcome->text.c_str(), stdout);
  return outcome->exit_code;
}

std::string ConfigSpec::CurrentYaml() const {
  return PrintConfigYaml(fmt::format("Configuration of {}: every key with its default.", program_), fields_);
}

std::string ConfigSpec::Help() const {
  constexpr size_t kWidth = 100;
  std::string help = fmt::format("{}: {}\n\nUsage: {} [--config FILE] [flags]\n\n", program_, summary_, program_);
  const auto add = [&help](const std::string& flag, const std::string& doc) {
    help += "  " + flag + "\n" + WrapText(doc, "      ", kWidth);
  };
  add("--config FILE", "A YAML file with any of the keys of --print-default-config. Flags win over it.");
  for (const ConfigField& field : fields_) {
    std::string doc = field.doc();
    if (!field.words().empty()) doc += fmt::format(" One of: {}.", fmt::join(field.words(), ", "));
    if (!field.env().empty()) doc += fmt::format(" Also from the environment variable {}.", field.env());
    if (const std::string value = field.Show(); !value.empty() && value != "[]")
      doc += fmt::format(" Default: {}.", value);
    add(fmt::format("--{} {}", field.flag(), field.is_bool() ? "[=true|false]" : field.type_name()), doc);
  }
  add("--print-default-config", "Print a commented configuration file with all defaults, and end.");
  add("--version", "Print the version, and end.");
  add("-h, --help", "Print this, and end.");
  return help;
}

std::vector<ConfigSpec::Entry> ConfigSpec::Describe() const {
  std::vector<Entry> entries;
  for (const ConfigField& field : fields_) entries.push_back({field.key(), field.Show(), SourceName(field.source())});
  return entries;
}

std::string ConfigSpec::DescribeLine() const {
  std::string line;
  for (const Entry& entry : Describe()) {
    const bool is_plain = !entry.value.empty() && entry.value.find_first_of(" \"=\n") == std::string::npos;
    line += (line.empty() ? "" : " ") + entry.key + "=" + (is_plain ? entry.value : QuoteJson(entry.value));
  }
  return line;
}

}  // namespace paceline
