// The fields of Incident. Internal to lib/api; see fields.h.
#pragma once

#include "lib/api/fields.h"
#include "lib/api/incident.h"
#include "lib/api/meta_fields.h"
#include "lib/api/training_run_fields.h"

namespace paceline::api {

template <>
struct EnumTable<TriggerKind> {
  static constexpr std::pair<TriggerKind, std::string_view> kEntries[] = {
      {TriggerKind::kStall, "Stall"}, {TriggerKind::kSlowdown, "Slowdown"}, {TriggerKind::kProcessLost, "ProcessLost"}};
};

template <>
struct EnumTable<VerdictCategory> {
  static constexpr std::pair<VerdictCategory, std::string_view> kEntries[] = {
      {VerdictCategory::kUnknown, "Unknown"},           {VerdictCategory::kProcessLost, "ProcessLost"},
      {VerdictCategory::kMismatch, "Mismatch"},         {VerdictCategory::kNotLaunched, "NotLaunched"},
      {VerdictCategory::kHostStuck, "HostStuck"},       {VerdictCategory::kGpuStuck, "GpuStuck"},
      {VerdictCategory::kCompute, "Compute"},           {VerdictCategory::kReceiverNotReady, "ReceiverNotReady"},
      {VerdictCategory::kNetwork, "Network"},           {VerdictCategory::kIntraNodeLink, "IntraNodeLink"},
      {VerdictCategory::kProxyStarved, "ProxyStarved"}, {VerdictCategory::kDeadlock, "Deadlock"}};
};

template <>
struct EnumTable<IncidentState> {
  static constexpr std::pair<IncidentState, std::string_view> kEntries[] = {{IncidentState::kOpen, "Open"},
                                                                            {IncidentState::kResolved, "Resolved"}};
};

template <typename V>
void Fields(V& v, const IncidentTrigger*) {
  using T = IncidentTrigger;
  v.Field("kind", &T::kind, {.doc = "What set it off.", .required = true});
  v.Field("node", &T::node, {.doc = "The node whose agent raised it.", .max_length = 253});
  v.Field("at", &T::at, {.doc = "When."});
  v.Field("detail", &T::detail, {.doc = "What the agent saw.", .max_length = 4096});
}

template <typename V>
void Fields(V& v, const IncidentSpec*) {
  using T = IncidentSpec;
  v.Field("job", &T::job, {.doc = "The job that it happened to.", .required = true});
  v.Field("run", &T::run, {.doc = "Name of the TrainingRun.", .max_length = 253});
  v.Field("trigger", &T::trigger, {.doc = "What set it off.", .required = true});
  v.TransitionRule("self == oldSelf", "an incident's spec never changes");
}

template <typename V>
void Fields(V& v, const Edge*) {
  using T = Edge;
  v.Field("fromRank", &T::from_rank, {.doc = "The sending rank.", .required = true, .minimum = 0});
  v.Field("toRank", &T::to_rank, {.doc = "The receiving rank.", .required = true, .minimum = 0});
  v.Field("channel", &T::channel, {.doc = "The channel; absent when all are alike.", .minimum = 0});
}

template <typename V>
void Fields(V& v, const Verdict*) {
  using T = Verdict;
  v.Field("category", &T::category, {.doc = "The class of the cause; Unknown is an honest verdict.", .required = true});
  v.Field("cause", &T::cause, {.doc = "The cause in one sentence.", .max_length = 4096});
  v.Field("ranks", &T::ranks, {.doc = "Ranks to blame.", .max_items = 1024});
  v.Field("pods", &T::pods, {.doc = "Their pods.", .max_items = 1024});
  v.Field("nodes", &T::nodes, {.doc = "Their nodes.", .max_items = 1024});
  v.Field("communicator", &T::communicator, {.doc = "The communicator in which it showed.", .max_length = 253});
  v.Field("edge", &T::edge, {.doc = "The connection that is least advanced."});
  v.Field("confidence", &T::confidence, {.doc = "0: a guess, 1: certain.", .minimum = 0, .maximum = 1});
}

template <typename V>
void Fields(V& v, const EvidenceNumber*) {
  using T = EvidenceNumber;
  v.Field("name", &T::name, {.doc = "What was measured.", .required = true, .max_length = 253});
  v.Field("value", &T::value, {.doc = "The number."});
  v.Field("unit", &T::unit, {.doc = "Its unit.", .max_length = 63});
  v.Field("usual", &T::usual, {.doc = "What it is when all is well."});
}

template <typename V>
void Fields(V& v, const IncidentAction*) {
  using T = IncidentAction;
  v.Field("action", &T::action, {.doc = "What was done.", .required = true, .max_length = 63});
  v.Field("node", &T::node, {.doc = "To which node.", .max_length = 253});
  v.Field("at", &T::at, {.doc = "When."});
  v.Field("result", &T::result, {.doc = "What came of it, or why it was refused.", .max_length = 4096});
}

template <typename V>
void Fields(V& v, const IncidentStatus*) {
  using T = IncidentStatus;
  v.Field("state", &T::state, {.doc = "Whether it is over."});
  v.Field("verdict", &T::verdict, {.doc = "What Paceline thinks happened; absent while it looks."});
  v.Field("evidence", &T::evidence, {.doc = "The numbers behind the verdict.", .max_items = 256});
  v.Field("notVisible", &T::not_visible,
          {.doc = "What could not be seen and might change the verdict.", .max_length = 1024, .max_items = 256});
  v.Field("actions", &T::actions, {.doc = "What was done about it, in order.", .max_items = 64});
  v.Field("resolvedAt", &T::resolved_at, {.doc = "When it was over."});
  v.Field("conditions", &T::conditions, kConditionsField);
}

template <typename V>
void Fields(V& v, const Incident*) {
  using T = Incident;
  v.Field("metadata", &T::metadata, {.doc = "Standard metadata."});
  v.Field("spec", &T::spec, {.doc = "What happened to which run.", .required = true});
  v.Field("status", &T::status, {.doc = "What came of it."});
}

}  // namespace paceline::api
