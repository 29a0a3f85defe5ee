#include "cli/run_perfetto.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "lib/base/json.h"

namespace paceline::cli {

using Json = nlohmann::json;

namespace {

int64_t Micros(Duration duration) { return std::chrono::duration_cast<std::chrono::microseconds>(duration).count(); }

Json Name(const char* what, int process, int64_t thread, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

}  // namespace

std::string StartupAsPerfetto(const api::TrainingRun& run, WallTime now) {
  const WallTime origin = run.status.queued_at.value_or(now);
  const WallTime open_end = run.status.finished_at.value_or(now);
  Json events = Json::array();
  std::map<std::string, int> processes;
  for (const api::WorkerTimes& worker : run.status.workers) {
    const std::string node = worker.node.empty() ? "no node" : worker.node;
    const auto [process, is_new] = processes.try_emplace(node, static_cast<int>(processes.size()) + 1);
    if (is_new) events.push_back(Name("process_name", process->second, 0, node));
    events.push_back(
        Name("thread_name", process->second, worker.rank, "worker " + std::to_string(worker.rank) + " " + worker.pod));
    for (const api::WorkerStage& stage : worker.stages) {
      if (!stage.start) continue;
      const WallTime end = std::max(stage.end.value_or(open_end), *stage.start);
      Json event = {{"ph", "X"},
                    {"cat", "startup"},
                    {"name", api::StageNameText(stage.name)},
                    {"pid", process->second},
                    {"tid", worker.rank},
                    {"ts", Micros(*stage.start - origin)},
                    {"dur", Micros(end - *stage.start)}};
      if (!stage.end) event["args"] = {{"open", true}};
      events.push_back(std::move(event));
    }
  }
  const Json trace = {
      {"displayTimeUnit", "ms"},
      {"otherData",
       {{"run", run.metadata.name}, {"job", run.spec.job.name}, {"workersOmitted", run.status.workers_omitted}}},
      {"traceEvents", std::move(events)}};
  return DumpJson(trace) + "\n";
}

}  // namespace paceline::cli
