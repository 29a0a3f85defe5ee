#include "lib/base/local_socket.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cstdlib>

#include <filesystem>
#include <fstream>
#include <thread>

namespace paceline {
namespace {

class LocalSocketTest : public testing::Test {
 public:
  ~LocalSocketTest() override { std::filesystem::remove_all(folder_); }

 protected:
  LocalSocketTest() {
    char name[] = "/tmp/socket-XXXXXX";
    folder_ = mkdtemp(name);
    path_ = folder_ + "/s";
  }

  Deadline Soon() const { return Deadline::After(clock_, std::chrono::seconds(10)); }

  RealClock clock_;
  std::string folder_, path_;
};

TEST_F(LocalSocketTest, CarriesALineEachWay) {
  Result<UniqueFd> listener = ListenLocal(path_);
  ASSERT_TRUE(listener.ok()) << listener.status().ToString();
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(AcceptLocal(listener->get()).status().code(), StatusCode::kUnavailable) << "nobody has connected";

  const std::string large(300000, 'x');
  std::jthread client(
      [&] { EXPECT_EQ(AskLocal(path_, large, 1 << 20, clock_, Soon()).value_or("?"), "answer\nof two lines\n"); });
  Result<UniqueFd> connection = UnavailableError("");
  while (!connection.ok()) connection = AcceptLocal(listener->get());
  EXPECT_EQ(PeerUser(connection->get()).value_or(12345), geteuid());
  EXPECT_EQ(ReceiveLine(connection->get(), 1 << 20, clock_, Soon()).value_or("?"), large);
  EXPECT_TRUE(SendText(connection->get(), "answer\nof two lines\n", clock_, Soon()).ok());
  connection->Reset();
}

TEST_F(LocalSocketTest, BoundsWhatItReadsAndHowLong) {
  Result<UniqueFd> listener = ListenLocal(path_);
  ASSERT_TRUE(listener.ok());
  const Deadline past = Deadline::After(clock_, std::chrono::milliseconds(20));
  EXPECT_EQ(AskLocal(path_, "nobody accepts", 10, clock_, past).status().code(), StatusCode::kDeadlineExceeded);
  Result<UniqueFd> connection = AcceptLocal(listener->get());
  ASSERT_TRUE(connection.ok());
  EXPECT_EQ(ReceiveLine(connection->get(), 5, clock_, Soon()).status().code(), StatusCode::kResourceExhausted);
}

TEST_F(LocalSocketTest, TakesTheDeadPlaceOnly) {
  EXPECT_EQ(AskLocal(path_, "x", 10, clock_, Soon()).status().code(), StatusCode::kUnavailable);
  {
    Result<UniqueFd> first = ListenLocal(path_);
    ASSERT_TRUE(first.ok());
    EXPECT_EQ(ListenLocal(path_).status().code(), StatusCode::kAlreadyExists);
  }
  EXPECT_TRUE(ListenLocal(path_).ok()) << "its socket is left behind, and nobody serves it";
  std::filesystem::remove(path_);
  std::ofstream(path_) << "a file";
  EXPECT_EQ(ListenLocal(path_).status().code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(ListenLocal(std::string(108, 'x')).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace paceline
