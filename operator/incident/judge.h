// Whether what the analysis says of a run is to be told as an Incident now, and how. Standing still is what healthy
// jobs do, too: while one rank saves a checkpoint, the others wait for it. Pure.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "analysis/trace_model.h"
#include "lib/api/incident.h"
#include "lib/api/node_plan.h"
#include "operator/node_plan/node_reports.h"

namespace paceline::operator_ {

struct JudgeOptions {
  // A rank whose process runs may have other things to do for so long: an evaluation, a checkpoint.
  Duration host_pause = std::chrono::seconds(30);
  // ... and for ever while it reads or writes this much, in bytes per second.
  double busy_io = 1 << 20;
  // Operations must be slow for so long.
  Duration slow_patience = std::chrono::seconds(30);
  // What is unknown may be known a moment later.
  Duration unknown_patience = std::chrono::seconds(10);
};

struct Judgement {
  bool is_incident = false;
  std::string why_not;  // for the log
};

// `lasted`: for how long the alert has been known.
Judgement Judge(const analysis::Verdict& verdict, const analysis::Tables& tables, api::TriggerKind trigger,
                Duration lasted, const JudgeOptions& options);

// The earliest alert of the nodes, and in a tie the one of the first node by name. kProcessLost comes before all else:
// it explains the stall that follows. Nothing without alerts.
std::optional<api::IncidentTrigger> FirstTrigger(const std::map<std::string, TraceReport>& reports);

// The name of the pod behind a culprit; empty when it is not known.
using PodLookup = std::function<std::string(const analysis::Culprit&)>;

// The verdict, evidence and what was not visible as the Incident has them.
api::IncidentStatus StatusOf(const analysis::Verdict& verdict, const PodLookup& pod_of);

}  // namespace paceline::operator_
