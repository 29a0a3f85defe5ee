#include "lib/hdfs/read_plan.h"

#include <algorithm>

namespace paceline::hdfs {
namespace {

using namespace std::chrono_literals;

constexpr Duration kUnknownHedge = 2s, kLeastHedge = 500ms, kMostHedge = 3s;
constexpr int kMaxRounds = 6;
constexpr int kStreak = 2;

}  // namespace

const LocatedBlock* FindBlock(std::span<const LocatedBlock> blocks, uint64_t offset) {
  const auto after = std::upper_bound(blocks.begin(), blocks.end(), offset,
                                      [](uint64_t at, const LocatedBlock& block) { return at < block.offset; });
  if (after == blocks.begin()) return nullptr;
  const LocatedBlock& block = *std::prev(after);
  return offset < block.end() ? &block : nullptr;
}

std::vector<ByteRange> PlanRanges(std::span<const LocatedBlock> blocks, ByteRange wanted, uint64_t unit) {
  std::vector<ByteRange> ranges;
  uint64_t at = wanted.offset;
  const uint64_t end = wanted.offset + wanted.length;
  while (at < end) {
    const LocatedBlock* block = FindBlock(blocks, at);
    if (block == nullptr) break;
    const uint64_t start = block->offset + (at - block->offset) / unit * unit;
    const uint64_t stop = std::min(start + unit, block->end());
    ranges.push_back({start, stop - start});
    at = stop;
  }
  return ranges;
}

std::optional<size_t> ChooseReplica(std::span<const ReplicaView> replicas, int cap) {
  std::optional<size_t> best;
  for (size_t i = 0; i < replicas.size(); ++i) {
    const ReplicaView& replica = replicas[i];
    if (replica.has_failed || replica.is_asked || replica.in_flight >= cap) continue;
    const auto rank = [&](const ReplicaView& view) {
      return std::pair(view.is_dead ? 2 : view.is_decommissioned ? 1 : 0, view.in_flight);
    };
    if (!best.has_value() || rank(replica) < rank(replicas[*best])) best = i;
  }
  if (!best.has_value() || !replicas[*best].is_dead) return best;
  // A busy living replica is worth waiting for.
  const bool has_living = std::any_of(replicas.begin(), replicas.end(), [](const ReplicaView& replica) {
    return !replica.is_dead && !replica.has_failed && !replica.is_asked;
  });
  return has_living ? std::nullopt : best;
}

Duration HedgeAfter(Duration average) {
  if (average <= Duration::zero()) return kUnknownHedge;
  return std::clamp<Duration>(average * 3, kLeastHedge, kMostHedge);
}

std::optional<Duration> WaitBeforeRound(int rounds) {
  if (rounds >= kMaxRounds) return std::nullopt;
  return std::min<Duration>(250ms * (1 << rounds), 4s);
}

uint64_t ReadWindow::OnRead(uint64_t offset, uint64_t length) {
  // The kernel's read-ahead sends its requests side by side, so a little back or ahead is still forward.
  const uint64_t slack = std::max(window_, limits_.unit);
  const bool is_forward = has_read_ ? offset + slack >= frontier_ && offset <= frontier_ + slack : offset == 0;
  if (!is_forward) {
    frontier_ = offset + length;
    window_ = since_growth_ = 0;
    forward_reads_ = 0;
    has_read_ = true;
    return 0;
  }
  forward_reads_ += has_read_ ? 1 : kStreak;
  has_read_ = true;
  if (offset + length > frontier_) {
    since_growth_ += offset + length - frontier_;
    frontier_ = offset + length;
  }
  if (forward_reads_ < kStreak) return 0;
  window_ = std::max(window_, std::min(4 * limits_.unit, limits_.max_bytes));
  // Fast: a window that holds one block keeps one DataNode busy, and blocks are large.
  if (since_growth_ >= window_ / 8) {
    window_ = std::min(window_ * 2, limits_.max_bytes);
    since_growth_ = 0;
  }
  return window_;
}

uint64_t ReadWindow::OnWait() {
  window_ = std::min(window_ * 2, limits_.max_bytes);
  return window_;
}

}  // namespace paceline::hdfs
