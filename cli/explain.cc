#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "cli/fs_tables.h"
#include "cli/runs.h"
#include "lib/api/codec.h"
#include "lib/api/stage_advice.h"

namespace paceline::cli {

using api::Stage;
using api::TrainingRun;
using api::WorkerTimes;
using Json = nlohmann::json;

namespace {

// Below this, nobody minds what a start took.
constexpr double kFeltSeconds = 1;

std::string SourceText(const std::optional<api::StageSource>& source) {
  if (!source) return "";
  switch (*source) {
    case api::StageSource::kMarker: return "stage marker";
    case api::StageSource::kTracer: return "tracer";
    case api::StageSource::kMount: return "mount";
    case api::StageSource::kCsi: return "volume";
    case api::StageSource::kContainerStatus: return "container status";
    case api::StageSource::kPodCondition: return "pod condition";
    case api::StageSource::kEvent: return "event";
  }
  return "";
}

// Until when an unfinished stage is drawn.
WallTime OpenEnd(const TrainingRun& run, WallTime now) { return run.status.finished_at.value_or(now); }

std::vector<WaterfallRow> WaterfallRows(const TrainingRun& run, WallTime now) {
  std::vector<WaterfallRow> rows;
  if (!run.status.queued_at) return rows;
  const WallTime origin = *run.status.queued_at;
  for (const WorkerTimes& worker : run.status.workers) {
    WaterfallRow row{std::to_string(worker.rank), worker.node, {}, true};
    for (const api::WorkerStage& stage : worker.stages) {
      if (!stage.start) continue;
      row.has_finished = stage.end.has_value();
      const WallTime end = std::max(stage.end.value_or(OpenEnd(run, now)), *stage.start);
      row.segments.push_back(
          {std::string(api::StageNameText(stage.name)), ToSeconds(*stage.start - origin), ToSeconds(end - origin)});
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

double SumOfMax(const TrainingRun& run) {
  double sum = 0;
  for (const Stage& stage : run.status.stages) sum += stage.max_seconds.value_or(0);
  return sum;
}

std::string StageTable(const TrainingRun& run) {
  Table table{{"STAGE", "MIN", "P50", "MAX", "SHARE", "SLOWEST", "SEEN IN"}, {}};
  const double total = SumOfMax(run);
  auto seconds = [](const std::optional<double>& value) {
    return value ? FormatSeconds(*value) : std::string("not yet");
  };
  for (const Stage& stage : run.status.stages) {
    const std::string share =
        stage.max_seconds && total > 0 ? fmt::format("{:.0f} %", *stage.max_seconds / total * 100) : "";
    std::string slowest = stage.slowest_pod;
    if (!stage.slowest_node.empty()) slowest += (slowest.empty() ? "on " : " on ") + stage.slowest_node;
    table.rows.push_back({std::string(api::StageNameText(stage.name)), seconds(stage.min_seconds),
                          seconds(stage.p50_seconds), seconds(stage.max_seconds), share, slowest,
                          SourceText(stage.source)});
  }
  return RenderTable(table);
}

// How the images came to the nodes; those that were pulled stand first.
std::string RunImageTable(const TrainingRun& run) {
  constexpr size_t kMaxRows = 16;
  Table table{{"NODE", "IMAGE", "CAME", "READY", "STORE", "PEERS", "NODE'S OWN", "HITS", "HOT SET"}, {}};
  for (const api::RunImage& image : run.status.images) {
    if (table.rows.size() == kMaxRows) break;
    std::string came = image.mode == api::ImageMode::kLazy ? "lazily" : "pulled: " + image.reason;
    if (image.was_there) came = "was there";
    std::vector<std::string> row = {image.node, image.image, came,
                                    image.ready_seconds && !image.was_there ? FormatSeconds(*image.ready_seconds) : ""};
    const api::ImageFigures figures = image.figures.value_or(api::ImageFigures{});
    const auto size = [&](int64_t bytes) { return image.figures ? SizeText(static_cast<uint64_t>(bytes)) : ""; };
    const std::optional<double> ratio = api::HitRatio(figures);
    row.insert(row.end(), {size(figures.registry_bytes), size(figures.peer_bytes), size(figures.cache_bytes),
                           ratio ? fmt::format("{:.0f} %", *ratio * 100) : "",
                           image.hot_set ? std::string(api::HotSetStateText(*image.hot_set)) : ""});
    table.rows.push_back(std::move(row));
  }
  if (table.rows.empty()) return "";
  const size_t left = run.status.images.size() - table.rows.size();
  return "\n" + RenderTable(table) + (left > 0 ? fmt::format("and {} more (-o json shows all)\n", left) : "");
}

std::string Headline(const TrainingRun& run, WallTime now) {
  const api::TrainingRunStatus& status = run.status;
  if (!status.queued_at) return "nothing of this start has been seen yet";
  if (status.first_step_at) {
    return fmt::format("{} from the job's creation to its first step",
                       FormatSeconds(ToSeconds(*status.first_step_at - *status.queued_at)));
  }
  const std::string so_far = FormatSeconds(ToSeconds(OpenEnd(run, now) - *status.queued_at));
  if (status.finished_at) return fmt::format("ended after {} without a first step that anybody saw", so_far);
  return fmt::format("{} since the job's creation, first step not seen yet", so_far);
}

// "full start, 16 GPUs, 0.53 GPU-hours before the first step"
std::string CostText(const api::StartupCost& cost) {
  std::string text = cost.kind == api::StartKind::kHotRestart ? "hot restart" : "full start";
  if (cost.gpu_seconds && *cost.gpus > 0) {
    return text + fmt::format(", {} GPUs held for {:.2f} GPU-hours before the first step", *cost.gpus,
                              *cost.gpu_seconds / kSecondsPerHour);
  }
  return text +
         fmt::format(", workers waited {} before the first step, all together", FormatSeconds(cost.worker_seconds));
}

std::string Header(const TrainingRun& run, WallTime now) {
  const std::string phase = run.status.phase ? std::string(api::RunPhaseText(*run.status.phase)) : "Pending";
  std::string workers = run.spec.workers ? fmt::format("{}", *run.spec.workers) : "not known";
  if (run.status.workers_omitted > 0) {
    workers += fmt::format(
        " ({} are drawn: the first ones and the slowest of each stage; the numbers of the stages, the cost and the "
        "advice cover all)",
        run.status.workers.size());
  }
  return fmt::format(
      "TrainingRun {}/{}: {}\njob       {} {}, start {}\nworkers   {}\nnodes     {}\nstartup   {}\n{}", run.metadata.ns,
      run.metadata.name, phase, run.spec.job.kind, run.spec.job.name, run.spec.generation, workers,
      run.status.nodes.empty() ? "none yet" : fmt::format("{}", fmt::join(run.status.nodes, ", ")), Headline(run, now),
      run.status.startup ? fmt::format("cost      {}\n", CostText(*run.status.startup)) : "");
}

// How the workers came to their dependencies, alike ones together; empty for a run without.
std::string DependencyTable(const TrainingRun& run) {
  struct Group {
    int64_t workers = 0;
    std::optional<double> slowest;
    std::set<std::string> nodes;
  };
  constexpr size_t kMostNodes = 4;
  std::map<std::pair<api::SnapshotOutcome, std::string>, Group> groups;
  for (const WorkerTimes& worker : run.status.workers) {
    if (!worker.dependencies) continue;
    Group& group = groups[{worker.dependencies->outcome, worker.dependencies->reason}];
    ++group.workers;
    group.slowest = std::max(group.slowest, worker.dependencies->seconds);
    if (!worker.node.empty()) group.nodes.insert(worker.node);
  }
  if (groups.empty()) return "";
  Table table{{"DEPENDENCIES", "WORKERS", "MAX", "NODES", "REASON"}, {}};
  for (const auto& [kind, group] : groups) {
    std::vector<std::string> nodes(group.nodes.begin(), group.nodes.end());
    const size_t more = nodes.size() > kMostNodes ? nodes.size() - kMostNodes : 0;
    nodes.resize(nodes.size() - more);
    std::string names = fmt::format("{}", fmt::join(nodes, ", "));
    if (more > 0) names += fmt::format(" and {} more", more);
    table.rows.push_back({std::string(api::SnapshotOutcomeText(kind.first)), std::to_string(group.workers),
                          group.slowest ? FormatSeconds(*group.slowest) : "", names, kind.second});
  }
  std::string notes;
  if (run.status.workers_omitted > 0) {
    notes = fmt::format("counted over the {} workers above; of {} more it is not kept\n", run.status.workers.size(),
                        run.status.workers_omitted);
  }
  const std::string& name = run.status.snapshot ? run.status.snapshot->name : "";
  return RenderTable(table) + notes + (name.empty() ? "" : fmt::format("snapshot: {}\n", name));
}

std::string ConditionLines(const TrainingRun& run) {
  std::string out;
  for (const api::Condition& condition : run.status.conditions) {
    if (condition.message.empty()) continue;
    const char* value = condition.status == api::ConditionStatus::kTrue    ? "True"
                        : condition.status == api::ConditionStatus::kFalse ? "False"
                                                                           : "Unknown";
    out += fmt::format("{}={} ({}): {}\n", condition.type, value, condition.reason, condition.message);
  }
  return out;
}

}  // namespace

std::vector<std::string> Advise(const TrainingRun& run) {
  std::vector<std::string> advice;
  const Stage* largest = nullptr;
  for (const Stage& stage : run.status.stages) {
    if (stage.max_seconds && (largest == nullptr || *stage.max_seconds > *largest->max_seconds)) largest = &stage;
  }
  const double total = SumOfMax(run);
  if (largest != nullptr && total >= kFeltSeconds && *largest->max_seconds / total >= 0.4) {
    const api::Advice& stage = api::StageAdvice(largest->name);
    advice.push_back(api::Say(
        stage, fmt::format("{} took {} of the startup ({:.0f} %): {}", api::StageNameText(largest->name),
                           FormatSeconds(*largest->max_seconds), *largest->max_seconds / total * 100, stage.happened)));
  }
  for (const Stage& stage : run.status.stages) {
    if (!api::IsUneven(stage)) continue;
    advice.push_back(
        api::Say(api::kUnevenStage, fmt::format("{} was uneven: {} on {} against a median of {}",
                                                api::StageNameText(stage.name), FormatSeconds(*stage.max_seconds),
                                                stage.slowest_node.empty() ? stage.slowest_pod : stage.slowest_node,
                                                FormatSeconds(*stage.p50_seconds))));
  }
  // One sentence for each cause, however many nodes.
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> fallbacks;
  for (const api::Fallback& fallback : run.status.fallbacks) {
    std::vector<std::string>& nodes = fallbacks[{fallback.feature, fallback.reason}];
    if (!fallback.node.empty()) nodes.push_back(fallback.node);
  }
  for (const auto& [what, nodes] : fallbacks) {
    std::string where = nodes.empty() ? "" : " on " + nodes.front();
    if (nodes.size() > 1) where += fmt::format(" and {} more nodes", nodes.size() - 1);
    advice.push_back(api::Say(api::kFallbackAdvice,
                              fmt::format("{} fell back to the ordinary path{}: {}", what.first, where, what.second)));
  }
  for (const WorkerTimes& worker : run.status.workers) {
    if (!worker.dependencies || worker.dependencies->outcome != api::SnapshotOutcome::kFellBack) continue;
    advice.push_back(api::Say(api::kFallbackAdvice, fmt::format("dependencies fell back to the install on {}: {}",
                                                                worker.node, worker.dependencies->reason)));
    break;  // the table has the others
  }
  if (run.status.startup && run.status.startup->gpu_seconds.value_or(0) >= kSecondsPerHour) {
    advice.push_back(
        api::Say(api::kStartupCostAdvice,
                 fmt::format("the startup held {:.1f} GPU-hours", *run.status.startup->gpu_seconds / kSecondsPerHour)));
  }
  return advice;
}

std::string ShowRun(const TrainingRun& run, WallTime now) {
  std::string out = Header(run, now);
  if (run.status.finished_at && run.status.queued_at) {
    out += fmt::format("duration  {}\n", FormatSeconds(ToSeconds(*run.status.finished_at - *run.status.queued_at)));
  }
  if (run.status.slowdown) out += fmt::format("slowdown  {:.3f}\n", *run.status.slowdown);
  for (const std::string& incident : run.status.incidents) out += fmt::format("incident  {}\n", incident);
  if (!run.status.stages.empty()) out += "\n" + StageTable(run);
  out += RunImageTable(run);
  const std::string conditions = ConditionLines(run);
  if (!conditions.empty()) out += "\n" + conditions;
  return out;
}

std::string ExplainRun(const TrainingRun& run, const WaterfallStyle& style, WallTime now) {
  std::string out = Header(run, now);
  const std::string chart = RenderWaterfall(WaterfallRows(run, now), style);
  if (!chart.empty()) out += "\n" + chart;
  if (!run.status.stages.empty()) out += "\n" + StageTable(run);
  out += RunImageTable(run);
  const std::string dependencies = DependencyTable(run);
  if (!dependencies.empty()) out += "\n" + dependencies;
  const std::string conditions = ConditionLines(run);
  if (!conditions.empty()) out += "\n" + conditions;
  const std::vector<std::string> advice = Advise(run);
  if (!advice.empty()) out += "\n";
  for (const std::string& sentence : advice) out += "* " + sentence + "\n";
  return out;
}

Json ExplainRunValue(const TrainingRun& run, WallTime now) {
  Json value = {{"run", run.metadata.name}, {"namespace", run.metadata.ns}, {"advice", Advise(run)}};
  if (run.status.queued_at && run.status.first_step_at) {
    value["wallSeconds"] = ToSeconds(*run.status.first_step_at - *run.status.queued_at);
  }
  Json workers = Json::array();
  const std::vector<WaterfallRow> rows = WaterfallRows(run, now);
  for (size_t i = 0; i < rows.size(); ++i) {
    Json stages = Json::array();
    for (const WaterfallSegment& segment : rows[i].segments) {
      stages.push_back({{"name", segment.stage},
                        {"startSeconds", segment.start_seconds},
                        {"seconds", segment.end_seconds - segment.start_seconds}});
    }
    const WorkerTimes& worker = run.status.workers[i];
    Json entry = {{"rank", worker.rank},
                  {"pod", worker.pod},
                  {"node", worker.node},
                  {"complete", rows[i].has_finished},
                  {"stages", std::move(stages)}};
    if (worker.dependencies) {
      Json& dependencies = entry["dependencies"];
      dependencies = {{"outcome", api::SnapshotOutcomeText(worker.dependencies->outcome)},
                      {"reason", worker.dependencies->reason}};
      if (worker.dependencies->seconds) dependencies["seconds"] = *worker.dependencies->seconds;
    }
    workers.push_back(std::move(entry));
  }
  value["workers"] = std::move(workers);
  value["workersOmitted"] = run.status.workers_omitted;
  const Json all = api::ToJson(run);
  for (const char* part : {"images", "bytes", "hotSet"}) {
    const Json::json_pointer where(std::string("/status/") + part);
    if (all.contains(where)) value[part] = all[where];
  }
  return value;
}

}  // namespace paceline::cli
