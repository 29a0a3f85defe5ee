#include "lib/blocks/registry/token_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/fakes/simulated_clock.h"

namespace paceline::blocks {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class TokenCacheTest : public testing::Test {
 protected:
  Result<std::string> Get(const std::string& key = "k", const std::string& rejected = "") {
    return cache_.Get(key, rejected,
                      [this]() -> Result<Token> {
                        ++fetches_;
                        if (!failure_.ok()) return failure_;
                        return Token{"t" + std::to_string(fetches_.load()), seconds(60)};
                      },
                      Deadline::Infinite(), {});
  }

  fakes::SimulatedClock clock_;
  TokenCache cache_{clock_, [] { return 0.0; }};
  std::atomic<int> fetches_{0};
  Status failure_;
};

TEST(RenewAfter, BeforeTheEndAndNotAllAtOnce) {
  EXPECT_EQ(RenewAfter(seconds(300), 0.0), seconds(280));
  EXPECT_EQ(RenewAfter(seconds(300), 0.5), seconds(265));
  EXPECT_EQ(RenewAfter(seconds(60), 0.0), seconds(45));
  EXPECT_EQ(RenewAfter(seconds(4), 0.0), seconds(3));
  EXPECT_GE(RenewAfter(milliseconds(1), 0.999), Duration::zero());
}

TEST_F(TokenCacheTest, FetchesOnceAndRenewsBeforeTheEnd) {
  EXPECT_EQ(*Get(), "t1");
  EXPECT_EQ(*Get(), "t1");
  clock_.Advance(seconds(44));
  EXPECT_EQ(*Get(), "t1");
  clock_.Advance(seconds(1));
  EXPECT_EQ(*Get(), "t2");
  EXPECT_EQ(*Get("other"), "t3");
}

TEST_F(TokenCacheTest, ARejectedTokenIsReplacedOnceForAll) {
  EXPECT_EQ(*Get(), "t1");
  EXPECT_EQ(*Get("k", "t1"), "t2");
  // A second thread whose request went out with the old one finds the new one there.
  EXPECT_EQ(*Get("k", "t1"), "t2");
  EXPECT_EQ(fetches_, 2);
}

TEST_F(TokenCacheTest, AFailedRenewalDoesNotHurtWhileTheOldTokenIsGood) {
  EXPECT_EQ(*Get(), "t1");
  clock_.Advance(seconds(50));
  failure_ = UnavailableError("down");
  EXPECT_EQ(*Get(), "t1");
  EXPECT_EQ(*Get(), "t1");
  EXPECT_EQ(fetches_, 2);  // and does not hammer the service
  clock_.Advance(seconds(11));
  EXPECT_EQ(Get().status().code(), StatusCode::kUnavailable);
  failure_ = Status();
  EXPECT_EQ(*Get(), "t4");
}

TEST_F(TokenCacheTest, ManyThreadsCauseOneFetchAndShareItsFate) {
  for (const bool fails : {false, true}) {
    fakes::SimulatedClock clock;
    TokenCache cache(clock, [] { return 0.0; });
    std::atomic<int> fetches{0}, good{0}, bad{0};
    std::atomic<bool> may_end{false};
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        const Result<std::string> token = cache.Get("k", "",
                                                    [&]() -> Result<Token> {
                                                      ++fetches;
                                                      may_end.wait(false);
                                                      if (fails) return UnavailableError("down");
                                                      return Token{"t", seconds(60)};
                                                    },
                                                    Deadline::Infinite(), {});
        ++(token.ok() ? good : bad);
      });
    }
    clock.AwaitBlocked(7);
    may_end = true;
    may_end.notify_all();
    threads.clear();
    EXPECT_EQ(fetches, 1);
    EXPECT_EQ(fails ? bad : good, 8);
  }
}

TEST_F(TokenCacheTest, AWaitEndsAtItsDeadlineAndWhenStopped) {
  std::atomic<bool> has_begun{false}, may_end{false};
  std::jthread slow([&] {
    const auto fetch = [&]() -> Result<Token> {
      has_begun = true;
      has_begun.notify_all();
      may_end.wait(false);
      return Token{"t", seconds(60)};
    };
    EXPECT_TRUE(cache_.Get("k", "", fetch, Deadline::Infinite(), {}).ok());
  });
  has_begun.wait(false);
  const auto never = []() -> Result<Token> { return InternalError("a second fetch"); };
  std::jthread waits([&] {
    const Result<std::string> token = cache_.Get("k", "", never, Deadline::After(clock_, seconds(5)), {});
    EXPECT_EQ(token.status().code(), StatusCode::kDeadlineExceeded);
  });
  clock_.AwaitTimers(1);
  clock_.Advance(seconds(5));
  waits.join();
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(cache_.Get("k", "", never, Deadline::Infinite(), stop.get_token()).status().code(), StatusCode::kCancelled);
  may_end = true;
  may_end.notify_all();
}

}  // namespace
}  // namespace paceline::blocks
