// Which nodes of a run share chunks with each other.
#include "operator/node_plan/peer_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace paceline::operator_ {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> NodesOf(const std::vector<api::PlanPeer>& peers) {
  std::vector<std::string> nodes;
  for (const api::PlanPeer& peer : peers) nodes.push_back(peer.node);
  return nodes;
}

TEST(PeerGroups, ASmallRunIsOneGroup) {
  const std::vector<PeerCandidate> nodes = {{"n3", "3:1", ""}, {"n1", "1:1", ""}, {"n2", "2:1", ""}, {"off", "", ""}};
  EXPECT_THAT(NodesOf(PeersAmong("n1", nodes)), ElementsAre("n2", "n3"));
  EXPECT_THAT(NodesOf(PeersAmong("n2", nodes)), ElementsAre("n1", "n3"));
  EXPECT_EQ(PeersAmong("n2", nodes)[1].address, "3:1");
  EXPECT_THAT(PeersAmong("off", nodes), IsEmpty());
  EXPECT_THAT(PeersAmong("elsewhere", nodes), IsEmpty());
  EXPECT_THAT(PeersAmong("n1", {{"n1", "1:1", ""}}), IsEmpty());
  EXPECT_THAT(PeersAmong("n1", {}), IsEmpty());
}

TEST(PeerGroups, LargeRunsAreCutIntoGroupsThatAllMembersAgreeOn) {
  for (const size_t count : {32, 33, 34, 66, 67, 300}) {
    std::vector<PeerCandidate> nodes;
    for (size_t i = 0; i < count; ++i) nodes.push_back({"n" + std::to_string(i), std::to_string(i) + ":1", ""});
    std::set<std::set<std::string>> groups;
    size_t members = 0;
    for (const PeerCandidate& node : nodes) {
      std::set<std::string> group = {node.node};
      for (const std::string& peer : NodesOf(PeersAmong(node.node, nodes))) group.insert(peer);
      EXPECT_LE(group.size(), api::kMaxPlanPeers + 1);
      EXPECT_GE(group.size(), count < 2 * api::kMaxPlanPeers ? count / 2 : api::kMaxPlanPeers / 2) << count;
      if (groups.insert(group).second) members += group.size();
    }
    EXPECT_EQ(members, count);  // each in one group
    EXPECT_EQ(groups.size(), (count + api::kMaxPlanPeers) / (api::kMaxPlanPeers + 1));
  }
}

TEST(PeerGroups, NodesOfOneZoneArePutTogether) {
  std::vector<PeerCandidate> nodes;
  for (int i = 0; i < 8; ++i) {
    nodes.push_back({"n" + std::to_string(i), std::to_string(i) + ":1", i % 2 == 0 ? "r/a" : "r/b"});
  }
  EXPECT_THAT(NodesOf(PeersAmong("n2", nodes, 3)), ElementsAre("n0", "n4", "n6"));
  EXPECT_THAT(NodesOf(PeersAmong("n7", nodes, 3)), ElementsAre("n1", "n3", "n5"));
}

}  // namespace
}  // namespace paceline::operator_
