#include "analysis/straggler.h"

#include <algorithm>
#include <optional>
#include <set>

namespace paceline::analysis {

namespace {

constexpr size_t kLeastPeers = 2;  // on other nodes

// Places of the ranks that are members of a communicator.
using Members = std::vector<size_t>;

struct CommUse {
  Members members;
  bool has_collectives = false, has_p2p = false;
};

std::map<uint64_t, CommUse> CommsOf(std::span<const RankPace> ranks) {
  std::map<uint64_t, CommUse> comms;
  for (size_t i = 0; i < ranks.size(); i++) {
    for (const PaceComm& comm : ranks[i].comms) {
      CommUse& use = comms[comm.id];
      use.members.push_back(i);
      use.has_collectives |= comm.has_collectives;
      use.has_p2p |= comm.has_p2p;
    }
  }
  return comms;
}

// Communicators whose members do the same work. For each rank at most one communicator is looked at for each of the
// pipelines that it is in, so this costs as much as the lists of members.
std::vector<Members> PeersOf(std::span<const RankPace> ranks) {
  const std::map<uint64_t, CommUse> comms = CommsOf(ranks);
  std::vector<std::vector<uint64_t>> pipelines(ranks.size());
  for (const auto& [id, use] : comms) {
    if (!use.has_p2p) continue;
    for (const size_t member : use.members) pipelines[member].push_back(id);
  }
  std::vector<Members> peers;
  for (const auto& [id, use] : comms) {
    if (use.has_p2p || !use.has_collectives || use.members.size() <= kLeastPeers) continue;
    std::set<uint64_t> seen;
    bool joins_stages = false;
    for (const size_t member : use.members) {
      for (const uint64_t pipeline : pipelines[member]) joins_stages |= !seen.insert(pipeline).second;
    }
    if (!joins_stages) peers.push_back(use.members);
  }
  return peers;
}

// The members of a communicator on other nodes than one, in one window.
struct Reference {
  double share = 0;
  double scatter = 0;
};

std::optional<Reference> ReferenceOf(std::span<const RankPace> ranks, const ShareWindow& window, const Members& members,
                                     const std::string& node) {
  std::vector<double> others;
  for (const size_t member : members) {
    if (ranks[member].node != node && window.ranks[member]) others.push_back(window.ranks[member]->share);
  }
  if (others.size() < kLeastPeers) return std::nullopt;
  return Reference{LowerMedian(others), RobustDeviation(others)};
}

// A rank against its peers.
struct Comparison {
  double slowdown = 1, deviations = 0, share = 0, peer_share = 0;
  bool is_over = false;
};

Comparison Compare(double share, double noise, const Reference& peers, const StragglerOptions& options) {
  Comparison result;
  result.share = share;
  result.peer_share = peers.share;
  const double excess = share - peers.share;
  result.deviations = excess / std::max({peers.scatter, noise, options.least_scatter});
  result.slowdown = 1 / (1 - std::clamp(excess, 0.0, kLargestExcess));
  result.is_over = result.slowdown >= options.threshold && result.deviations >= options.deviations;
  return result;
}

using References = std::map<const Members*, std::optional<Reference>>;

// A rank in one window: over in all communicators in which it can be compared, and how far in the one where it is
// least.
struct RankLook {
  int communicators = 0;
  Comparison least;
};

RankLook LookAt(double share, double noise, const std::vector<const Members*>& peers, const References& references,
                const StragglerOptions& options) {
  RankLook look;
  for (const Members* members : peers) {
    const std::optional<Reference>& reference = references.at(members);
    if (!reference) continue;
    const Comparison comparison = Compare(share, noise, *reference, options);
    const bool is_first = look.communicators == 0;
    const bool is_over = (is_first || look.least.is_over) && comparison.is_over;
    if (is_first || comparison.slowdown < look.least.slowdown) look.least = comparison;
    look.least.is_over = is_over;
    look.communicators++;
  }
  return look;
}

// The windows of one node, as they are gone through.
struct NodeSeries {
  NodeVerdict verdict;
  std::vector<double> slowdowns, deviations, shares, peer_shares;
  bool is_latest_over = false;
  bool has_doubtful = false;  // windows above the threshold, by less than the scatter
};

class Series {
 public:
  Series(std::span<const RankPace> ranks, const ShareTable& shares, const StragglerOptions& options)
      : ranks_(ranks), shares_(shares), options_(options), peers_(PeersOf(ranks)), peers_of_(ranks.size()) {
    for (const Members& members : peers_) {
      for (const size_t member : members) peers_of_[member].push_back(&members);
    }
    for (size_t i = 0; i < ranks.size(); i++) ranks_of_[ranks[i].node].push_back(i);
  }

