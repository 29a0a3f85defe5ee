#include <gtest/gtest.h>

#include "lib/hdfs/open.h"

namespace paceline::hdfs {
namespace {

TEST(Location, IsParsed) {
  const struct {
    const char *uri, *scheme, *authority, *path;
  } cases[] = {
      {"hdfs://nn:8020/a/b", "hdfs", "nn:8020", "/a/b"},
      {"hdfs://ns", "hdfs", "ns", "/"},
      {"hdfs://ns/", "hdfs", "ns", "/"},
      {"hdfs:///a//b/./c/", "hdfs", "", "/a/b/c"},
      {"/a", "hdfs", "", "/a"},
      {"file:///tmp/x", "file", "", "/tmp/x"},
      {"file:///", "file", "", "/"},
  };
  for (const auto& c : cases) {
    const Result<Location> location = ParseLocation(c.uri);
    ASSERT_TRUE(location.ok()) << c.uri << ": " << location.status().ToString();
    EXPECT_EQ(location->scheme, c.scheme) << c.uri;
    EXPECT_EQ(location->authority, c.authority) << c.uri;
    EXPECT_EQ(location->path, c.path) << c.uri;
  }
  for (const char* bad : {"", "a/b", "s3://b/x", "file://host/x", "hdfs://ns/a/../b"}) {
    EXPECT_EQ(ParseLocation(bad).status().code(), StatusCode::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace paceline::hdfs
