#include "lib/base/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "lib/base/config_file.h"

namespace paceline {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

struct TestConfig {
  std::string name = "default";
  bool is_enabled = true;
  int workers = 4;
  int64_t big = 1LL << 40;
  double ratio = 0.5;
  Duration lease_duration = 15s;
  Duration renew_deadline = 10s;
  ByteSize cache_size{512ull << 20};
  std::vector<std::string> peers = {"a", "b c"};
  std::string mode = "fast";
  std::string token;
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
};

class Config : public testing::Test {
 protected:
  Config() : spec_("paceline-test", "A program for tests.") {
    spec_.Add("name", &config_.name, "A name.").Env("TEST_NAME");
    spec_.Add("enabled", &config_.is_enabled, "Whether it runs.");
    spec_.Add("leaderElection.leaseDuration", &config_.lease_duration, "How long a lease holds.").Positive();
    spec_.Add("pool.workers", &config_.workers, "Threads.").Range(1, 64);
    spec_.Add("leaderElection.renewDeadline", &config_.renew_deadline, "When to give up.");
    spec_.Add("pool.limits.big", &config_.big, "A big number.");
    spec_.Add("pool.limits.ratio", &config_.ratio, "A share.");
    spec_.Add("cacheSize", &config_.cache_size, "Disk for the cache.");
    spec_.Add("peers", &config_.peers, "Who else is there.").Env("TEST_PEERS");
    spec_.Add("mode", &config_.mode, "How.").OneOf({"fast", "safe"});
    spec_.Add("apiToken", &config_.token, "The token.").Secret().Env("TEST_TOKEN");
    spec_.Add("log.level", &config_.level, "What to log.");
    spec_.Add("log.format", &config_.format, "How to log.");
    spec_.AddCheck([this] {
      if (config_.renew_deadline < config_.lease_duration) return Status();
      return InvalidArgumentError("leaderElection.renewDeadline must be below leaderElection.leaseDuration; lower it");
    });
  }

  Result<ParseOutcome> Parse(std::vector<std::string> args, const std::string& file = "") {
    ConfigSources sources;
    sources.args = std::move(args);
    if (!file.empty()) sources.args.insert(sources.args.begin(), {"--config", "c.yaml"});
    sources.env = [this](const std::string& variable) -> std::optional<std::string> {
      const auto found = env_.find(variable);
      return found == env_.end() ? std::nullopt : std::optional(found->second);
    };
    sources.read_file = [file](const std::string& path) -> Result<std::string> {
      if (path != "c.yaml") return NotFoundError("open " + path + ": No such file or directory");
      return file;
    };
    return spec_.Parse(sources);
  }

  std::string Mistakes(std::vector<std::string> args, const std::string& file = "") {
    const Result<ParseOutcome> outcome = Parse(std::move(args), file);
    EXPECT_EQ(outcome.status().code(), StatusCode::kInvalidArgument);
    return outcome.status().message();
  }

