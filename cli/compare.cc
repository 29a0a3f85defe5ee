#include "cli/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/output.h"
#include "cli/runs.h"

namespace paceline::cli {

using api::Stage;
using api::StageName;
using api::TrainingRun;
using Json = nlohmann::json;

namespace {

constexpr size_t kMaxStarts = 8;

const Stage* FindStage(const TrainingRun& run, StageName name) {
  for (const Stage& stage : run.status.stages) {
    if (stage.name == name) return &stage;
  }
  return nullptr;
}

std::vector<StageName> StagesOf(const std::vector<TrainingRun>& runs) {
  std::vector<StageName> names;
  for (const TrainingRun& run : runs) {
    for (const Stage& stage : run.status.stages) {
      if (std::find(names.begin(), names.end(), stage.name) == names.end()) names.push_back(stage.name);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<double> StartupSeconds(const TrainingRun& run) {
  if (!run.status.first_step_at || !run.status.queued_at) return std::nullopt;
  return ToSeconds(*run.status.first_step_at - *run.status.queued_at);
}

std::optional<double> MaxToMedian(const Stage& stage) {
  if (!stage.max_seconds || !stage.p50_seconds || *stage.p50_seconds <= 0) return std::nullopt;
  return *stage.max_seconds / *stage.p50_seconds;
}

std::string KindText(const TrainingRun& run) {
  return run.status.startup ? std::string(api::StartKindText(run.status.startup->kind)) : "";
}

std::string UpperCase(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return out;
}

std::string TimesTable(const std::vector<TrainingRun>& runs, const std::vector<StageName>& stages) {
  Table table{{"RUN", "START", "KIND", "WORKERS", "STARTUP"}, {}};
  for (const StageName name : stages) table.headers.push_back(UpperCase(api::StageNameText(name)));
  table.headers.push_back("GPU-HOURS");
  for (const TrainingRun& run : runs) {
    const std::optional<double> startup = StartupSeconds(run);
    std::vector<std::string> row = {run.metadata.name, std::to_string(run.spec.generation), KindText(run),
                                    run.spec.workers ? std::to_string(*run.spec.workers) : "",
                                    startup ? FormatSeconds(*startup) : ""};
    for (const StageName name : stages) {
      const Stage* stage = FindStage(run, name);
      row.push_back(stage != nullptr && stage->max_seconds ? FormatSeconds(*stage->max_seconds) : "");
    }
    const bool knows_gpus = run.status.startup && run.status.startup->gpu_seconds;
    row.push_back(knows_gpus ? fmt::format("{:.2f}", *run.status.startup->gpu_seconds / kSecondsPerHour) : "");
    table.rows.push_back(std::move(row));
  }
  return RenderTable(table);
}

// "1.8x n2": how much longer than the median the slowest node took.
std::string SlowestTable(const std::vector<TrainingRun>& runs, const std::vector<StageName>& stages) {
  Table table{{"SLOWEST NODE"}, {}};
  for (const TrainingRun& run : runs) table.headers.push_back(run.metadata.name);
  for (const StageName name : stages) {
    std::vector<std::string> row = {std::string(api::StageNameText(name))};
    for (const TrainingRun& run : runs) {
      const Stage* stage = FindStage(run, name);
      const std::optional<double> ratio = stage == nullptr ? std::nullopt : MaxToMedian(*stage);
      row.push_back(ratio ? fmt::format("{:.1f}x {}", *ratio, stage->slowest_node) : "");
    }
    table.rows.push_back(std::move(row));
  }
  return RenderTable(table);
}

std::string Signed(double seconds) { return (seconds < 0 ? "-" : "+") + FormatSeconds(std::abs(seconds)); }

// How the last differs from the first: the whole, then the stages that make most of the difference.
std::string Difference(const TrainingRun& first, const TrainingRun& last, const std::vector<StageName>& stages) {
  const std::optional<double> before = StartupSeconds(first), after = StartupSeconds(last);
  if (!before || !after || *before <= 0) return "no startup times to compare: one of them has no first step\n";
  std::string kind = KindText(last);
  if (!kind.empty()) kind = " (" + kind + ")";
  std::string out = fmt::format("{}{} started in {} against {} of {}: {} ({:+.0f} %)\n", last.metadata.name, kind,
                                FormatSeconds(*after), FormatSeconds(*before), first.metadata.name,
                                Signed(*after - *before), (*after - *before) / *before * 100);
  std::vector<std::pair<double, StageName>> changes;
  for (const StageName name : stages) {
    const Stage* a = FindStage(first, name);
    const Stage* b = FindStage(last, name);
    const double change =
        (b != nullptr ? b->max_seconds.value_or(0) : 0) - (a != nullptr ? a->max_seconds.value_or(0) : 0);
    if (std::abs(change) >= 0.1) changes.emplace_back(change, name);
  }
  std::sort(changes.begin(), changes.end(),
            [](const auto& a, const auto& b) { return std::abs(a.first) > std::abs(b.first); });
  if (changes.size() > 3) changes.resize(3);
  for (const auto& [change, name] : changes) out += fmt::format("* {}: {}\n", api::StageNameText(name), Signed(change));
  return out;
}

bool IsJob(const std::vector<TrainingRun>& runs, const std::string& name) {
  return std::none_of(runs.begin(), runs.end(), [&](const TrainingRun& run) { return run.metadata.name == name; });
}

}  // namespace

Result<std::vector<TrainingRun>> RunsToCompare(const std::vector<TrainingRun>& runs,
                                               const std::vector<std::string>& names) {
  std::vector<TrainingRun> chosen;
  if (names.size() == 1 && IsJob(runs, names[0])) {
    for (const TrainingRun& run : runs) {
      if (run.spec.job.name == names[0]) chosen.push_back(run);
    }
    std::sort(chosen.begin(), chosen.end(), [](const TrainingRun& a, const TrainingRun& b) {
      return std::tie(a.metadata.creation_timestamp, a.spec.generation, a.metadata.name) <
             std::tie(b.metadata.creation_timestamp, b.spec.generation, b.metadata.name);
    });
    if (chosen.size() > kMaxStarts) chosen.erase(chosen.begin(), chosen.end() - kMaxStarts);
    if (chosen.size() > 1) return chosen;
  }
  chosen.clear();
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(TrainingRun run, FindRun(runs, name));
    chosen.push_back(std::move(run));
  }
  if (chosen.size() > 1) return chosen;
  return InvalidArgumentError(fmt::format("{} has one start so far: name a second run or job to compare it with",
                                          names.empty() ? "nothing" : names[0]));
}

std::string CompareRuns(const std::vector<TrainingRun>& runs) {
  const std::vector<StageName> stages = StagesOf(runs);
  return TimesTable(runs, stages) + "\n" + SlowestTable(runs, stages) + "\n" +
         Difference(runs.front(), runs.back(), stages);
}

Json CompareRunsValue(const std::vector<TrainingRun>& runs) {
  Json list = Json::array();
  for (const TrainingRun& run : runs) {
    Json item = {{"run", run.metadata.name},
                 {"namespace", run.metadata.ns},
                 {"job", run.spec.job.name},
                 {"generation", run.spec.generation},
                 {"stages", Json::array()}};
    if (const std::optional<double> startup = StartupSeconds(run)) item["startupSeconds"] = *startup;
    if (run.status.startup) {
      item["startKind"] = KindText(run);
      item["workerSeconds"] = run.status.startup->worker_seconds;
      if (run.status.startup->gpus) item["gpus"] = *run.status.startup->gpus;
      if (run.status.startup->gpu_seconds) item["gpuSeconds"] = *run.status.startup->gpu_seconds;
    }
    for (const Stage& stage : run.status.stages) {
      Json entry = {{"name", api::StageNameText(stage.name)}, {"slowestNode", stage.slowest_node}};
      if (stage.p50_seconds) entry["p50Seconds"] = *stage.p50_seconds;
      if (stage.max_seconds) entry["maxSeconds"] = *stage.max_seconds;
      if (const std::optional<double> ratio = MaxToMedian(stage)) entry["maxToMedian"] = *ratio;
      item["stages"].push_back(std::move(entry));
    }
    list.push_back(std::move(item));
  }
  return list;
}

}  // namespace paceline::cli