  std::map<std::string, NodeVerdict> Verdicts() {
    std::map<std::string, NodeVerdict> verdicts;
    for (const auto& [node, members] : ranks_of_) {
      NodeSeries series;
      series.verdict.windows = static_cast<int>(shares_.windows.size());
      series.verdict.ranks_here = members.size();
      for (const ShareWindow& window : shares_.windows) {
        if (window.is_known) Add(window, members, series);
      }
      Conclude(series);
      verdicts[node] = std::move(series.verdict);
    }
    return verdicts;
  }

 private:
  // Of the communicators of the ranks on one node: once for all of them.
  References ReferencesFor(const ShareWindow& window, const Members& members) const {
    References references;
    for (const size_t member : members) {
      for (const Members* peers : peers_of_[member]) {
        const auto [place, is_new] = references.try_emplace(peers);
        if (is_new) place->second = ReferenceOf(ranks_, window, *peers, ranks_[member].node);
      }
    }
    return references;
  }

  void Add(const ShareWindow& window, const Members& members, NodeSeries& series) const {
    std::vector<int32_t> over;
    int witnesses = 0, available = 0;
    Comparison worst;
    const References references = ReferencesFor(window, members);
    for (const size_t member : members) {
      if (!window.ranks[member]) continue;
      const RankLook look =
          LookAt(window.ranks[member]->share, shares_.noise[member], peers_of_[member], references, options_);
      available = std::max(available, look.communicators);
      if (look.communicators == 0) continue;
      if (!look.least.is_over) {
        series.has_doubtful |= look.least.slowdown >= options_.threshold;
        continue;
      }
      over.push_back(ranks_[member].world_rank);
      witnesses = std::max(witnesses, look.communicators);
      if (look.least.slowdown > worst.slowdown) worst = look.least;
    }
    if (available == 0) return;
    NodeVerdict& verdict = series.verdict;
    verdict.windows_known++;
    verdict.missing = window.missing;
    verdict.communicators_available = available;
    series.is_latest_over = !over.empty();
    if (over.empty()) return;
    verdict.windows_over++;
    verdict.communicators = witnesses;
    verdict.ranks = std::move(over);
    series.slowdowns.push_back(worst.slowdown);
    series.deviations.push_back(worst.deviations);
    series.shares.push_back(worst.share);
    series.peer_shares.push_back(worst.peer_share);
  }

  void Conclude(NodeSeries& series) const {
    NodeVerdict& verdict = series.verdict;
    verdict.slowdown = LowerMedian(series.slowdowns);
    verdict.deviations = LowerMedian(series.deviations);
    verdict.share = LowerMedian(series.shares);
    verdict.peer_share = LowerMedian(series.peer_shares);
    if (verdict.windows_known < options_.required) {
      verdict.state = NodeState::kUnknown;
      verdict.why_not = "too few windows in which it can be compared";
      for (const ShareWindow& window : shares_.windows) {
        if (!window.why_not.empty()) verdict.why_not = window.why_not;
      }
    } else if (verdict.windows_over >= options_.required && series.is_latest_over) {
      verdict.state = NodeState::kSlow;
    } else {
      const bool is_healthy = verdict.windows_over == 0 && !series.has_doubtful;
      verdict.state = is_healthy ? NodeState::kHealthy : NodeState::kSuspect;
    }
  }

  const std::span<const RankPace> ranks_;
  const ShareTable& shares_;
  const StragglerOptions& options_;
  const std::vector<Members> peers_;
  std::vector<std::vector<const Members*>> peers_of_;  // by rank
  std::map<std::string, Members> ranks_of_;            // by node
};

}  // namespace

const char* NodeStateName(NodeState state) {
  static const char* const kNames[] = {"Unknown", "Healthy", "Suspect", "Slow"};
  return kNames[static_cast<size_t>(state)];
}

std::map<std::string, NodeVerdict> FindStragglers(std::span<const RankPace> ranks, const ShareTable& shares,
                                                  const StragglerOptions& options) {
  return Series(ranks, shares, options).Verdicts();
}

}  // namespace paceline::analysis
