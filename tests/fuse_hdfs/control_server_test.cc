#include "fuse-hdfs/control_server.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/fakes/temporary_folder.h"

namespace paceline::fuse_hdfs {
namespace {

class ControlServerTest : public testing::Test {
 protected:
  Result<std::unique_ptr<ControlServer>> Start() {
    return ControlServer::Start(path_, clock_, [](const std::vector<std::string>& words) {
      if (words.front() == "large") return std::string(3 << 20, 'x');
      std::string joined;
      for (const std::string& word : words) joined += "[" + word + "]";
      return joined;
    });
  }
  Result<std::string> Ask(const std::string& line) {
    return AskControlServer(path_, line, clock_, Deadline::After(clock_, std::chrono::seconds(10)));
  }

  RealClock clock_;
  fakes::TemporaryFolder folder_;
  const std::string path_ = folder_ / "socket";
};

TEST_F(ControlServerTest, AnswersLines) {
  auto server = Start();
  ASSERT_TRUE(server.ok());
  EXPECT_EQ(Ask("log-level  debug").value_or("?"), "[log-level][debug]");
  EXPECT_EQ(Ask("large").value_or("?").size(), size_t{3} << 20);
  EXPECT_EQ(Ask("   ").value_or("?"), "") << "nothing was asked";
  EXPECT_EQ(Ask(std::string(10000, 'x')).value_or(""), "") << "a line without end is not read to it";
  EXPECT_EQ(Ask("still there").value_or("?"), "[still][there]");
}

TEST_F(ControlServerTest, IsForItsUserOnly) {
  auto server = Start();
  ASSERT_TRUE(server.ok());
  struct stat st;
  ASSERT_EQ(stat(path_.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
}

TEST_F(ControlServerTest, TakesOverADeadSocketOnly) {
  {
    auto server = Start();
    ASSERT_TRUE(server.ok());
    EXPECT_EQ(Start().status().code(), StatusCode::kAlreadyExists);
    // What a killed server leaves behind: a name that nobody listens on.
    ASSERT_EQ(rename(path_.c_str(), (path_ + ".dead").c_str()), 0);
  }
  ASSERT_EQ(rename((path_ + ".dead").c_str(), path_.c_str()), 0);
  EXPECT_EQ(Ask("x").status().code(), StatusCode::kUnavailable);
  auto server = Start();
  ASSERT_TRUE(server.ok()) << server.status().ToString();
  EXPECT_EQ(Ask("back").value_or("?"), "[back]");
}

TEST_F(ControlServerTest, GoesWithItsSocket) {
  { ASSERT_TRUE(Start().ok()); }
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_EQ(Ask("x").status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace paceline::fuse_hdfs
