// The probes of all nodes as a StragglerPolicy sees them, and how it asks for another. Reads caches; AskForProbe writes
// through the client and blocks until the deadline. Callers: the straggler controller.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lib/api/straggler_policy.h"
#include "lib/kube/cache.h"
#include "lib/kube/client.h"
#include "operator/node_plan/node_reports.h"
#include "operator/straggler/policy_plan.h"
#include "operator/straggler/probe_judge.h"

namespace paceline::operator_ {

// All must outlive what is made of it.
struct ProbeSources {
  const NodeReports& reports;
  const kube::Store<kube::NodeView>& nodes;
  const kube::Store<kube::PodView>& pods;  // indexed by node
};

class ProbeFleet {
 public:
  // A policy without probes sees none.
  ProbeFleet(const ProbeSources& sources, const api::ProbePolicy& policy, WallTime now);

  // For PlanPolicy; nothing for a node without a plan.
  std::optional<NodeProbe> ProbeOf(const std::string& node) const;
  // What the last probe of the node says; null while there is none.
  const ProbeFinding* FindingOf(const std::string& node) const;
  // Whom `node` may measure its network with: agents of idle nodes, the next ones by name, like ones first.
  std::vector<api::ProbePeer> PeersOf(const std::string& node) const;

 private:
  struct Entry {
    NodeProbe probe;
    std::string address;  // of its agent; empty: not to be asked
  };
  std::map<std::string, Entry> entries_;  // by node
  std::map<std::string, ProbedNode> probed_;
  std::map<std::string, ProbeFinding> findings_;
};

// Sees to it that the plan of `order.node` asks for the round, with these checks and peers; a plan that asks for it, or
// for a later one, is left alone. Ok when the plan is gone. kAborted when somebody else changed it: look again.
Status AskForProbe(kube::Client& client, const ProbeOrder& order, const std::vector<api::ProbeCheck>& checks,
                   const std::vector<api::ProbePeer>& peers, Deadline deadline);

}  // namespace paceline::operator_
