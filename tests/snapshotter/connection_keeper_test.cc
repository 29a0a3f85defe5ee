#include "snapshotter/connection_keeper.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "tests/fakes/simulated_clock.h"
#include "tests/fakes/temporary_folder.h"

namespace paceline::snapshotter {
namespace {

class ConnectionKeeperTest : public testing::Test {
 protected:
  ConnectionKeeperTest() {
    config_.socket = folder_ / "k";
    thread_ =
        std::jthread([this](std::stop_token stop) { ended_ = RunKeeper(config_, clock_, *log_, std::move(stop)); });
  }

  KeeperClient Connect() {
    Result<KeeperClient> client = UnavailableError("not tried");
    while (!client.ok()) {
      client = KeeperClient::Connect(config_.socket);
      std::this_thread::yield();
    }
    return *std::move(client);
  }

  static fusefs::Connection Pipe(UniqueFd* out) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    *out = UniqueFd(ends[0]);
    return {UniqueFd(ends[1]), std::string("first\0request", 13)};
  }

  fakes::TemporaryFolder folder_;
  fakes::SimulatedClock clock_;
  std::unique_ptr<Logger> log_ = Logger::Discard();
  KeeperConfig config_;
  Status ended_;
  std::jthread thread_;
};

TEST_F(ConnectionKeeperTest, GivesTheNextPluginWhatTheLastOneLeft) {
  UniqueFd out;
  {
    KeeperClient first = Connect();
    const auto nothing = first.Take();
    ASSERT_TRUE(nothing.ok()) << nothing.status().ToString();
    EXPECT_FALSE(nothing->has_value());
    ASSERT_TRUE(first.Keep(Pipe(&out)).ok());
  }
  for (int plugin = 0; plugin < 3; ++plugin) {
    KeeperClient next = Connect();
    const auto taken = next.Take();
    ASSERT_TRUE(taken.ok()) << taken.status().ToString();
    ASSERT_TRUE(taken->has_value());
    EXPECT_EQ((*taken)->init_request, std::string("first\0request", 13));
    ASSERT_EQ(write((*taken)->device.get(), "x", 1), 1);
    char letter = 0;
    EXPECT_EQ(read(out.get(), &letter, 1), 1);
    EXPECT_EQ(letter, 'x');
  }
  UniqueFd other;
  KeeperClient last = Connect();
  ASSERT_TRUE(last.Keep(Pipe(&other)).ok());
  char letter = 0;
  EXPECT_EQ(read(out.get(), &letter, 1), 0);  // nobody has the first one any more
}

TEST_F(ConnectionKeeperTest, EndsWhenItIsNotNeededAnyMore) {
  UniqueFd out;
  KeeperClient plugin = Connect();
  ASSERT_TRUE(plugin.Keep(Pipe(&out)).ok());
  ASSERT_TRUE(plugin.Release().ok());
  thread_.join();
  EXPECT_TRUE(ended_.ok());
  char letter = 0;
  EXPECT_EQ(read(out.get(), &letter, 1), 0);
  EXPECT_NE(access(config_.socket.c_str(), F_OK), 0);
}

TEST_F(ConnectionKeeperTest, EndsWhenNoPluginComesForLong) {
  {
    KeeperClient plugin = Connect();
    clock_.Advance(config_.give_up_after * 3);
    EXPECT_TRUE(plugin.Take().ok());  // one that is there may be silent
  }
  // When the keeper sees that it is alone is its own affair; then time counts.
  while (KeeperClient::Connect(config_.socket).ok()) clock_.Advance(config_.give_up_after);
  thread_.join();
  EXPECT_TRUE(ended_.ok());
}

TEST_F(ConnectionKeeperTest, SecondKeeperIsRefused) {
  const KeeperClient plugin = Connect();
  EXPECT_EQ(RunKeeper(config_, clock_, *log_, {}).code(), StatusCode::kAlreadyExists);
}

TEST_F(ConnectionKeeperTest, LeavesClientsThatMakeNoSense) {
  Connect();
  for (const std::string text : {"", "x", "K", "Kno descriptor", "T with more"}) {
    const UniqueFd raw(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, config_.socket.data(), config_.socket.size());
    ASSERT_EQ(connect(raw.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    if (!text.empty()) {
      ASSERT_EQ(send(raw.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
    }
  }
  KeeperClient plugin = Connect();
  const auto taken = plugin.Take();
  ASSERT_TRUE(taken.ok());
  EXPECT_FALSE(taken->has_value());
}

}  // namespace
}  // namespace paceline::snapshotter
