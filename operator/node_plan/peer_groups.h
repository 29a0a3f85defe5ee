// Which nodes of a run share chunks of their images with each other: groups of bounded size, the same for all members,
// so that a run of any size costs the store one copy for each group and each node's plan stays small. Pure.
#pragma once

#include <string>
#include <vector>

#include "lib/api/node_plan.h"

namespace paceline::operator_ {

struct PeerCandidate {
  std::string node;
  std::string address;  // host:port; empty: shares nothing
  std::string place;    // nodes of the same place are put together: region and zone
};

// The other members of the group of `node` among the nodes of one run, in a steady order, at most `max_peers` (at least
// 1). Nodes without an address are in no group. Empty when `node` is in none.
std::vector<api::PlanPeer> PeersAmong(const std::string& node, std::vector<PeerCandidate> candidates,
                                      size_t max_peers = api::kMaxPlanPeers);

}  // namespace paceline::operator_
