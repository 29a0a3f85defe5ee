#include "fuse-hdfs/config.h"

#include <gtest/gtest.h>

namespace paceline::fuse_hdfs {
namespace {

using Words = std::vector<std::string>;

TEST(MountConfig, NamesPositionalArguments) {
  MountConfig config;
  const ConfigSpec spec = DescribeMountConfig(&config);
  const struct {
    const char* name;
    Words args, named;
  } cases[] = {
      {"both", {"file:///a", "/mnt"}, {"--uri", "file:///a", "--directory", "/mnt"}},
      {"after a switch", {"--daemon", "file:///a", "/mnt"}, {"--daemon", "--uri", "file:///a", "--directory", "/mnt"}},
      {"after a value", {"--threads", "4", "u", "d"}, {"--threads", "4", "--uri", "u", "--directory", "d"}},
      {"value with =", {"--threads=4", "u"}, {"--threads=4", "--uri", "u"}},
      {"configuration file", {"--config", "c.yaml", "u"}, {"--config", "c.yaml", "--uri", "u"}},
      {"a third one stays an error", {"u", "d", "x"}, {"--uri", "u", "--directory", "d", "x"}},
      {"none", {"--help"}, {"--help"}},
  };
  for (const auto& c : cases) EXPECT_EQ(NamePositionals(spec, c.args), c.named) << c.name;
}

Status ParseArgs(MountConfig* config, const Words& args) {
  ConfigSpec spec = DescribeMountConfig(config);
  ConfigSources sources;
  sources.args = NamePositionals(spec, args);
  sources.env = [](const std::string&) { return std::nullopt; };
  sources.read_file = [](const std::string&) -> Result<std::string> { return NotFoundError("no file"); };
  return spec.Parse(sources).status();
}

TEST(MountConfig, SaysWhatIsWrong) {
  const struct {
    const char* name;
    Words args;
    const char* mentions;
  } cases[] = {
      {"nothing", {}, "hdfs://host:8020"},
      {"no directory", {"file:///a"}, "directory"},
      {"foreign scheme", {"s3://bucket", "/mnt"}, "uri"},
      {"third argument", {"file:///a", "/mnt", "x"}, "unexpected argument"},
      {"layout", {"file:///a", "/mnt", "--writes-layout", "odd"}, "plain"},
  };
  for (const auto& c : cases) {
    MountConfig config;
    const Status status = ParseArgs(&config, c.args);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << c.name;
    EXPECT_NE(status.message().find(c.mentions), std::string::npos) << c.name << ": " << status.message();
  }
}

TEST(MountConfig, BecomesRules) {
  MountConfig config;
  ASSERT_TRUE(ParseArgs(&config, {"file:///data/", "/mnt", "--owners-uid", "1000", "--writes-replication=2"}).ok());
  Result<hdfs::Location> location = LocationOf(config);
  ASSERT_TRUE(location.ok());
  const MountRules rules = RulesOf(config, *location, {});
  EXPECT_EQ(rules.root, "/data");
  EXPECT_EQ(rules.owners.uid, 1000u);
  EXPECT_EQ(rules.owners.gid, std::nullopt);
  EXPECT_EQ(rules.writes.replication, 2u);
  EXPECT_EQ(rules.space_replication, 1u) << "a local folder has one copy";
}

TEST(MountConfig, ChoosesTheLayout) {
  const std::pair<const char*, hdfs::WriteLayout> layouts[] = {{"plain", hdfs::WriteLayout::kPlain},
                                                               {"single", hdfs::WriteLayout::kSingle},
                                                               {"striped", hdfs::WriteLayout::kStriped}};
  for (const auto& [name, layout] : layouts) {
    MountConfig config;
    ASSERT_TRUE(ParseArgs(&config, {"file:///a", "/mnt", "--writes-layout", name, "--writes-stripe-files", "5"}).ok());
    const Result<hdfs::FileSystemOptions> options = FileSystemOptionsOf(config, *LocationOf(config));
    ASSERT_TRUE(options.ok()) << options.status().ToString();
    EXPECT_EQ(options->layout, layout) << name;
    EXPECT_EQ(options->stripe_files, 5u);
  }
}

TEST(MountConfig, SpaceIsDividedByTheClustersReplication) {
  MountConfig config;
  config.uri = "hdfs://host:8020/";
  config.directory = "/mnt";
  Result<hdfs::Location> location = LocationOf(config);
  ASSERT_TRUE(location.ok());
  hdfs::HadoopConfig hadoop;
  EXPECT_EQ(RulesOf(config, *location, hadoop).space_replication, 3u);
  hadoop.Set("dfs.replication", "2");
  EXPECT_EQ(RulesOf(config, *location, hadoop).space_replication, 2u);
  config.space_replication = 1;
  EXPECT_EQ(RulesOf(config, *location, hadoop).space_replication, 1u);
}

}  // namespace
}  // namespace paceline::fuse_hdfs
