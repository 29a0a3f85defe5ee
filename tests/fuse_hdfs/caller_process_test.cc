#include "fuse-hdfs/caller_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cstdlib>

#include <thread>

#include "lib/base/unique_fd.h"

namespace paceline::fuse_hdfs {
namespace {

TEST(CallerProcess, OfAThread) {
  EXPECT_EQ(ProcessOf(getpid()), getpid());
  pid_t thread = 0;
  int32_t process = 0;
  std::thread([&] {
    thread = gettid();
    process = ProcessOf(thread);
  }).join();
  EXPECT_NE(thread, getpid());
  EXPECT_EQ(process, getpid());
  EXPECT_EQ(ProcessOf(0), 0);
  EXPECT_EQ(ProcessOf(-1), 0);
}

TEST(CallerProcess, SeesDescriptorsForWriting) {
  char path[] = "/tmp/caller-process-XXXXXX";
  UniqueFd writes(mkstemp(path));
  const std::string name = std::string(path).substr(5);
  struct stat st;
  ASSERT_EQ(fstat(writes.get(), &st), 0);
  const UniqueFd reads(open(path, O_RDONLY));
  EXPECT_TRUE(HoldsForWriting(getpid(), st.st_ino, name));
  EXPECT_FALSE(HoldsForWriting(getpid(), st.st_ino, "other"));
  EXPECT_FALSE(HoldsForWriting(getpid(), st.st_ino + 1, name));
  UniqueFd copy(dup(writes.get()));
  writes.Reset();
  EXPECT_TRUE(HoldsForWriting(getpid(), st.st_ino, name));
  copy.Reset();
  EXPECT_FALSE(HoldsForWriting(getpid(), st.st_ino, name)) << "what is left only reads";
  EXPECT_FALSE(HoldsForWriting(0, st.st_ino, name));
  unlink(path);
}

}  // namespace
}  // namespace paceline::fuse_hdfs
