#include "operator/straggler/pace_store.h"

#include <algorithm>
#include <utility>

namespace paceline::operator_ {
namespace {

using analysis::PaceWindow;
using analysis::RankPace;

int64_t LastOf(const RankPace& rank) { return rank.windows.empty() ? -1 : rank.windows.back().start; }

void AddWindows(const RankPace& more, size_t kept_windows, RankPace& known) {
  if (known.node != more.node) {
    // The agent that it has left remembers it for a while.
    if (LastOf(more) <= LastOf(known)) return;
    known = {more.world_rank, more.node, {}, {}};
  }
  if (!more.comms.empty()) known.comms = more.comms;
  // Mostly these follow what is there; a window that was told before stays as it was.
  const int64_t last = LastOf(known);
  for (const PaceWindow& window : more.windows) {
    if (window.start > last) known.windows.push_back(window);
  }
  if (known.windows.size() > kept_windows) {
    known.windows.erase(known.windows.begin(), known.windows.end() - static_cast<std::ptrdiff_t>(kept_windows));
  }
}

}  // namespace

void PaceStore::Merge(const kube::ObjectKey& run, const std::vector<RankPace>& more, size_t expected_ranks,
                      size_t kept_windows) {
  const std::shared_ptr<const RunPaces> before = Get(run);
  std::map<int32_t, RankPace> ranks;
  if (before != nullptr) {
    for (const RankPace& rank : before->ranks) ranks[rank.world_rank] = rank;
  }
  for (const RankPace& rank : more) {
    const auto [known, is_new] = ranks.try_emplace(rank.world_rank, RankPace{rank.world_rank, rank.node, {}, {}});
    AddWindows(rank, kept_windows, known->second);
  }
  auto after = std::make_shared<RunPaces>();
  after->expected_ranks = expected_ranks;
  for (auto& [number, rank] : ranks) after->ranks.push_back(std::move(rank));
  MutexLock lock(mutex_);
  runs_[run] = std::move(after);
}

void PaceStore::Forget(const kube::ObjectKey& run) {
  MutexLock lock(mutex_);
  runs_.erase(run);
}

std::shared_ptr<const RunPaces> PaceStore::Get(const kube::ObjectKey& run) const {
  MutexLock lock(mutex_);
  const auto found = runs_.find(run);
  return found == runs_.end() ? nullptr : found->second;
}

std::vector<kube::ObjectKey> PaceStore::Runs() const {
  std::vector<kube::ObjectKey> runs;
  MutexLock lock(mutex_);
  for (const auto& [run, paces] : runs_) runs.push_back(run);
  return runs;
}

}  // namespace paceline::operator_