  TestConfig config_;
  ConfigSpec spec_;
  std::map<std::string, std::string> env_;
};

TEST_F(Config, WithoutSourcesTheDefaultsStay) {
  const Result<ParseOutcome> outcome = Parse({});
  ASSERT_TRUE(outcome.ok());
  EXPECT_TRUE(outcome->should_run);
  EXPECT_EQ(config_.lease_duration, 15s);
  EXPECT_THAT(config_.peers, ElementsAre("a", "b c"));
  EXPECT_EQ(spec_.Describe()[0].source, "default");
}

TEST_F(Config, ReadsEveryTypeFromTheFile) {
  const Result<ParseOutcome> outcome = Parse({}, R"(
name: "from file"
enabled: false
leaderElection: {leaseDuration: 1m30s, renewDeadline: 500ms}
pool:
  workers: 8
  limits:
    big: -9223372036854775808
    ratio: 1e-3
cacheSize: 2GiB
peers:
  - x
  - "y,z"
mode: safe
log: {level: debug, format: json}
)");
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(config_.name, "from file");
  EXPECT_FALSE(config_.is_enabled);
  EXPECT_EQ(config_.lease_duration, 90s);
  EXPECT_EQ(config_.renew_deadline, 500ms);
  EXPECT_EQ(config_.workers, 8);
  EXPECT_EQ(config_.big, std::numeric_limits<int64_t>::min());
  EXPECT_EQ(config_.ratio, 1e-3);
  EXPECT_EQ(config_.cache_size.bytes, 2ull << 30);
  EXPECT_THAT(config_.peers, ElementsAre("x", "y,z"));
  EXPECT_EQ(config_.mode, "safe");
  EXPECT_EQ(config_.level, LogLevel::kDebug);
  EXPECT_EQ(config_.format, LogFormat::kJson);
}

TEST_F(Config, ReadsEveryTypeFromFlags) {
  const Result<ParseOutcome> outcome =
      Parse({"--name=a=b c", "--enabled=false", "--leader-election-lease-duration", "20s", "--pool-workers=1",
             "--pool-limits-big=-5", "--pool-limits-ratio", "-0.25", "--cache-size=1KiB", "--peers=a,b", "--peers", "c",
             "--mode", "safe", "--log-level=error", "--log-format=json"});
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(config_.name, "a=b c");
  EXPECT_FALSE(config_.is_enabled);
  EXPECT_EQ(config_.lease_duration, 20s);
  EXPECT_EQ(config_.workers, 1);
  EXPECT_EQ(config_.big, -5);
  EXPECT_EQ(config_.ratio, -0.25);
  EXPECT_EQ(config_.cache_size.bytes, 1024u);
  EXPECT_THAT(config_.peers, ElementsAre("a", "b", "c"));
  EXPECT_EQ(config_.mode, "safe");
  EXPECT_EQ(config_.level, LogLevel::kError);
}

TEST_F(Config, FlagsBeatTheEnvironmentWhichBeatsTheFile) {
  env_ = {{"TEST_NAME", "env"}, {"TEST_PEERS", "p,q"}, {"TEST_TOKEN", ""}};
  ASSERT_TRUE(Parse({"--name", "flag"}, "name: file\npeers: [f]\napiToken: t\nmode: safe").ok());
  EXPECT_EQ(config_.name, "flag");
  EXPECT_THAT(config_.peers, ElementsAre("p", "q"));
  EXPECT_EQ(config_.token, "t");  // an empty variable counts as not there
  std::map<std::string, std::string> sources;
  for (const ConfigSpec::Entry& entry : spec_.Describe()) sources[entry.key] = entry.source;
  EXPECT_EQ(sources["name"], "flag");
  EXPECT_EQ(sources["peers"], "environment");
  EXPECT_EQ(sources["mode"], "file");
  EXPECT_EQ(sources["cacheSize"], "default");
}

TEST_F(Config, TheLastOfARepeatedFlagWinsAndASwitchNeedsNoValue) {
  const Result<ParseOutcome> outcome =
      Parse({"--pool-workers=2", "--pool-workers=3", "--enabled=false", "--enabled", "--peers=", "--name="});
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(config_.workers, 3);
  EXPECT_TRUE(config_.is_enabled);
  EXPECT_TRUE(config_.peers.empty());
  EXPECT_EQ(config_.name, "");
}

TEST_F(Config, AllMistakesAreToldAtOnceWithPlaceAndCure) {
  env_ = {{"TEST_PEERS", "fine"}};
  const std::string told = Mistakes({"--cache-size=5", "--mode=slow"},
                                    "name: ok\n"
                                    "leaderElection:\n"
                                    "  leasDuration: 5s\n"
                                    "  renewDeadline: 10\n"
                                    "pool:\n"
                                    "  workers: 65\n"
                                    "  workers: 6\n"
                                    "  limits: 3\n"
                                    "enabled: yes\n"
                                    "cacheSize:\n"
                                    "peers: one\n"
                                    "mode: [fast]\n"
                                    "nonsense: {a: 1}\n");
  EXPECT_THAT(told, HasSubstr("c.yaml:3: unknown key \"leaderElection.leasDuration\"; "
                              "did you mean \"leaderElection.leaseDuration\"?"));
  EXPECT_THAT(told, HasSubstr("c.yaml:4: leaderElection.renewDeadline: \"10\" is not a duration; write a number with"));
  EXPECT_THAT(told, HasSubstr("c.yaml:6: pool.workers: 65 is out of range; use 1 to 64"));
  EXPECT_THAT(told, HasSubstr("c.yaml:7: the key \"pool.workers\" is there twice; remove one"));
  EXPECT_THAT(told, HasSubstr("c.yaml:8: \"pool.limits\" is a section; write its keys below it, indented"));
  EXPECT_THAT(told, HasSubstr("c.yaml:9: enabled: \"yes\" is not a switch; write true or false"));
  EXPECT_THAT(told, HasSubstr("c.yaml:10: \"cacheSize\" has no value; remove the key to use the default"));
  EXPECT_THAT(told, HasSubstr("c.yaml:11: \"peers\" is a list; write [a, b]"));
  EXPECT_THAT(told, HasSubstr("c.yaml:12: \"mode\" takes one value, not a list or a section"));
  EXPECT_THAT(told, HasSubstr("c.yaml:13: unknown key \"nonsense\"; --print-default-config shows all keys"));
  EXPECT_THAT(told, HasSubstr("--cache-size: \"5\" is not a size; write"));
  EXPECT_THAT(told, HasSubstr("--mode: \"slow\" is not known here; use one of: fast, safe"));
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 11) << told;
}

