// Runs, incidents and nodes for the job page, as the operator's caches hold them, and the paces of ranks that train.
#pragma once

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "lib/api/names.h"
#include "lib/api/training_run.h"
#include "lib/base/json.h"
#include "lib/kube/cache.h"
#include "operator/straggler/node_mark.h"
#include "operator/straggler/pace_store.h"
#include "operator/straggler/straggler_names.h"

namespace paceline::operator_ {

struct PageData {
  kube::Store<kube::ObjectView> runs;
  kube::Store<kube::ObjectView> incidents{
      std::vector<kube::CacheIndex<kube::ObjectView>>{kube::LabelIndex<kube::ObjectView>(std::string(api::kRunLabel))}};
  kube::Store<kube::NodeView> nodes;
};

template <typename View>
void Put(kube::Store<View>& store, const Json& object) {
  store.Set(*kube::DecodeJson<View>(DumpJson(object), nullptr));
}

inline std::string TimeAt(double seconds) {
  const WallTime base{std::chrono::seconds(1767323040)};
  return FormatRfc3339Micro(base + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
}

// A run of `workers`, of which one in a hundred is slow to pull its image. As many are kept one by one as the operator
// keeps.
inline Json RunOf(const std::string& ns, const std::string& name, int workers) {
  Json times = Json::array();
  const int kept = std::min(workers, static_cast<int>(api::kMaxWorkerTimes));
  for (int rank = 0; rank < kept; ++rank) {
    const double image = rank % 100 == 7 ? 30 : 5 + rank % 10 * 0.1;
    const double ends[] = {1, 2, 2 + image, 4 + image, 60};
    const char* const names[] = {"Queued", "Scheduling", "Image", "ContainerStart", "FirstStep"};
    Json stages = Json::array();
    double from = 0;
    for (size_t i = 0; i < 5; ++i) {
      stages.push_back({{"name", names[i]}, {"start", TimeAt(from)}, {"end", TimeAt(ends[i])}});
      from = ends[i];
    }
    times.push_back({{"rank", rank},
                     {"pod", name + "-" + std::to_string(rank)},
                     {"node", "node-" + std::to_string(rank / 8)},
                     {"stages", std::move(stages)}});
  }
  const auto stage = [workers](const char* what, double p50, double max, const char* node) {
    return Json{{"name", what},       {"minSeconds", p50 / 2}, {"p50Seconds", p50},  {"maxSeconds", max},
                {"workers", workers}, {"slowestPod", "p"},     {"slowestNode", node}};
  };
  Json run = {
      {"apiVersion", api::kApiVersion},
      {"kind", "TrainingRun"},
      {"metadata", {{"namespace", ns}, {"name", name}, {"creationTimestamp", "2026-01-02T03:04:00Z"}}},
      {"spec",
       {{"job", {{"apiVersion", api::kApiVersion}, {"kind", "TrainingJob"}, {"name", "llama"}, {"uid", "uid-" + name}}},
        {"generation", 0},
        {"workers", workers}}},
      {"status",
       {{"phase", "Running"},
        {"nodes", {"node-0", "node-1"}},
        {"queuedAt", TimeAt(0)},
        {"firstStepAt", TimeAt(60)},
        {"wallSeconds", 60},
        {"startup",
         {{"kind", "Full"}, {"workerSeconds", 58.0 * workers}, {"gpus", workers * 8}, {"gpuSeconds", 464.0 * workers}}},
        {"slowdown", 1.25},
        {"incidents", {name + "-abc"}},
        {"stages", {stage("Image", 5.4, 30, "node-0"), stage("FirstStep", 50, 51, "node-1")}},
        {"workers", std::move(times)},
        {"conditions",
         {{{"type", "FirstStepSeen"},
           {"status", "True"},
           {"reason", "AllWorkers"},
           {"message", ""},
           {"lastTransitionTime", "2026-01-02T03:05:00Z"}}}}}}};
  if (kept < workers) run["status"]["workersOmitted"] = workers - kept;
  return run;
}

// Fifteen minutes of `workers` ranks; rank 7 works longer than the others in the last five.
inline RunPaces PacesOf(int workers, WallTime now) {
  RunPaces paces;
  paces.expected_ranks = static_cast<size_t>(workers);
  const int64_t until = now.time_since_epoch() / std::chrono::seconds(5) * 5;
  for (int32_t number = 0; number < workers; ++number) {
    analysis::RankPace rank{number, "node-" + std::to_string(number / 8), {{7, true, false}}, {}};
    for (int64_t start = until - 1000; start < until; start += 5) {
      const std::chrono::seconds own(number == 7 && start >= until - 300 ? 4 : 3);
      rank.windows.push_back({start, 50, own, std::chrono::seconds(5) - own, 0});
    }
    paces.ranks.push_back(std::move(rank));
  }
  return paces;
}

inline Json IncidentOf(const std::string& ns, const std::string& run) {
  return {
      {"apiVersion", api::kApiVersion},
      {"kind", "Incident"},
      {"metadata",
       {{"namespace", ns},
        {"name", run + "-abc"},
        {"labels", {{api::kRunLabel, run}}},
        {"creationTimestamp", "2026-01-02T03:10:00Z"}}},
      {"spec",
       {{"job", {{"apiVersion", api::kApiVersion}, {"kind", "TrainingJob"}, {"name", "llama"}, {"uid", "uid-" + run}}},
        {"run", run},
        {"trigger", {{"kind", "Stall"}, {"at", "2026-01-02T03:10:00Z"}}}}},
      {"status",
       {{"state", "Open"},
        {"verdict",
         {{"category", "Network"},
          {"cause", "the link from rank 7 to rank 8 is slow <script>alert(1)</script>"},
          {"ranks", {7}},
          {"nodes", {"node-0"}},
          {"confidence", 0.9}}},
        {"evidence", {{{"name", "link rate"}, {"value", 1.5}, {"unit", "MB/s"}, {"usual", 900}}}},
        {"notVisible", {"GPU counters"}}}}};
}

inline Json NodeOf(const std::string& name, bool is_cordoned) {
  Json node = {{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", name}}}, {"spec", Json::object()}};
  if (!is_cordoned) return node;
  NodeMark mark;
  mark.policy = "gpu-nodes";
  mark.action = api::StragglerAction::kCordon;
  mark.incident = "team/llama-0-abc";
  node["metadata"]["annotations"] = {{std::string(kStragglerKey), RenderMark(mark)}, {"other", "x"}};
  node["spec"] = {{"unschedulable", true}, {"taints", {{{"key", "paceline.dev/straggler"}, {"effect", "NoSchedule"}}}}};
  return node;
}

inline void Fill(PageData& data, int workers) {
  Put(data.runs, RunOf("team", "llama-0", workers));
  Put(data.runs, RunOf("team", "small-0", 2));
  Put(data.runs, RunOf("other", "secret-0", 2));
  Put(data.incidents, IncidentOf("team", "llama-0"));
  Put(data.nodes, NodeOf("node-0", true));
  Put(data.nodes, NodeOf("node-1", false));
}

}  // namespace paceline::operator_
