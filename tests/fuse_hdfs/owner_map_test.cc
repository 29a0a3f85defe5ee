#include "fuse-hdfs/owner_map.h"

#include <gtest/gtest.h>

namespace paceline::fuse_hdfs {
namespace {

TEST(OwnerMap, MapsByName) {
  OwnerMap owners({.unknown_uid = 7777, .unknown_gid = 8888});
  const struct {
    const char* user;
    uint32_t uid;
  } cases[] = {
      {"root", 0}, {"root/host@REALM", 0}, {"root@REALM", 0}, {"1234", 1234}, {"no-such-user-here", 7777}, {"", 7777},
  };
  for (int round = 0; round < 2; ++round) {  // the second time from memory
    for (const auto& c : cases) EXPECT_EQ(owners.UidOf(c.user), c.uid) << c.user;
  }
  EXPECT_EQ(owners.GidOf("root"), 0u);
  EXPECT_EQ(owners.GidOf("no-such-group"), 8888u);
  EXPECT_EQ(owners.UserOf(0).value_or("?"), "root");
  EXPECT_EQ(owners.GroupOf(0).value_or("?"), "root");
  EXPECT_EQ(owners.UserOf(3999999999).status().code(), StatusCode::kInvalidArgument);
}

TEST(OwnerMap, OneOwnerForAll) {
  OwnerMap owners({.uid = 1000, .gid = 100});
  EXPECT_EQ(owners.UidOf("root"), 1000u);
  EXPECT_EQ(owners.GidOf("root"), 100u);
  EXPECT_EQ(owners.UserOf(1000).value_or("?"), "") << "already shown so";
  EXPECT_EQ(owners.UserOf(0).value_or("?"), "root");
}

}  // namespace
}  // namespace paceline::fuse_hdfs
