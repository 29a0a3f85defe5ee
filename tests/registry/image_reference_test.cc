#include "lib/blocks/registry/image_reference.h"

#include <gtest/gtest.h>

namespace paceline::blocks {
namespace {

const std::string kDigest = "sha256:" + std::string(64, 'a');

TEST(ImageReference, ReadsWhatPeopleWrite) {
  const struct {
    std::string text, registry, repository, tag, digest;
  } cases[] = {
      {"ubuntu", "docker.io", "library/ubuntu", "latest", ""},
      {"ubuntu:22.04", "docker.io", "library/ubuntu", "22.04", ""},
      {"docker.io/ubuntu", "docker.io", "library/ubuntu", "latest", ""},
      {"index.docker.io/a/b", "docker.io", "a/b", "latest", ""},
      {"pytorch/pytorch:2.4", "docker.io", "pytorch/pytorch", "2.4", ""},
      {"docker://ghcr.io/a/b/c:v1", "ghcr.io", "a/b/c", "v1", ""},
      {"localhost/a", "localhost", "a", "latest", ""},
      {"localhost:5000/a:b", "localhost:5000", "a", "b", ""},
      {"10.1.2.3:5000/x/y@" + kDigest, "10.1.2.3:5000", "x/y", "", kDigest},
      {"r.test/x:t@" + kDigest, "r.test", "x", "t", kDigest},
      {"[::1]:5000/x", "[::1]:5000", "x", "latest", ""},
      {"r.test/a__b/c-d/e--f.g", "r.test", "a__b/c-d/e--f.g", "latest", ""},
  };
  for (const auto& c : cases) {
    const Result<ImageReference> read = ParseImageReference(c.text);
    ASSERT_TRUE(read.ok()) << c.text << ": " << read.status().ToString();
    EXPECT_EQ(read->registry, c.registry) << c.text;
    EXPECT_EQ(read->repository, c.repository) << c.text;
    EXPECT_EQ(read->tag, c.tag) << c.text;
    EXPECT_EQ(read->digest, c.digest) << c.text;
    EXPECT_EQ(read->Selector(), c.digest.empty() ? c.tag : c.digest) << c.text;
    const Result<ImageReference> again = ParseImageReference(read->ToString());
    ASSERT_TRUE(again.ok()) << read->ToString();
    EXPECT_EQ(again->ToString(), read->ToString());
  }
}

TEST(ImageReference, KnowsWhereDockerHubIs) {
  EXPECT_EQ(ParseImageReference("ubuntu")->ApiHost(), "registry-1.docker.io");
  EXPECT_EQ(ParseImageReference("r.test:5000/ubuntu")->ApiHost(), "r.test:5000");
}

// What is taken becomes part of URLs and paths.
TEST(ImageReference, RefusesWhatIsNoReference) {
  const std::string cases[] = {"",
                               "Ubuntu",
                               "a/../b",
                               "r.test/../x",
                               "r.test/a//b",
                               "r.test/a/",
                               "r.test/",
                               "a:",
                               "a:b c",
                               "a?x=1",
                               "a#b",
                               "a@sha256:abc",
                               "a@md5:" + std::string(32, 'a'),
                               "a@sha256:" + std::string(64, 'A'),
                               "r.test:port/a",
                               "r.test:123456/a",
                               "a___b",
                               "a..b",
                               "-a",
                               "a-",
                               "user@host/a",
                               "r.test/a:b:c",
                               "[::1/a",
                               std::string("a\0b", 3),
                               "r.test/" + std::string(256, 'a'),
                               "a:" + std::string(129, 't')};
  for (const std::string& text : cases) {
    const Result<ImageReference> read = ParseImageReference(text);
    EXPECT_FALSE(read.ok()) << text << " was read as " << read->ToString();
    if (!read.ok()) {
      EXPECT_EQ(read.status().code(), StatusCode::kInvalidArgument);
    }
  }
}

// Whatever bytes come in, nothing that is taken holds a character that means something in a URL or a path.
TEST(ImageReference, DamagedTextGivesCleanPartsOrNothing) {
  const std::string text = "docker://reg.test:5000/team/app-1:v1.2@" + kDigest;
  for (size_t at = 0; at < text.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      for (const std::string& candidate : {damaged, damaged.substr(0, at)}) {
        const Result<ImageReference> read = ParseImageReference(candidate);
        if (!read.ok()) continue;
        const std::string parts = read->registry + read->repository + read->tag + read->digest;
        EXPECT_EQ(parts.find_first_of(" ?#%@\\\"\r\n"), std::string::npos) << candidate;
        EXPECT_EQ(read->repository.find(".."), std::string::npos) << candidate;
      }
    }
  }
}

}  // namespace
}  // namespace paceline::blocks
