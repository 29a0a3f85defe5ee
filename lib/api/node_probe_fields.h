// The fields of probes, for NodePlan and StragglerPolicy. Internal to lib/api; see fields.h.
#pragma once

#include "lib/api/fields.h"
#include "lib/api/node_probe.h"

namespace paceline::api {

template <>
struct EnumTable<ProbeCheck> {
  static constexpr std::pair<ProbeCheck, std::string_view> kEntries[] = {{ProbeCheck::kCpu, "Cpu"},
                                                                         {ProbeCheck::kMemory, "Memory"},
                                                                         {ProbeCheck::kDisk, "Disk"},
                                                                         {ProbeCheck::kNetwork, "Network"},
                                                                         {ProbeCheck::kGpu, "Gpu"}};
};

template <>
struct EnumTable<ProbeState> {
  static constexpr std::pair<ProbeState, std::string_view> kEntries[] = {
      {ProbeState::kWaiting, "Waiting"}, {ProbeState::kRunning, "Running"}, {ProbeState::kDone, "Done"}};
};

template <>
struct EnumTable<ProbeGap> {
  static constexpr std::pair<ProbeGap, std::string_view> kEntries[] = {{ProbeGap::kNotThere, "NotThere"},
                                                                       {ProbeGap::kFailed, "Failed"}};
};

template <>
struct EnumTable<ProbeVerdict> {
  static constexpr std::pair<ProbeVerdict, std::string_view> kEntries[] = {{ProbeVerdict::kPending, "Pending"},
                                                                           {ProbeVerdict::kUnknown, "Unknown"},
                                                                           {ProbeVerdict::kPassed, "Passed"},
                                                                           {ProbeVerdict::kFailed, "Failed"}};
};

template <typename V>
void Fields(V& v, const ProbePeer*) {
  using T = ProbePeer;
  v.Field("node", &T::node, {.doc = "Name of the peer's node.", .required = true, .max_length = 253});
  v.Field("address", &T::address,
          {.doc = "host:port of the HTTP interface of its agent.", .required = true, .max_length = 263});
}

template <typename V>
void Fields(V& v, const ProbeRequest*) {
  using T = ProbeRequest;
  v.Field("round", &T::round,
          {.doc = "Counts up: the node is probed while status.probe.round is lower. To ask for a probe, add 1.",
           .minimum = 0});
  v.Field("checks", &T::checks, {.doc = "What to measure. Empty: all.", .max_items = 8});
  v.Field("peers", &T::peers,
          {.doc = "Nodes to measure the network with; the first that is free is taken.",
           .max_items = static_cast<int64_t>(kMaxProbePeers)});
}

template <typename V>
void Fields(V& v, const ProbeFigure*) {
  using T = ProbeFigure;
  v.Field("name", &T::name, {.doc = "What was measured.", .required = true, .max_length = 63});
  v.Field("value", &T::value, {.doc = "The number."});
  v.Field("unit", &T::unit, {.doc = "Its unit.", .max_length = 16});
  v.Field("at", &T::at, {.doc = "When it was measured."});
  v.Field(
      "detail", &T::detail,
      {.doc = "Which of several devices, or which peer.", .max_length = static_cast<int64_t>(kMaxProbeMessageBytes)});
}

template <typename V>
void Fields(V& v, const MissingProbe*) {
  using T = MissingProbe;
  v.Field("check", &T::check, {.doc = "What could not be measured.", .required = true});
  v.Field("gap", &T::gap, {.doc = "NotThere: the node has nothing of the kind. Failed: it could not be measured."});
  v.Field("message", &T::message, {.doc = "Why.", .max_length = static_cast<int64_t>(kMaxProbeMessageBytes)});
}

template <typename V>
void Fields(V& v, const ProbeStatus*) {
  using T = ProbeStatus;
  v.Field("state", &T::state,
          {.doc = "Whether one is asked for and waits, runs, or all that were asked for are done."});
  v.Field("message", &T::message,
          {.doc = "What it waits for.", .max_length = static_cast<int64_t>(kMaxProbeMessageBytes)});
  v.Field("round", &T::round, {.doc = "The last round that is done; what follows is of it.", .minimum = 0});
  v.Field("startedAt", &T::started_at, {.doc = "When it began."});
  v.Field("finishedAt", &T::finished_at, {.doc = "When it ended."});
  v.Field("method", &T::method,
          {.doc = "How it was measured; figures of two methods are not compared.", .omit_zero = true, .minimum = 0});
  v.Field("cpuModel", &T::cpu_model,
          {.doc = "Model of the node's processors.", .max_length = static_cast<int64_t>(kMaxProbeMessageBytes)});
  v.Field("cpus", &T::cpus, {.doc = "How many it has.", .omit_zero = true, .minimum = 0});
  v.Field("gpuModel", &T::gpu_model,
          {.doc = "Model of its GPUs; absent without one.", .max_length = static_cast<int64_t>(kMaxProbeMessageBytes)});
  v.Field("figures", &T::figures, {.doc = "What was measured.", .max_items = static_cast<int64_t>(kMaxProbeFigures)});
  v.Field("missing", &T::missing,
          {.doc = "What could not be measured, and why.", .max_items = static_cast<int64_t>(kMaxProbeMissing)});
}

}  // namespace paceline::api
