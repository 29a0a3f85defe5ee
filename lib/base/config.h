// Configuration of a program: one struct with defaults, one description of its fields, four sources.
//
//   struct AgentConfig { Duration sample_period = 10s; ByteSize cache_size{...}; };
//   ConfigSpec spec("paceline-agent", "Node agent of Paceline.");
//   spec.Add("sampling.period", &config.sample_period, "How often the node is looked at.").Positive();
//   if (const std::optional<int> code = spec.ParseForMain(argc, argv)) return *code;
//
// A field "sampling.period" is set, from the weakest source to the strongest, by the struct's default, by the key
// sampling: {period: ...} of the --config file (YAML; unknown or doubled keys are errors), by an environment variable
// when the field names one, and by the flag --sampling-period. Every program also has --help, --version and
// --print-default-config. Used by main() and by the tests of a program's config.h; not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/base/log.h"
#include "lib/base/result.h"
#include "lib/base/units.h"

namespace paceline {

// One field of a program's configuration struct. The setters describe it and give it back, to be chained behind Add.
class ConfigField {
 public:
  using Target = std::variant<std::string*, bool*, int*, int64_t*, double*, Duration*, ByteSize*,
                              std::vector<std::string>*, LogLevel*, LogFormat*>;
  enum class Source { kDefault, kFile, kEnvironment, kFlag };

  ConfigField(std::string key, Target target, std::string doc);

  // Also set by this environment variable, when it is there and not empty.
  ConfigField& Env(std::string variable);
  // Never shown: not by Describe, not in messages, not in --print-default-config.
  ConfigField& Secret();
  // Strings and lists: each value must be one of these.
  ConfigField& OneOf(std::vector<std::string> words);
  // Numbers: the bounds belong to the range.
  ConfigField& Range(double low, double high);
  // Numbers, durations and sizes: zero is refused.
  ConfigField& Positive();

  const std::string& key() const { return key_; }
  const std::string& flag() const { return flag_; }  // without the leading "--"
  const std::string& doc() const { return doc_; }
  const std::string& env() const { return env_; }
  const std::vector<std::string>& words() const { return words_; }
  bool is_secret() const { return is_secret_; }
  bool is_list() const { return std::holds_alternative<std::vector<std::string>*>(target_); }
  bool is_bool() const { return std::holds_alternative<bool*>(target_); }
  Source source() const { return source_; }
  // "DURATION", "SIZE", "TEXT", ... for --help.
  const char* type_name() const;

  // Writes to the struct. kInvalidArgument with a sentence that says what is accepted; the struct then stays as it was.
  // A list takes any number of values, everything else exactly one.
  Status Set(const std::vector<std::string>& values, Source source);
  // The value in the struct, in the form that Set reads: one string, or those of the list.
  std::vector<std::string> Get() const;
  // The value for people: a list as [a, b], a secret as ***, or as "" when it is empty.
  std::string Show() const;

 private:
  Status SetScalar(const std::string& text);
  Status CheckBounds(double number) const;
  Status CheckWord(const std::string& text) const;

  std::string key_;
  std::string flag_;
  Target target_;
  std::string doc_;
  std::string env_;
  std::vector<std::string> words_;
  std::optional<double> low_, high_;
  bool is_positive_ = false;
  bool is_secret_ = false;
  Source source_ = Source::kDefault;
};

// Where Parse looks; a test fills these in by hand.
struct ConfigSources {
  std::vector<std::string> args;  // without the program's name
  std::function<std::optional<std::string>(const std::string& variable)> env;
  std::function<Result<std::string>(const std::string& path)> read_file;
};

// Either "go on" (the struct is filled) or "print this and end", as after --help.
struct ParseOutcome {
  bool should_run = true;
  int exit_code = 0;
  std::string text;
};

class ConfigSpec {
 public:
  // `summary` is one sentence for the head of --help.
  ConfigSpec(std::string program, std::string summary);

  // Registers a field. `key` is camelCase with dots for sections; `doc` is full sentences for an operator of the
  // program; the member must outlive the spec and hold its default now. The field stays valid as long as the spec. A
  // key that is malformed, taken, or both a field and a section is a bug and ends the process.
  ConfigField& Add(std::string key, ConfigField::Target target, std::string doc);

  // A check over several fields, run after all sources. Its message should name the keys and say what to do.
  void AddCheck(std::function<Status()> check);

  // Fills the struct. kInvalidArgument lists every mistake, one a line, each with its place and what to do about it.
  Result<ParseOutcome> Parse(const ConfigSources& sources);

  // Parse on the real command line, environment and file system, printing what there is to print. Returns the exit code
  // when the program must end now: 0 after --help and the like, 2 for a mistake in the configuration.
  std::optional<int> ParseForMain(int argc, const char* const* argv);

  // The defaults as commented YAML that --config reads back.
  std::string DefaultYaml() const { return default_yaml_.empty() ? CurrentYaml() : default_yaml_; }
  std::string Help() const;

  struct Entry {
    std::string key, value, source;  // source: "default", "file", "environment", "flag"
  };
  // The effective configuration, in order of registration, secrets masked.
  std::vector<Entry> Describe() const;
  // The same as "key=value key=value" for the start-up log line.
  std::string DescribeLine() const;

  const std::deque<ConfigField>& fields() const { return fields_; }

 private:
  struct CommandLine;
  Result<CommandLine> ReadFlags(const std::vector<std::string>& args) const;
  void ApplyFile(const std::string& path, const ConfigSources& sources, std::vector<std::string>& mistakes);
  void ApplyEnvironment(const ConfigSources& sources, std::vector<std::string>& mistakes);
  void ApplyFlags(const CommandLine& line, std::vector<std::string>& mistakes);
  void RunChecks(std::vector<std::string>& mistakes) const;
  std::string CurrentYaml() const;

  std::string program_;
  std::string summary_;
  std::deque<ConfigField> fields_;  // a deque: Add hands out references
  std::vector<std::function<Status()>> checks_;
  std::string default_yaml_;  // made when Parse starts to overwrite the defaults
};

}  // namespace paceline
