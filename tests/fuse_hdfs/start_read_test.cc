#include "fuse-hdfs/start_read.h"

#include <gtest/gtest.h>

namespace paceline::fuse_hdfs {
namespace {

WallTime At(int seconds) { return WallTime(std::chrono::seconds(1767323045 + seconds)); }

TEST(StartRead, EndsAtTheFirstPause) {
  StartRead start;
  EXPECT_FALSE(start.span().has_value());
  for (const int seconds : {0, 10, 69, 128}) start.Note(At(seconds));
  start.Note(At(127));  // of another thread, which was late
  EXPECT_EQ(start.span()->first, At(0));
  EXPECT_EQ(start.span()->last, At(128));
  for (const int seconds : {188, 189, 400}) start.Note(At(seconds));
  EXPECT_EQ(start.span()->first, At(0));
  EXPECT_EQ(start.span()->last, At(128)) << "that was another reading";
}

}  // namespace
}  // namespace paceline::fuse_hdfs
