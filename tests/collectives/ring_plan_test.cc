#include "tests/collectives/ring_plan.h"

#include <gtest/gtest.h>

#include <deque>
#include <numeric>

namespace paceline::collectives {
namespace {

using Buffer = std::vector<int>;

// All ranks of a ring, move by move, with queues for the connections.
std::vector<Buffer> Simulate(Function function, uint32_t ranks, uint32_t channels, uint64_t count, uint64_t chunk) {
  std::vector<Buffer> inputs, outputs;
  for (uint32_t rank = 0; rank < ranks; rank++) {
    inputs.emplace_back(function == Function::kReduceScatter ? count * ranks : count);
    std::iota(inputs.back().begin(), inputs.back().end(), static_cast<int>(rank * 1000));
    outputs.emplace_back(function == Function::kAllGather ? count * ranks : count, -1);
  }
  for (uint32_t channel = 0; channel < channels; channel++) {
    std::vector<std::vector<Move>> moves;
    for (uint32_t r = 0; r < ranks; r++)
      moves.push_back(PlanMoves(function, {r, ranks, channel, channels}, count, chunk));
    std::vector<std::deque<Buffer>> links(ranks);  // into each rank
    std::vector<size_t> next(ranks, 0);
    for (bool is_any = true; is_any;) {
      is_any = false;
      for (uint32_t r = 0; r < ranks; r++) {
        if (next[r] == moves[r].size() || (moves[r][next[r]].receives && links[r].empty())) continue;
        const Move& move = moves[r][next[r]++];
        is_any = true;
        EXPECT_LE(move.count, chunk);
        Buffer data(move.count, 0);
        if (move.receives) {
          data = links[r].front();
          links[r].pop_front();
          EXPECT_EQ(data.size(), move.count);
        }
        for (uint64_t i = 0; move.uses_input && i < move.count; i++) data[i] += inputs[r].at(move.input_offset + i);
        for (uint64_t i = 0; move.writes_output && i < move.count; i++) outputs[r].at(move.output_offset + i) = data[i];
        if (move.sends) links[(r + 1) % ranks].push_back(data);
      }
    }
    for (uint32_t r = 0; r < ranks; r++) {
      EXPECT_EQ(next[r], moves[r].size()) << "rank " << r << " is stuck";
      EXPECT_TRUE(links[r].empty());
    }
  }
  return outputs;
}

TEST(RingPlan, GivesEachFunctionsResultForAnyShape) {
  for (const uint32_t ranks : {2u, 3u, 4u, 7u}) {
    for (const uint64_t count : {1ull, 5ull, 64ull, 101ull}) {
      for (const uint32_t channels : {1u, 2u, 3u}) {
        SCOPED_TRACE(testing::Message() << ranks << " ranks, " << count << " elements, " << channels << " channels");
        const auto reduced = Simulate(Function::kAllReduce, ranks, channels, count, 8);
        const auto scattered = Simulate(Function::kReduceScatter, ranks, channels, count, 8);
        const auto gathered = Simulate(Function::kAllGather, ranks, channels, count, 8);
        const int offsets = static_cast<int>(ranks * (ranks - 1) / 2 * 1000);
        for (uint32_t r = 0; r < ranks; r++) {
          for (uint64_t i = 0; i < count; i++) {
            ASSERT_EQ(reduced[r][i], offsets + static_cast<int>(ranks * i));
            ASSERT_EQ(scattered[r][i], offsets + static_cast<int>(ranks * (r * count + i)));
            for (uint32_t from = 0; from < ranks; from++) {
              ASSERT_EQ(gathered[r][from * count + i], static_cast<int>(from * 1000 + i));
            }
          }
        }
      }
    }
  }
}

TEST(RingPlan, HasNcclsNumberOfSteps) {
  auto sends = [](Function function, uint32_t ranks, uint64_t count) {
    int steps = 0;
    for (const Move& move : PlanMoves(function, {1, ranks, 0, 1}, count, 8)) steps += move.sends ? 1 : 0;
    return steps;
  };
  EXPECT_EQ(sends(Function::kAllReduce, 4, 32), 6);     // 2(n-1), one loop
  EXPECT_EQ(sends(Function::kAllReduce, 4, 33), 12);    // two loops
  EXPECT_EQ(sends(Function::kReduceScatter, 4, 8), 3);  // n-1
  EXPECT_EQ(sends(Function::kAllGather, 4, 9), 6);
  EXPECT_EQ(sends(Function::kSend, 2, 0), 1);  // nothing is one step too
  EXPECT_EQ(sends(Function::kAllReduce, 1, 32), 0);
}

}  // namespace
}  // namespace paceline::collectives
