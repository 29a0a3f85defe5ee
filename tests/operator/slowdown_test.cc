#include <gtest/gtest.h>

#include "analysis/slowdown.h"
#include "lib/api/training_run.h"
#include "operator/straggler/pace_store.h"
#include "operator/straggler/slowdown_reconciler.h"

namespace paceline::operator_ {
namespace {

analysis::RankPace Rank(int32_t number, const std::string& node, int64_t first, int64_t count) {
  analysis::RankPace rank{number, node, {{7, true, false}}, {}};
  for (int64_t i = 0; i < count; ++i) {
    rank.windows.push_back({first + 5 * i, 50, std::chrono::seconds(3), std::chrono::seconds(2), 0});
  }
  return rank;
}

TEST(PaceStore, JoinsWhatAgentsTell) {
  const kube::ObjectKey run{"team", "llama"};
  PaceStore store;
  EXPECT_EQ(store.Get(run), nullptr);
  store.Merge(run, {Rank(0, "n0", 1000, 3), Rank(1, "n1", 1000, 3)}, 4);
  // The same again, with what came meanwhile; and of one rank nothing.
  store.Merge(run, {Rank(0, "n0", 1005, 4)}, 4);
  const auto paces = store.Get(run);
  ASSERT_NE(paces, nullptr);
  EXPECT_EQ(paces->expected_ranks, 4u);
  ASSERT_EQ(paces->ranks.size(), 2u);
  EXPECT_EQ(paces->ranks[0], Rank(0, "n0", 1000, 5));
  EXPECT_EQ(paces->ranks[1], Rank(1, "n1", 1000, 3));
  // A rank on another node begins anew there, and the agent that it has left is not heard any more; old windows go.
  store.Merge(run, {Rank(1, "n2", 1100, 2), Rank(0, "n0", 2000, 4), Rank(1, "n1", 1000, 3)}, 4, 4);
  EXPECT_EQ(store.Get(run)->ranks[1], Rank(1, "n2", 1100, 2));
  EXPECT_EQ(store.Get(run)->ranks[0], Rank(0, "n0", 2000, 4));
  EXPECT_EQ(paces->ranks[0].windows.size(), 5u) << "a snapshot stays as it was";
  EXPECT_EQ(store.Runs().size(), 1u);
  store.Forget(run);
  EXPECT_TRUE(store.Runs().empty());
}

TEST(Slowdown, IsWrittenWhenItIsNews) {
  const auto told = [](double slowdown, double error) {
    analysis::Slowdown out;
    out.slowdown = slowdown;
    out.error = error;
    return out;
  };
  api::TrainingRunStatus none, slow;
  slow.slowdown = 1.4;
  const analysis::Slowdown unknown;
  EXPECT_TRUE(IsNews(none, told(1.4, 0.03)));
  EXPECT_FALSE(IsNews(none, unknown));
  EXPECT_TRUE(IsNews(slow, unknown));
  EXPECT_FALSE(IsNews(slow, told(1.4, 0.03)));
  EXPECT_FALSE(IsNews(slow, told(1.41, 0.03)));
  EXPECT_TRUE(IsNews(slow, told(1.45, 0.03)));
}

TEST(Slowdown, TellsEightRanksOfTenThousand) {
  analysis::Slowdown slowdown;
  slowdown.slowdown = 1.5;
  slowdown.error = 0.02;
  for (int32_t rank = 0; rank < 10'000; ++rank) slowdown.workers.push_back({rank, "n", 1.5 - rank * 0.0001, 0.1});
  EXPECT_EQ(ToldWorkers(slowdown).size(), 8u);
  EXPECT_EQ(ToldWorkers(slowdown)[7].world_rank, 7);
  slowdown.error = 0.49965;
  EXPECT_EQ(ToldWorkers(slowdown).size(), 4u) << "what may be chance is not told";
  EXPECT_TRUE(ToldWorkers({}).empty());
}

}  // namespace
}  // namespace paceline::operator_
