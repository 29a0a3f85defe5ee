#include "fuse-hdfs/read_ahead.h"

#include <gtest/gtest.h>

namespace paceline::fuse_hdfs {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kFile = 1024 * kMiB;

TEST(ReadAhead, SequentialReaderIsFetchedOnceAndFurtherEachTime) {
  ReadAhead ahead({.first_bytes = 8 * kMiB, .max_bytes = 64 * kMiB});
  uint64_t fetched = 0, farthest = 0;
  for (uint64_t offset = 0; offset < kFile; offset += kMiB) {
    const hdfs::ByteRange range = ahead.Next({offset, kMiB}, kFile);
    if (range.length == 0) continue;
    EXPECT_GE(range.offset, fetched) << "nothing twice";
    fetched = range.offset + range.length;
    EXPECT_LE(fetched, kFile);
    farthest = std::max(farthest, fetched - offset);
  }
  EXPECT_EQ(fetched, kFile);
  EXPECT_GT(farthest, 32 * kMiB);
  EXPECT_LE(farthest, 65 * kMiB);
}

TEST(ReadAhead, RandomReadsFetchNothing) {
  ReadAhead ahead({});
  for (const uint64_t mib : {500, 100, 900, 300, 700, 50, 650}) {
    EXPECT_EQ(ahead.Next({mib * kMiB, 4096}, kFile).length, 0u) << mib;
  }
}

TEST(ReadAhead, FollowsSeveralReadersOfOneFile) {
  ReadAhead ahead({.first_bytes = 8 * kMiB, .max_bytes = 64 * kMiB});
  uint64_t fetched[3] = {};
  for (uint64_t step = 0; step < 100; ++step) {
    for (uint64_t reader = 0; reader < 3; ++reader) {
      fetched[reader] += ahead.Next({reader * 300 * kMiB + step * kMiB, kMiB}, kFile).length;
    }
  }
  for (const uint64_t bytes : fetched) EXPECT_GT(bytes, 90 * kMiB);
}

TEST(ReadAhead, ToleratesTheKernelsOrder) {
  ReadAhead ahead({.first_bytes = 8 * kMiB, .max_bytes = 64 * kMiB});
  uint64_t total = 0;
  for (uint64_t pair = 0; pair < 100; pair += 2) {
    total += ahead.Next({(pair + 1) * kMiB, kMiB}, kFile).length;
    total += ahead.Next({pair * kMiB, kMiB}, kFile).length;
  }
  EXPECT_GT(total, 90 * kMiB);
}

TEST(ReadAhead, CanBeTurnedOff) {
  ReadAhead ahead({.max_bytes = 0});
  EXPECT_EQ(ahead.Next({0, kMiB}, kFile).length, 0u);
}

}  // namespace
}  // namespace paceline::fuse_hdfs
