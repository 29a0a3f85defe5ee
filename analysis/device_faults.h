// What devices say beside a verdict: faults of GPUs and network cards of the nodes that it is about. They are evidence
// and no cause of their own, since a card that has seen an error may still have had nothing to do with it.
//
// Called by Diagnose. A pure function.
#pragma once

#include "analysis/trace_model.h"

namespace paceline::analysis {

// Adds the faults of the nodes of the culprits and of both ends of the edge to the evidence, at most 8; where nobody is
// named (kUnknown), those of all nodes. Nothing for kNone.
void AddDeviceFaults(const Tables& tables, Verdict* verdict);

}  // namespace paceline::analysis