TEST_F(Config, SuggestsTheRightNameInTheWrongSection) {
  EXPECT_THAT(Mistakes({}, "leaseDuration: 5s"), HasSubstr("did you mean \"leaderElection.leaseDuration\"?"));
  EXPECT_THAT(Mistakes({}, "pool: {limit: {ratio: 1}}"), HasSubstr("did you mean \"pool.limits\"?"));
}

TEST_F(Config, ABadCommandLineIsExplained) {
  EXPECT_EQ(Mistakes({"--pool-worker=3"}), "unknown flag \"--pool-worker\"; did you mean \"--pool-workers\"?");
  EXPECT_EQ(Mistakes({"--zzzzz"}), "unknown flag \"--zzzzz\"; --help lists all flags");
  EXPECT_EQ(Mistakes({"-x"}), "unknown flag \"-x\"; --help lists all flags");
  EXPECT_EQ(Mistakes({"stray"}), "unexpected argument \"stray\"");
  EXPECT_EQ(Mistakes({"--name"}), "--name needs a value; --help shows how flags are written");
  EXPECT_THAT(Mistakes({"--enabled="}), HasSubstr("write =true or =false"));
  EXPECT_EQ(Mistakes({"--enabled=maybe"}), "--enabled: \"maybe\" is not a switch; write true or false");
  EXPECT_EQ(Mistakes({"--leader-election-lease-duration=0s"}),
            "--leader-election-lease-duration: the value must be more than zero");
  EXPECT_THAT(Mistakes({"--pool-workers=99999999999"}), HasSubstr("is not a whole number of at most 32 bits"));
  EXPECT_THAT(Mistakes({"--pool-limits-ratio=nan"}), HasSubstr("\"nan\" is not a number"));
  EXPECT_EQ(Mistakes({"--config", "gone.yaml"}),
            "cannot read the --config file: open gone.yaml: No such file or directory");
}

TEST_F(Config, ADamagedFileIsReadToItsEnd) {
  const std::string good = "leaderElection:\n  leaseDuration: 3s\nname: \"a\"\n# end\n";
  for (size_t i = 0; i < good.size(); i += 3) {
    for (const char damage : {'\0', '{', '[', '"', '-', '&', '*', '\xff'}) {
      std::string bad = good;
      bad[i] = damage;
      (void)Parse({}, bad).ok();  // may be a mistake or not; it must end
    }
  }
}

TEST_F(Config, ABadFileIsExplained) {
  EXPECT_THAT(Mistakes({}, "a: [1, 2\nb: 3"), HasSubstr("c.yaml:2: not valid YAML: "));
  EXPECT_THAT(Mistakes({}, "just words"), HasSubstr("c.yaml:1: expected \"key: value\" lines"));
  EXPECT_THAT(Mistakes({}, "name: a\n---\nname: b"), HasSubstr("a second document begins here"));
  EXPECT_TRUE(Parse({}, "# only a comment\n").ok());
  EXPECT_TRUE(Parse({}, "leaderElection:\n  # leaseDuration: 3s\n").ok());
}

TEST_F(Config, ChecksOverSeveralFieldsRunLast) {
  EXPECT_EQ(Mistakes({"--leader-election-lease-duration=10s"}),
            "leaderElection.renewDeadline must be below leaderElection.leaseDuration; lower it");
  EXPECT_TRUE(Parse({"--leader-election-lease-duration=10s", "--leader-election-renew-deadline=9s"}).ok());
}

TEST_F(Config, ThePrintedDefaultsReadBackToTheDefaults) {
  config_.name = "odd: \"x\"\n#\t\\";
  config_.peers = {"", "true", "- a", "x,y"};
  const Result<ParseOutcome> printed = Parse({"--print-default-config", "--name", "changed"});
  ASSERT_TRUE(printed.ok());
  EXPECT_FALSE(printed->should_run);
  EXPECT_EQ(printed->exit_code, 0);
  EXPECT_THAT(printed->text, HasSubstr("leaderElection:\n  # How long a lease holds.\n  leaseDuration: 15s\n"
                                       "\n  # When to give up.\n  renewDeadline: 10s\n"));
  EXPECT_THAT(printed->text, HasSubstr("# How. One of: fast, safe.\nmode: \"fast\"\n"));
  const std::vector<ConfigSpec::Entry> before = spec_.Describe();
  config_ = TestConfig{"", false, 1, 0, 0, 1h, 0s, {}, {"gone"}, "safe", "", LogLevel::kError, LogFormat::kJson};
  ASSERT_TRUE(Parse({}, printed->text).ok()) << printed->text;
  for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(spec_.Describe()[i].value, before[i].value) << before[i].key;
  EXPECT_EQ(config_.name, "odd: \"x\"\n#\t\\");
  EXPECT_THAT(config_.peers, ElementsAre("", "true", "- a", "x,y"));
}

