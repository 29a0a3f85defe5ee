// What the figures of a node's probe say, compared with those of nodes like it: of the same instance type, processors
// and GPUs. The fleet's own distribution is the measure, never a constant: the median of like nodes, and their scatter.
// Too few like nodes, figures that are missing or too old are unknown, which counts neither for the node nor against
// it. Pure functions; callers: the straggler controller.
#pragma once

#include <string>
#include <vector>

#include "lib/api/incident.h"
#include "lib/api/node_probe.h"
#include "lib/api/straggler_policy.h"
#include "lib/base/clock.h"

namespace paceline::operator_ {

struct ProbedNode {
  std::string name;
  std::string instance_type;  // by its labels; empty: not told
  std::string gpu_product;
  bool is_out = false;  // it takes no pods, whoever has done that: not what others are compared with
  api::ProbeStatus found;
};

enum class FigureState { kUnknown, kPassed, kFailed };

struct FigureFinding {
  std::string name;
  std::string unit;
  double value = 0;
  double median = 0;  // of like nodes
  double speed = 0;   // of the node over that of the median: below 1 is slower, whatever the unit
  size_t nodes = 0;   // like nodes with this figure
  FigureState state = FigureState::kUnknown;
  std::string detail;
};

struct ProbeFinding {
  api::ProbeVerdict verdict = api::ProbeVerdict::kUnknown;  // never kPending
  std::vector<FigureFinding> figures;
  std::vector<std::string> unknown;  // why it is not known, one sentence each
};

// Whether figures of the two can be compared.
bool AreAlike(const ProbedNode& a, const ProbedNode& b);

// kFailed: a figure is slower than the median by more than the tolerance, and by more than the scatter of like nodes
// explains. kPassed: all that the policy asks for is known and within the tolerance; what the node has nothing of does
// not count, but something must be known. kUnknown: else.
ProbeFinding JudgeProbe(const ProbedNode& node, const std::vector<ProbedNode>& nodes, const api::ProbePolicy& policy,
                        WallTime now);

// "cpuOneThread 212 Mop/s, where 3 like nodes have 845": of a failure what has failed, of an unknown why, of a pass
// all.
std::string ProbeSentence(const ProbeFinding& finding);
// The same as numbers: name "probe.cpuOneThread", the node's value, and the median as what is usual.
std::vector<api::EvidenceNumber> ProbeEvidence(const ProbeFinding& finding);

}  // namespace paceline::operator_
