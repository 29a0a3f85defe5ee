#include "cli/runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "lib/api/codec.h"

namespace paceline::cli {

using api::Stage;
using api::TrainingJob;
using api::TrainingRun;
using Json = nlohmann::json;

namespace {

// Newest first; the name settles ties so that output is stable.
void SortNewestFirst(std::vector<TrainingRun>& runs) {
  std::sort(runs.begin(), runs.end(), [](const TrainingRun& a, const TrainingRun& b) {
    if (a.metadata.creation_timestamp != b.metadata.creation_timestamp) {
      return a.metadata.creation_timestamp > b.metadata.creation_timestamp;
    }
    if (a.spec.generation != b.spec.generation) return a.spec.generation > b.spec.generation;
    return a.metadata.name < b.metadata.name;
  });
}

std::string PhaseText(const TrainingRun& run) {
  return run.status.phase ? std::string(api::RunPhaseText(*run.status.phase)) : "Pending";
}

std::string AgeOf(const api::ObjectMeta& meta, WallTime now) {
  return meta.creation_timestamp ? FormatAge(now - *meta.creation_timestamp) : "";
}

// Seconds from the job's creation to its first step; "" while there is none.
std::string FirstStepText(const TrainingRun& run) {
  if (!run.status.first_step_at || !run.status.queued_at) return "";
  return FormatSeconds(ToSeconds(*run.status.first_step_at - *run.status.queued_at));
}

std::string WorkersText(const TrainingRun& run) { return run.spec.workers ? std::to_string(*run.spec.workers) : ""; }

std::string JobPhase(const TrainingJob& job) {
  for (std::string_view type : {api::kFailedCondition, api::kCompleteCondition, api::kSuspendedCondition,
                                api::kRestartingCondition, api::kRunningCondition}) {
    if (api::IsConditionTrue(job.status.conditions, type)) return std::string(type);
  }
  return "Pending";
}

// One job as `job ls` shows it, whatever its kind.
struct JobRow {
  std::string ns, name, kind, phase;
  const TrainingRun* latest_run = nullptr;
  std::optional<WallTime> created;
};

std::vector<JobRow> JobRows(const std::vector<TrainingJob>& jobs, const std::vector<TrainingRun>& sorted_runs) {
  std::vector<JobRow> rows;
  std::map<std::string, size_t> by_uid;
  for (const TrainingJob& job : jobs) {
    by_uid[job.metadata.uid] = rows.size();
    rows.push_back(
        {job.metadata.ns, job.metadata.name, "TrainingJob", JobPhase(job), nullptr, job.metadata.creation_timestamp});
  }
  for (const TrainingRun& run : sorted_runs) {
    auto [it, is_new] = by_uid.try_emplace(run.spec.job.uid, rows.size());
    if (is_new) {
      // A job of another kind, or one that is gone: its newest run speaks for it.
      rows.push_back(
          {run.metadata.ns, run.spec.job.name, run.spec.job.kind, PhaseText(run), nullptr, run.status.queued_at});
    }
    if (rows[it->second].latest_run == nullptr) rows[it->second].latest_run = &run;
  }
  std::sort(rows.begin(), rows.end(), [](const JobRow& a, const JobRow& b) {
    return std::tie(a.ns, a.name, a.kind) < std::tie(b.ns, b.name, b.kind);
  });
  return rows;
}

void HideNamespace(Table& table, NamespaceColumn column) {
  if (column == NamespaceColumn::kShow) return;
  table.headers.erase(table.headers.begin());
  for (auto& row : table.rows) row.erase(row.begin());
}

}  // namespace

std::string FormatAge(Duration age) {
  const int64_t seconds = std::max<int64_t>(0, std::chrono::duration_cast<std::chrono::seconds>(age).count());
  if (seconds < 120) return fmt::format("{}s", seconds);
  if (seconds < 2 * 3600) return fmt::format("{}m", seconds / 60);
  if (seconds < 2 * 86400) return fmt::format("{}h", seconds / 3600);
  return fmt::format("{}d", seconds / 86400);
}

Table RunTable(std::vector<TrainingRun> runs, NamespaceColumn column, WallTime now) {
  SortNewestFirst(runs);
  Table table{{"NAMESPACE", "NAME", "JOB", "KIND", "START", "PHASE", "WORKERS", "FIRST STEP", "AGE"}, {}};
  for (const TrainingRun& run : runs) {
    table.rows.push_back({run.metadata.ns, run.metadata.name, run.spec.job.name, run.spec.job.kind,
                          std::to_string(run.spec.generation), PhaseText(run), WorkersText(run), FirstStepText(run),
                          AgeOf(run.metadata, now)});
  }
  HideNamespace(table, column);
  return table;
}

Table JobTable(const std::vector<TrainingJob>& jobs, const std::vector<TrainingRun>& runs, NamespaceColumn column,
               WallTime now) {
  std::vector<TrainingRun> sorted = runs;
  SortNewestFirst(sorted);
  Table table{{"NAMESPACE", "NAME", "KIND", "PHASE", "WORKERS", "STARTS", "LATEST RUN", "FIRST STEP", "AGE"}, {}};
  for (const JobRow& row : JobRows(jobs, sorted)) {
    const TrainingRun* run = row.latest_run;
    const std::string starts = run != nullptr ? std::to_string(run->spec.generation + 1) : "0";
    table.rows.push_back({row.ns, row.name, row.kind, row.phase, run != nullptr ? WorkersText(*run) : "", starts,
                          run != nullptr ? run->metadata.name : "", run != nullptr ? FirstStepText(*run) : "",
                          row.created ? FormatAge(now - *row.created) : ""});
  }
  HideNamespace(table, column);
  return table;
}

Json JobList(const std::vector<TrainingJob>& jobs, const std::vector<TrainingRun>& runs) {
  std::vector<TrainingRun> sorted = runs;
  SortNewestFirst(sorted);
  Json list = Json::array();
  for (const JobRow& row : JobRows(jobs, sorted)) {
    Json item = {{"namespace", row.ns}, {"name", row.name}, {"kind", row.kind}, {"phase", row.phase}};
    if (row.latest_run != nullptr) {
      const TrainingRun& run = *row.latest_run;
      item["latestRun"] = run.metadata.name;
      item["generation"] = run.spec.generation;
      if (run.spec.workers) item["workers"] = *run.spec.workers;
      if (run.status.first_step_at && run.status.queued_at) {
        item["firstStepSeconds"] = ToSeconds(*run.status.first_step_at - *run.status.queued_at);
      }
    }
    list.push_back(std::move(item));
  }
  return list;
}

Result<TrainingRun> FindRun(const std::vector<TrainingRun>& runs, std::string_view name) {
  std::vector<TrainingRun> of_job;
  std::set<std::string> known;
  for (const TrainingRun& run : runs) {
    if (run.metadata.name == name) return run;
    if (run.spec.job.name == name) of_job.push_back(run);
    known.insert(run.spec.job.name);
  }
  if (!of_job.empty()) {
    SortNewestFirst(of_job);
    return of_job.front();
  }
  std::string hint = known.empty()
                         ? "there are no runs in this namespace; is the job annotated with paceline.dev/enabled, "
                           "and the namespace (-n) right?"
                         : fmt::format("jobs with runs here: {}", fmt::join(known, ", "));
  return NotFoundError(fmt::format("no run and no job called \"{}\": {}", name, hint));
}

}  // namespace paceline::cli