TEST_F(Config, SecretsAreNeverShown) {
  config_.token = "s3cret-default";
  EXPECT_THAT(spec_.DefaultYaml(), Not(HasSubstr("s3cret")));
  EXPECT_THAT(spec_.Help(), Not(HasSubstr("s3cret")));
  env_ = {{"TEST_TOKEN", "s3cret-env"}};
  ASSERT_TRUE(Parse({}).ok());
  EXPECT_EQ(config_.token, "s3cret-env");
  EXPECT_THAT(spec_.DescribeLine(), Not(HasSubstr("s3cret")));
  EXPECT_THAT(spec_.DescribeLine(), HasSubstr("apiToken=***"));
  int number = 0;
  spec_.Add("pin", &number, "A number that is secret.").Secret();
  EXPECT_THAT(Mistakes({"--pin=s3cret"}), Not(HasSubstr("s3cret")));
}

TEST_F(Config, HelpAndVersionEndTheProgram) {
  const Result<ParseOutcome> help = Parse({"-h"});
  ASSERT_TRUE(help.ok());
  EXPECT_FALSE(help->should_run);
  EXPECT_THAT(help->text, HasSubstr("Usage: paceline-test [--config FILE] [flags]\n"));
  EXPECT_THAT(help->text, HasSubstr("  --leader-election-lease-duration DURATION\n"
                                    "      How long a lease holds. Default: 15s.\n"));
  EXPECT_THAT(help->text, HasSubstr("  --name TEXT\n"
                                    "      A name. Also from the environment variable TEST_NAME. Default: default.\n"));
  const Result<ParseOutcome> version = Parse({"--version"});
  EXPECT_THAT(version->text, testing::MatchesRegex("paceline-test [0-9]+\\.[0-9]+\\.[0-9]+ \\(.+\\)\n"));
}

TEST_F(Config, DescribesItselfInOneLine) {
  EXPECT_THAT(spec_.DescribeLine(), HasSubstr("name=default enabled=true leaderElection.leaseDuration=15s"));
  EXPECT_THAT(spec_.DescribeLine(), HasSubstr(" peers=\"[a, b c]\" mode=fast apiToken=\"\" "));
}

TEST_F(Config, AnyBytesGiveAnAnswer) {
  const std::string whole = spec_.DefaultYaml();
  std::mt19937 random(1);
  for (size_t length = 0; length < whole.size(); length += 5) (void)Parse({}, whole.substr(0, length) + " ").ok();
  for (int i = 0; i < 300; ++i) {
    std::string text = whole;
    for (int flips = 0; flips < 3; ++flips) text[random() % text.size()] = static_cast<char>(random());
    (void)Parse({}, text).ok();  // an error or not, but no crash
  }
  EXPECT_FALSE(Parse({}, std::string(20'000, '[')).ok());
  EXPECT_FALSE(Parse({}, "a: &x [*x]").ok());
  EXPECT_FALSE(Parse({}, "name: *nowhere").ok());
  EXPECT_FALSE(Parse({}, "? [a]\n: b").ok());
}

TEST(ConfigKeys, BecomeFlags) {
  std::string text;
  const struct {
    const char* key;
    const char* flag;
  } cases[] = {{"name", "name"},
               {"leaderElection.leaseDuration", "leader-election-lease-duration"},
               {"apiURL", "api-url"},
               {"kube.apiURLPrefix", "kube-api-url-prefix"},
               {"tls13.only", "tls13-only"}};
  for (const auto& c : cases) EXPECT_EQ(ConfigField(c.key, &text, "Doc.").flag(), c.flag);
}

TEST(ConfigDeathTest, ABadFieldEndsTheProcess) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  std::string text;
  ConfigSpec spec("p", "P.");
  spec.Add("a.b", &text, "Doc.");
  EXPECT_DEATH(spec.Add("a.b", &text, "Doc."), "its flag is that of \"a.b\" too");
  EXPECT_DEATH(spec.Add("aB", &text, "Doc."), "its flag is that of \"a.b\" too");
  EXPECT_DEATH(spec.Add("a", &text, "Doc."), "is a section of the other");
  EXPECT_DEATH(spec.Add("a.b.c", &text, "Doc."), "is a section of the other");
  EXPECT_DEATH(spec.Add("help", &text, "Doc."), "every program has");
  EXPECT_DEATH(spec.Add("Bad", &text, "Doc."), "camelCase");
  EXPECT_DEATH(spec.Add("c", &text, ""), "no documentation");
}

TEST(WrapText, BreaksAtBlanksAndKeepsLongWordsWhole) {
  EXPECT_EQ(WrapText("one two three", "# ", 9), "# one two\n# three\n");
  EXPECT_EQ(WrapText("averylongword b", "", 5), "averylongword\nb\n");
  EXPECT_EQ(WrapText("", "# ", 5), "");
}

}  // namespace
}  // namespace paceline
