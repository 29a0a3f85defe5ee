#include "operator/node_plan/peer_groups.h"

#include <algorithm>
#include <tuple>

namespace paceline::operator_ {

std::vector<api::PlanPeer> PeersAmong(const std::string& node, std::vector<PeerCandidate> candidates,
                                      size_t max_peers) {
  std::erase_if(candidates, [](const PeerCandidate& candidate) { return candidate.address.empty(); });
  std::sort(candidates.begin(), candidates.end(), [](const PeerCandidate& a, const PeerCandidate& b) {
    return std::tie(a.place, a.node) < std::tie(b.place, b.node);
  });
  const auto own = std::find_if(candidates.begin(), candidates.end(),
                                [&node](const PeerCandidate& candidate) { return candidate.node == node; });
  if (own == candidates.end()) return {};
  // As few groups as the limit allows, of sizes that differ by one at most.
  const size_t count = candidates.size(), groups = (count + max_peers) / (max_peers + 1);
  const auto place = static_cast<size_t>(own - candidates.begin());
  const auto begin_of = [&](size_t group) { return group * count / groups; };
  size_t group = place * groups / count;
  while (begin_of(group + 1) <= place) ++group;
  std::vector<api::PlanPeer> peers;
  for (size_t i = begin_of(group); i < begin_of(group + 1); ++i) {
    if (i != place) peers.push_back({candidates[i].node, candidates[i].address});
  }
  return peers;
}

}  // namespace paceline::operator_
