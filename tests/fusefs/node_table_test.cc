#include "lib/fusefs/node_table.h"

#include <gtest/gtest.h>

namespace paceline::fusefs {
namespace {

TEST(NodeTable, SameNameHasTheSameInode) {
  NodeTable nodes;
  const uint64_t a = nodes.Acquire(kRootInode, "a");
  EXPECT_EQ(nodes.Acquire(kRootInode, "a"), a);
  const uint64_t b = nodes.Acquire(a, "b");
  EXPECT_NE(a, b);
  EXPECT_EQ(nodes.PathOf(kRootInode), "/");
  EXPECT_EQ(nodes.PathOf(b), "/a/b");
  EXPECT_EQ(nodes.PathOf(b, "new"), "/a/b/new");
  EXPECT_EQ(nodes.ParentOf(b), a);
}

TEST(NodeTable, GoesWithItsLastLookup) {
  NodeTable nodes;
  const uint64_t a = nodes.Acquire(kRootInode, "a");
  nodes.Acquire(kRootInode, "a");
  EXPECT_FALSE(nodes.Forget(a, 1));
  EXPECT_EQ(nodes.Find(kRootInode, "a"), a);
  EXPECT_TRUE(nodes.Forget(a, 1));
  EXPECT_EQ(nodes.Find(kRootInode, "a"), std::nullopt);
  EXPECT_EQ(nodes.PathOf(a), std::nullopt);
  EXPECT_EQ(nodes.size(), 1u);
}

TEST(NodeTable, DirectoryStaysUntilItsChildrenAreForgotten) {
  NodeTable nodes;
  const uint64_t a = nodes.Acquire(kRootInode, "a");
  const uint64_t b = nodes.Acquire(a, "b");
  EXPECT_FALSE(nodes.Forget(a, 1));
  EXPECT_EQ(nodes.PathOf(b), "/a/b");
  EXPECT_TRUE(nodes.Forget(b, 1));
  EXPECT_EQ(nodes.size(), 1u);
}

TEST(NodeTable, RenameMovesWhatIsBelow) {
  NodeTable nodes;
  const uint64_t a = nodes.Acquire(kRootInode, "a");
  const uint64_t b = nodes.Acquire(a, "b");
  const uint64_t c = nodes.Acquire(kRootInode, "c");
  nodes.Rename(kRootInode, "a", c, "d");
  EXPECT_EQ(nodes.PathOf(b), "/c/d/b");
  EXPECT_EQ(nodes.Find(kRootInode, "a"), std::nullopt);
  EXPECT_EQ(nodes.Find(c, "d"), a);
}

TEST(NodeTable, RenameOverANameTakesItsPath) {
  NodeTable nodes;
  const uint64_t a = nodes.Acquire(kRootInode, "a");
  const uint64_t b = nodes.Acquire(kRootInode, "b");
  nodes.Rename(kRootInode, "a", kRootInode, "b");
  EXPECT_EQ(nodes.PathOf(a), "/b");
  EXPECT_EQ(nodes.PathOf(b), std::nullopt);
  EXPECT_TRUE(nodes.Forget(b, 1));
  EXPECT_EQ(nodes.Find(kRootInode, "b"), a);
}

TEST(NodeTable, DetachedNodeHasNoPathAndItsNameIsFree) {
  NodeTable nodes;
  const uint64_t a = nodes.Acquire(kRootInode, "a");
  const uint64_t below = nodes.Acquire(a, "x");
  nodes.Detach(kRootInode, "a");
  EXPECT_EQ(nodes.PathOf(a), std::nullopt);
  EXPECT_EQ(nodes.PathOf(below), std::nullopt);
  EXPECT_NE(nodes.Acquire(kRootInode, "a"), a);
}

TEST(NodeTable, RootStays) {
  NodeTable nodes;
  EXPECT_FALSE(nodes.Forget(kRootInode, 100));
  EXPECT_EQ(nodes.PathOf(kRootInode), "/");
}

}  // namespace
}  // namespace paceline::fusefs
