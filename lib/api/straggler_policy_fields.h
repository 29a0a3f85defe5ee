// The fields of StragglerPolicy. Internal to lib/api; see fields.h.
#pragma once

#include "lib/api/fields.h"
#include "lib/api/meta_fields.h"
#include "lib/api/node_probe_fields.h"
#include "lib/api/straggler_policy.h"

namespace paceline::api {

template <>
struct EnumTable<StragglerAction> {
  static constexpr std::pair<StragglerAction, std::string_view> kEntries[] = {
      {StragglerAction::kObserve, "Observe"}, {StragglerAction::kTaint, "Taint"}, {StragglerAction::kCordon, "Cordon"}};
};

template <>
struct EnumTable<Approval> {
  static constexpr std::pair<Approval, std::string_view> kEntries[] = {{Approval::kAutomatic, "Automatic"},
                                                                       {Approval::kManual, "Manual"}};
};

template <typename V>
void Fields(V& v, const Detection*) {
  using T = Detection;
  v.Field("window", &T::window, {.doc = "Length of one window of measurement.", .defaulted = true});
  v.Field("windows", &T::windows,
          {.doc = "How many of the latest windows count.", .defaulted = true, .minimum = 1, .maximum = 1000});
  v.Field("required", &T::required,
          {.doc = "In how many of them a node must be over the threshold to be blamed.",
           .defaulted = true,
           .minimum = 1,
           .maximum = 1000});
  v.Field(
      "slowdownThreshold", &T::slowdown_threshold,
      {.doc = "Time of a step over what it would be if the node were as fast as its peers; 1.1: the node costs 10 %.",
       .defaulted = true,
       .minimum = 1,
       .maximum = 1000});
  v.Field("minimumCommunicators", &T::minimum_communicators,
          {.doc = "In how many communicators or jobs the node must be slow, where there are that many.",
           .defaulted = true,
           .minimum = 1,
           .maximum = 1000});
  v.Field("maximumMissingRatio", &T::maximum_missing_ratio,
          {.doc = "When more than this share of the ranks have no fresh data, nothing is concluded.",
           .defaulted = true,
           .minimum = 0,
           .maximum = 1});
  v.Rule("self.required <= self.windows", "must not be more than windows", "required",
         [](const T& d) { return d.required <= d.windows; });
}

template <typename V>
void Fields(V& v, const ActionBudget*) {
  using T = ActionBudget;
  v.Field("maxNodes", &T::max_nodes,
          {.doc = "How many nodes may be out at a time: a number, or a percentage of the selected nodes that never "
                  "falls below 1.",
           .defaulted = true,
           .max_length = 8,
           .format = TextFormat::kCountOrPercent});
  v.Field("maxActions", &T::max_actions,
          {.doc = "How many actions per actionPeriod.", .defaulted = true, .minimum = 0, .maximum = 100000});
  v.Field("actionPeriod", &T::action_period, {.doc = "The period of maxActions.", .defaulted = true});
  v.Field("breakerNodes", &T::breaker_nodes,
          {.doc = "When more nodes than this are blamed at a time, the cause is none of them: nothing is done until a "
                  "person sets the annotation paceline.dev/reset-breaker. As maxNodes.",
           .defaulted = true,
           .max_length = 8,
           .format = TextFormat::kCountOrPercent});
}

template <typename V>
void Fields(V& v, const ProbePolicy*) {
  using T = ProbePolicy;
  v.Field("enabled", &T::enabled,
          {.doc = "Probe nodes that this policy has out, once no training pod is on them, and idle selected nodes to "
                  "compare them with.",
           .defaulted = true});
  v.Field("checks", &T::checks, {.doc = "What to measure. Empty: all.", .max_items = 8});
  v.Field("putBackAfterPass", &T::put_back_after_pass,
          {.doc = "Put a node back whose probe passes, once coolDown has passed since it was taken out.",
           .defaulted = true});
  v.Field("minimumNodes", &T::minimum_nodes,
          {.doc = "With figures of fewer like nodes than this nothing is concluded.",
           .defaulted = true,
           .minimum = 1,
           .maximum = 1000});
  v.Field("tolerance", &T::tolerance,
          {.doc = "How far a figure may stay behind the median of like nodes, as a ratio; of disks and networks, which "
                  "scatter, a multiple of it.",
           .defaulted = true,
           .minimum = 0,
           .maximum = 1});
  v.Field("period", &T::period, {.doc = "A node that is out is probed again so often.", .defaulted = true});
  v.Field("maximumAge", &T::maximum_age,
          {.doc = "Figures that are older are not compared with; an idle node is probed anew.", .defaulted = true});
}

template <typename V>
void Fields(V& v, const StragglerPolicySpec*) {
  using T = StragglerPolicySpec;
  v.Field("nodeSelector", &T::node_selector,
          {.doc = "Labels of the nodes that the policy is for. Empty: all.", .max_length = 63, .max_items = 32});
  v.Field("detection", &T::detection, {.doc = "When a node is blamed.", .defaulted = true});
  v.Field("action", &T::action,
          {.doc = "Observe: events, metrics and Incidents only. Taint: set the taint paceline.dev/straggler. Cordon: "
                  "taint and cordon.",
           .defaulted = true});
  v.Field("budget", &T::budget, {.doc = "How much may be done.", .defaulted = true});
  v.Field("coolDown", &T::cool_down, {.doc = "No second action on a node before this.", .defaulted = true});
  v.Field("vetoPeriod", &T::veto_period,
          {.doc = "How long a manual uncordon protects a node from this policy.", .defaulted = true});
  v.Field("excludeNodes", &T::exclude_nodes,
          {.doc = "Labels of nodes that are never touched; one match is enough.", .max_length = 63, .max_items = 32});
  v.Field("approval", &T::approval,
          {.doc = "Manual: an action waits until the annotation paceline.dev/approve on the Incident is \"true\".",
           .defaulted = true});
  v.Field(
      "approvalPeriod", &T::approval_period,
      {.doc = "Manual: for how long an Incident can be approved. After that it takes a new one.", .defaulted = true});
  v.Field("recoveryPeriod", &T::recovery_period,
          {.doc = "A node that was seen healthy for so long is put back; 0s: only a person puts it back.",
           .defaulted = true});
  v.Field("restartJob", &T::restart_job,
          {.doc = "After an action restart the TrainingJob away from the node.", .defaulted = true});
  v.Field("probe", &T::probe, {.doc = "Probes of nodes before they stay out or come back.", .defaulted = true});
  v.Field("pauseRequests", &T::pause_requests,
          {.doc = "Reasons to pause, one per requester. While there is one, nothing new is done.",
           .max_length = 256,
           .max_items = 32,
           .list = ListType::kSet});
}

template <typename V>
void Fields(V& v, const ActedNode*) {
  using T = ActedNode;
  v.Field("node", &T::node, {.doc = "Name of the node.", .required = true});
  v.Field("action", &T::action, {.doc = "What was done to it.", .required = true});
  v.Field("incident", &T::incident, {.doc = "namespace/name of the Incident."});
  v.Field("since", &T::since, {.doc = "When."});
  v.Field("applied", &T::is_applied, {.doc = "Whether the node was seen to carry it.", .omit_zero = true});
  v.Field("healthySince", &T::healthy_since, {.doc = "Since when all that is seen of it is good."});
  v.Field("probeRound", &T::probe_round,
          {.doc = "The round of its NodePlan's probe that counts.", .omit_zero = true, .minimum = 0});
  v.Field("probe", &T::probe, {.doc = "What the probe says, compared with like nodes."});
  v.Field("probedAt", &T::probed_at, {.doc = "When it was seen done."});
}

template <typename V>
void Fields(V& v, const PastAction*) {
  using T = PastAction;
  v.Field("node", &T::node, {.doc = "Name of the node.", .required = true});
  v.Field("action", &T::action, {.doc = "What was done to it.", .required = true});
  v.Field("at", &T::at, {.doc = "When."});
}

template <typename V>
void Fields(V& v, const NodeVeto*) {
  using T = NodeVeto;
  v.Field("node", &T::node, {.doc = "Name of the node.", .required = true});
  v.Field("until", &T::until, {.doc = "When the protection ends."});
}

template <typename V>
void Fields(V& v, const StragglerPolicyStatus*) {
  using T = StragglerPolicyStatus;
  v.Field("observedGeneration", &T::observed_generation,
          {.doc = "The metadata.generation that this status speaks of.", .omit_zero = true, .minimum = 0});
  v.Field("selectedNodes", &T::selected_nodes, {.doc = "How many nodes the policy is for.", .minimum = 0});
  v.Field("actedNodes", &T::acted_nodes,
          {.doc = "Nodes that are out because of this policy.",
           .max_items = 4096,
           .list = ListType::kMap,
           .list_key = "node"});
  v.Field("vetoes", &T::vetoes,
          {.doc = "Nodes that a person put back.", .max_items = 4096, .list = ListType::kMap, .list_key = "node"});
  v.Field("putBackByProbe", &T::put_back_by_probe,
          {.doc = "Nodes that came back because a probe passed, and until when no probe puts them back again.",
           .max_items = 4096,
           .list = ListType::kMap,
           .list_key = "node"});
  v.Field("lastAction", &T::last_action, {.doc = "When the policy last did something."});
  v.Field("recentActions", &T::recent_actions,
          {.doc = "What it did, for the budget's rate and the cool-down; oldest first.",
           .max_items = static_cast<int64_t>(kMaxPastActions)});
  v.Field("evidenceSince", &T::evidence_since,
          {.doc = "The breaker was reset then: nothing that was measured before counts."});
  v.Field("conditions", &T::conditions, kConditionsField);
}

template <typename V>
void Fields(V& v, const StragglerPolicy*) {
  using T = StragglerPolicy;
  v.Field("metadata", &T::metadata, {.doc = "Standard metadata."});
  v.Field("spec", &T::spec, {.doc = "When and what.", .required = true});
  v.Field("status", &T::status, {.doc = "What was done."});
}

}  // namespace paceline::api
