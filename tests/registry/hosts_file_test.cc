#include "lib/blocks/registry/hosts_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/memory_filesystem.h"

namespace paceline::blocks {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

const char kText[] = R"(
server = "https://up.test"
ca = "up.crt"

[host."https://z-first.test:8443"]
  capabilities = ["pull", "resolve"]
  ca = ["a.crt", "/abs/b.crt"]
  client = [["c.cert", "c.key"], ["both.pem", ""]]
  dial_timeout = "3s"
  [host."https://z-first.test:8443".header]
    x-team = ["one", "two"]
    x-plain = "three"

[host."http://a-second.test/proxy/docker"]
  capabilities = ["pull"]
  skip_verify = true

[host."https://third.test/v2/cache"]
  override_path = true
  client = "pem"
)";

TEST(HostsFile, MirrorsInTheOrderOfTheFileAndTheUpstreamLast) {
  const auto hosts = ParseHostsFile(kText, "/certs.d/up.test", "up.test", {});
  ASSERT_TRUE(hosts.ok()) << hosts.status().ToString();
  ASSERT_EQ(hosts->size(), 4u);
  const RegistryHost& first = (*hosts)[0];
  EXPECT_EQ(first.url.HostHeader() + first.url.path, "z-first.test:8443/v2");
  EXPECT_TRUE(first.can_pull && first.can_resolve && !first.is_upstream && !first.skip_verification);
  EXPECT_THAT(first.ca_files, ElementsAre("/certs.d/up.test/a.crt", "/abs/b.crt"));
  EXPECT_THAT(first.client_files, ElementsAre(Pair("/certs.d/up.test/c.cert", "/certs.d/up.test/c.key"),
                                              Pair("/certs.d/up.test/both.pem", "/certs.d/up.test/both.pem")));
  EXPECT_EQ(first.dial_timeout, std::chrono::seconds(3));
  EXPECT_EQ(first.headers.at("X-Team"), "one, two");
  EXPECT_EQ(first.headers.at("X-Plain"), "three");
  const RegistryHost& second = (*hosts)[1];
  EXPECT_FALSE(second.url.is_https);
  EXPECT_EQ(second.url.path, "/proxy/docker/v2");
  EXPECT_TRUE(second.can_pull && !second.can_resolve && second.skip_verification);
  EXPECT_EQ((*hosts)[2].url.path, "/v2/cache");
  const RegistryHost& last = (*hosts)[3];
  EXPECT_TRUE(last.is_upstream && last.can_pull && last.can_resolve);
  EXPECT_EQ(last.url.HostHeader() + last.url.path, "up.test/v2");
  EXPECT_THAT(last.ca_files, ElementsAre("/certs.d/up.test/up.crt"));
}

TEST(HostsFile, WithoutServerTheRegistryItselfIsTheUpstream) {
  const auto hosts = ParseHostsFile("[host.\"https://m.test\"]\n", "/d", "registry-1.docker.io", {});
  ASSERT_TRUE(hosts.ok()) << hosts.status().ToString();
  EXPECT_EQ(hosts->back().url.HostHeader(), "registry-1.docker.io");
  HostDefaults plain;
  plain.is_plain_http = true;
  EXPECT_FALSE(ParseHostsFile("", "/d", "h:5000", plain)->front().url.is_https);
}

TEST(HostsFile, MistakesSayWhere) {
  const std::pair<const char*, const char*> cases[] = {
      {"server = \n", "line 1"},
      {"\n\n[host.\"https://m.test\"\n", "line 3"},
      {"host = 3\n", "host must be a table"},
      {"[host.\"https://m.test\"]\ncapabilities = [\"pul\"]\n", "pul"},
      {"[host.\"https://m.test\"]\ncapabilities = 7\n", "capabilities"},
      {"[host.\"https://m.test\"]\nskip_verify = \"yes\"\n", "skip_verify"},
      {"[host.\"https://m.test\"]\nclient = [[\"a\"]]\n", "client"},
      {"[host.\"https://m.test\"]\ndial_timeout = 3\n", "dial_timeout"},
      {"[host.\"https://m.test\"]\nheader = 3\n", "header"},
      {"[host.\"ftp://m.test\"]\n", "ftp"},
  };
  for (const auto& [text, words] : cases) {
    const auto hosts = ParseHostsFile(text, "/d", "up.test", {});
    ASSERT_FALSE(hosts.ok()) << text;
    EXPECT_THAT(hosts.status().message(), HasSubstr(words)) << text;
  }
}

TEST(HostsFile, DamagedTextIsAnErrorOrHosts) {
  const std::string text = kText;
  for (size_t at = 0; at < text.size(); ++at) {
    std::string damaged = text;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    for (const std::string& candidate : {damaged, text.substr(0, at)}) {
      const auto hosts = ParseHostsFile(candidate, "/d", "up.test", {});
      if (hosts.ok()) {
        EXPECT_TRUE(!hosts->empty() && hosts->back().is_upstream);
      }
    }
  }
}

TEST(LoadHosts, TheFolderThatFitsBest) {
  EXPECT_THAT(HostsFolders("/c", "h:5000"), ElementsAre("/c/h_5000_", "/c/h:5000", "/c/_default"));
  EXPECT_THAT(HostsFolders("/c", "h"), ElementsAre("/c/h", "/c/_default"));
  RealClock clock;
  fakes::MemoryFileSystem files(clock);
  const auto put = [&](const std::string& folder, const std::string& name, const std::string& text) {
    ASSERT_TRUE(files.MakeDirectories(folder, 0755).ok());
    ASSERT_TRUE(files.WriteFileAtomically(folder + "/" + name, text, 0644).ok());
  };
  put("/c/_default", "hosts.toml", "[host.\"https://default.test\"]\n");
  put("/c/h:5000", "ca.crt", "");
  put("/c/h:5000", "client.cert", "");
  put("/c/h:5000", "client.key", "");
  put("/c/h:5000", "alone.cert", "");
  put("/c/m.test", "hosts.toml", "[host.\"https://mirror.test\"]\n");
  EXPECT_EQ(LoadHosts(files, "/c", "m.test", "m.test", {})->front().url.host, "mirror.test");
  EXPECT_EQ(LoadHosts(files, "/c", "other.test", "other.test", {})->front().url.host, "default.test");
  const auto docker_style = LoadHosts(files, "/c", "h:5000", "h:5000", {});
  ASSERT_TRUE(docker_style.ok());
  ASSERT_EQ(docker_style->size(), 1u);
  EXPECT_THAT(docker_style->front().ca_files, ElementsAre("/c/h:5000/ca.crt"));
  EXPECT_THAT(docker_style->front().client_files, ElementsAre(Pair("/c/h:5000/client.cert", "/c/h:5000/client.key")));
  EXPECT_EQ(LoadHosts(files, "", "m.test", "m.test", {})->size(), 1u);
  put("/c/bad.test", "hosts.toml", "server = ");
  EXPECT_THAT(LoadHosts(files, "/c", "bad.test", "bad.test", {}).status().message(), HasSubstr("/c/bad.test"));
}

}  // namespace
}  // namespace paceline::blocks
