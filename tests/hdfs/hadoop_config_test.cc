#include "lib/hdfs/hadoop_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::hdfs {
namespace {

std::string Xml(const std::string& properties) {
  return "<?xml version=\"1.0\"?><configuration>" + properties + "</configuration>";
}
std::string Property(const std::string& name, const std::string& value, const std::string& more = "") {
  return "<property><name>" + name + "</name><value>" + value + "</value>" + more + "</property>";
}

HadoopConfig Make(const std::string& properties) {
  HadoopConfig config;
  Status status = config.AddXml("a.xml", Xml(properties));
  EXPECT_TRUE(status.ok()) << status.ToString();
  config.SetEnvironment([](const std::string& name) -> std::optional<std::string> {
    if (name == "HOME") return "/home";
    if (name == "EMPTY") return "";
    return std::nullopt;
  });
  return config;
}

TEST(HadoopConfig, ExpandsReferences) {
  const struct {
    const char *value, *want;
  } cases[] = {
      {"plain", "plain"},
      {"  blanks \n", "blanks"},
      {"${base}/x", "root/x"},
      {"${two}", "root/2"},
      {"${env.HOME}", "/home"},
      {"${env.NONE:-fallback}", "fallback"},
      {"${env.EMPTY:-fallback}", "fallback"},
      {"${env.EMPTY-fallback}", ""},
      {"${env.NONE-}", ""},
      {"${env.NONE}", "${env.NONE}"},
      {"${unknown}", "${unknown}"},
      {"${k}", "${k}"},        // itself
      {"${ring}", "${ring}"},  // leads back
      {"open ${base", "open ${base"},
      {"a &amp; b", "a & b"},
      {"${base}${base}", "rootroot"},
  };
  for (const auto& c : cases) {
    const HadoopConfig config =
        Make(Property("base", "root") + Property("two", "${base}/2") + Property("ring", "${ring2}") +
             Property("ring2", "${ring}") + Property("k", c.value));
    EXPECT_EQ(config.GetOr("k", "absent"), c.want) << c.value;
  }
}

TEST(HadoopConfig, LetsLaterFilesWinOverAllButFinalValues) {
  HadoopConfig config =
      Make(Property("a", "1") + Property("b", "1", "<final>true</final><description>d</description>"));
  ASSERT_TRUE(config.AddXml("b.xml", Xml(Property("a", "2") + Property("b", "2"))).ok());
  EXPECT_EQ(config.Get("a"), "2");
  EXPECT_EQ(config.Get("b"), "1");
  config.Set("b", "3");
  EXPECT_EQ(config.Get("b"), "3");
  EXPECT_EQ(config.Get("c"), std::nullopt);
}

TEST(HadoopConfig, ReadsTypes) {
  const HadoopConfig config =
      Make(Property("n", "42") + Property("t", "true") + Property("l", " a, b ,,c") + Property("x", "4k"));
  EXPECT_EQ(config.GetInt("n", 0).value_or(-1), 42);
  EXPECT_EQ(config.GetInt("none", 7).value_or(-1), 7);
  EXPECT_TRUE(config.GetBool("t", false).value_or(false));
  EXPECT_THAT(config.GetList("l"), testing::ElementsAre("a", "b", "c"));
  EXPECT_THAT(config.GetInt("x", 0).status().message(), testing::HasSubstr("x: \"4k\""));
  EXPECT_FALSE(config.GetBool("n", true).ok());
}

TEST(HadoopConfig, RefusesWhatIsNoConfiguration) {
  HadoopConfig config;
  const char* const bad[] = {
      "",
      "<configuration>",
      "<other/>",
      "text",
      "<!DOCTYPE c [<!ENTITY e SYSTEM \"file:///etc/passwd\">]><configuration>&e;</configuration>",
      "<configuration><property></configuration>"};
  for (const char* text : bad) {
    const Status status = config.AddXml("bad.xml", text);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(status.message(), testing::StartsWith("bad.xml:"));
  }
}

TEST(HadoopConfig, SurvivesCutAndFlippedBytes) {
  const std::string good = Xml(Property("a", "${b}", "<final>true</final>") + Property("b", "x &lt; y"));
  for (size_t i = 0; i < good.size(); ++i) {
    HadoopConfig cut;
    EXPECT_FALSE(cut.AddXml("cut", good.substr(0, i)).ok());
    std::string flipped = good;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 << (i % 8)));
    HadoopConfig config;
    if (config.AddXml("flipped", flipped).ok()) config.Get("a");
  }
}

TEST(NameServices, AreResolved) {
  const std::string ha = Property("dfs.nameservices", "ns,solo") + Property("dfs.ha.namenodes.ns", "nn1,nn2") +
                         Property("dfs.namenode.rpc-address.ns.nn1", "a:1") +
                         Property("dfs.namenode.rpc-address.ns.nn2", "b") +
                         Property("dfs.namenode.rpc-address.solo", "c:3");
  const HadoopConfig config = Make(ha + Property("fs.defaultFS", "hdfs://ns/"));
  const auto service = ResolveNameService(config, "ns");
  ASSERT_TRUE(service.ok()) << service.status().ToString();
  EXPECT_EQ(service->name, "ns");
  EXPECT_THAT(service->namenodes,
              testing::ElementsAre(NameNodeAddress{"nn1", "a", 1}, NameNodeAddress{"nn2", "b", 8020}));
  EXPECT_EQ(ResolveNameService(config, "")->name, "ns");
  EXPECT_EQ(ResolveNameService(config, "solo")->namenodes.front(), (NameNodeAddress{"", "c", 3}));
  EXPECT_EQ(ResolveNameService(config, "host:9000")->namenodes.front(), (NameNodeAddress{"", "host", 9000}));
  EXPECT_EQ(ResolveNameService(config, "[::1]:9000")->namenodes.front(), (NameNodeAddress{"", "::1", 9000}));
  EXPECT_THAT(ResolveNameService(HadoopConfig(), "").status().message(), testing::HasSubstr("fs.defaultFS"));
  EXPECT_THAT(ResolveNameService(Make(Property("dfs.ha.namenodes.x", "n")), "x").status().message(),
              testing::HasSubstr("dfs.namenode.rpc-address.x.n is not set"));
  for (const char* bad : {"host:0", "host:x", ":1", "host:70000", "[::1", "host:1:2"}) {
    EXPECT_FALSE(ResolveNameService(config, bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace paceline::hdfs
