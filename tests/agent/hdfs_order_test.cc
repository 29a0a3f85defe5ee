#include "agent/csi/hdfs_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::agent {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Map = std::map<std::string, std::string>;

Result<MountOrder> Order(Map attributes, Map secrets = {}, const HdfsRules& rules = {}) {
  VolumeSpec spec;
  spec.volume_id = "csi-1";
  spec.attributes = std::move(attributes);
  spec.secrets = std::move(secrets);
  return MakeHdfsOrder(spec, rules);
}

std::string Line(const MountOrder& order) {
  std::string line;
  for (const std::string& argument : order.arguments) line += " " + argument;
  return line;
}

TEST(HdfsOrder, SaysAllThatTheVolumeSays) {
  const Result<MountOrder> order = Order({{"uri", "hdfs://ns/jobs/a b"},
                                          {"layout", "single"},
                                          {"segmentSize", "64Mi"},
                                          {"blockSize", "256Mi"},
                                          {"pipelines", "4"},
                                          {"replication", "2"},
                                          {"uid", "1000"},
                                          {"gid", "100"},
                                          {"user", "alice"},
                                          {"memoryLimit", "128Mi"},
                                          {"readOnly", "true"}});
  ASSERT_TRUE(order.ok()) << order.status().ToString();
  EXPECT_EQ(order->program, "paceline-hdfs-mount");
  EXPECT_EQ(order->owner, "csi-1");
  EXPECT_EQ(order->name, HdfsMountName("csi-1"));
  for (const char* part :
       {" --uri hdfs://ns/jobs/a b --directory {mountPoint} --control-socket {control} --access-kernel-checks=false",
        " --writes-layout single", " --writes-segment-size 64MiB", " --writes-block-size 256MiB",
        " --writes-pipelines 4", " --writes-replication 2", " --owners-uid 1000", " --owners-gid 100",
        " --hadoop-user alice", " --reads-budget 64MiB", " --writes-budget 64MiB", " --read-only"}) {
    EXPECT_THAT(Line(*order), HasSubstr(part));
  }
  EXPECT_FALSE(order->files.has_value());
}

TEST(HdfsOrder, SaysHowToStripeWhatToMakeAndWhatToLoad) {
  const Result<MountOrder> order = Order({{"uri", "hdfs://ns/a"},
                                          {"layout", "striped"},
                                          {"stripeFiles", "4"},
                                          {"stripeUnit", "2Mi"},
                                          {"createDirectory", "true"},
                                          {"prefetch", "step 100,latest"}});
  ASSERT_TRUE(order.ok()) << order.status().ToString();
  for (const char* part : {" --writes-layout striped", " --writes-stripe-files 4", " --writes-stripe-unit 2MiB",
                           " --create-directory", " --prefetch-paths step 100,latest"}) {
    EXPECT_THAT(Line(*order), HasSubstr(part));
  }
  EXPECT_THAT(Line(*Order({{"uri", "hdfs://ns/a"}, {"createDirectory", "false"}})),
              Not(HasSubstr("--create-directory")));
}

TEST(HdfsOrder, PassesSecretsAsFilesOnly) {
  const Map secret = {{"core-site.xml", "<configuration/>"},
                      {"keytab", std::string("\0\x05", 2)},
                      {"krb5.conf", "[libdefaults]"},
                      {"token", "HDTS"}};
  const Result<MountOrder> order = Order({{"uri", "hdfs://ns/a"}}, secret);
  ASSERT_TRUE(order.ok()) << order.status().ToString();
  EXPECT_EQ(order->files, secret);
  EXPECT_THAT(Line(*order), HasSubstr(" --hadoop-config-dir {files}"));
  EXPECT_EQ(order->environment, (Map{{"KRB5_CONFIG", "{files}/krb5.conf"},
                                     {"KRB5_CLIENT_KTNAME", "FILE:{files}/keytab"},
                                     {"KRB5CCNAME", "FILE:{files}/tickets"},
                                     {"HADOOP_TOKEN_FILE_LOCATION", "{files}/token"}}));
  EXPECT_THAT(Order({{"uri", "hdfs://ns/a"}}, {{"password", "x"}}).status().message(), HasSubstr("\"password\""));
}

TEST(HdfsOrder, SaysWhatIsWrong) {
  const struct {
    Map attributes;
    const char* words;
  } cases[] = {
      {{}, "uri is missing"},
      {{{"uri", "http://h/a"}}, "must be hdfs://"},
      {{{"uri", "hdfs://h/a/../../b"}}, "\"..\""},
      {{{"uri", "hdfs://h/a\nb"}}, "control characters"},
      {{{"uri", "file:///etc"}}, "allows none"},
      {{{"uri", "hdfs://h/a"}, {"layout", "wild"}}, "plain, striped, single"},
      {{{"uri", "hdfs://h/a"}, {"memoryLimit", "1Mi"}}, "less than"},
      {{{"uri", "hdfs://h/a"}, {"memoryLimit", "much"}}, "memoryLimit"},
      {{{"uri", "hdfs://h/a"}, {"pipelines", "0"}}, "from 1 to 64"},
      {{{"uri", "hdfs://h/a"}, {"pipelines", "4x"}}, "from 1 to 64"},
      {{{"uri", "hdfs://h/a"}, {"readOnly", "yes"}}, "neither true nor false"},
      {{{"uri", "hdfs://h/a"}, {"user", ""}}, "1 to 64 bytes"},
      {{{"uri", "hdfs://h/a"}, {"stripeFiles", "65"}}, "from 1 to 64"},
      {{{"uri", "hdfs://h/a"}, {"createDirectory", "1"}}, "neither true nor false"},
      {{{"uri", "hdfs://h/a"}, {"createDirectory", "true"}, {"readOnly", "true"}}, "only read"},
      {{{"uri", "hdfs://h/a"}, {"prefetch", "../x"}}, "without \"..\""},
      {{{"uri", "hdfs://h/a"}, {"segmentsize", "1Mi"}}, "unknown attribute \"segmentsize\""},
  };
  for (const auto& c : cases) {
    const Status status = Order(c.attributes).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << c.words;
    EXPECT_THAT(status.message(), HasSubstr(c.words));
  }
}

TEST(HdfsOrder, KeepsFoldersOfTheNodeWhereTheyAreAllowed) {
  HdfsRules rules;
  rules.file_root = "/srv/data";
  EXPECT_TRUE(Order({{"uri", "file:///srv/data/a"}}, {}, rules).ok());
  for (const char* uri : {"file:///srv/database", "file:///srv", "file:///srv/data/../x", "file://host/srv/data"}) {
    EXPECT_EQ(Order({{"uri", uri}}, {}, rules).status().code(), StatusCode::kInvalidArgument) << uri;
  }
}

}  // namespace
}  // namespace paceline::agent
