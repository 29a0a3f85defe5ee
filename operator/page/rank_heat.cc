#include "operator/page/rank_heat.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <stop_token>
#include <utility>

#include "operator/straggler/run_policy.h"
#include "operator/straggler/slowdown_reconciler.h"
#include "operator/training_run/run_status.h"

namespace paceline::operator_ {
namespace {

constexpr Duration kRemembered = std::chrono::minutes(15);  // by the agents
constexpr Duration kHeatPullTimeout = std::chrono::seconds(5);

// Places in `ranks`, in their order: all, or those that cost most.
std::vector<size_t> ShownPlaces(const std::vector<analysis::RankPace>& ranks, const analysis::Slowdown& slowdown,
                                size_t max_ranks) {
  std::vector<size_t> places;
  if (ranks.size() <= max_ranks || !slowdown.slowdown) {
    for (size_t i = 0; i < std::min(ranks.size(), max_ranks); ++i) places.push_back(i);
    return places;
  }
  std::map<int32_t, size_t> place_of;
  for (size_t i = 0; i < ranks.size(); ++i) place_of[ranks[i].world_rank] = i;
  for (const analysis::WorkerSlowdown& worker : slowdown.workers) {
    if (places.size() == max_ranks) break;
    places.push_back(place_of.at(worker.world_rank));
  }
  std::sort(places.begin(), places.end());
  return places;
}

double MedianShare(const analysis::ShareWindow& window) {
  std::vector<double> shares;
  for (const auto& rank : window.ranks) {
    if (rank) shares.push_back(rank->share);
  }
  return analysis::LowerMedian(std::move(shares));
}

Json WindowJson(const analysis::ShareWindow& window, const std::vector<size_t>& places) {
  Json out = {{"at", FormatRfc3339(window.start)}};
  if (!window.is_known) {
    out["whyNot"] = window.why_not;
    return out;
  }
  const double median = MedianShare(window);
  Json lost = Json::array();
  for (const size_t place : places) {
    const std::optional<analysis::RankShare>& rank = window.ranks[place];
    if (!rank) {
      lost.push_back(nullptr);
      continue;
    }
    const double excess = std::clamp(rank->share - median, 0.0, analysis::kLargestExcess);
    lost.push_back(static_cast<int64_t>(std::lround((1 / (1 - excess) - 1) * 1000)));
  }
  out["lost"] = std::move(lost);
  return out;
}

Json SlowRanks(const analysis::Slowdown& slowdown) {
  Json slow = Json::array();
  for (const analysis::WorkerSlowdown& worker : ToldWorkers(slowdown)) {
    slow.push_back({{"rank", worker.world_rank},
                    {"node", worker.node},
                    {"slowdown", worker.slowdown},
                    {"lateSeconds", worker.late_seconds}});
  }
  return slow;
}

}  // namespace

Json RankHeat(const RunPaces& paces, WallTime now, const analysis::SlowdownOptions& options, size_t max_ranks) {
  if (paces.ranks.empty()) return {{"traced", false}};
  const analysis::Slowdown slowdown = analysis::SlowdownOf(
      paces.ranks, analysis::SharesOf(paces.ranks, paces.expected_ranks, now, {}, options), options);
  analysis::SlowdownOptions longer = options;
  longer.window = std::max(options.window, analysis::kPaceWindow);
  longer.windows = static_cast<int>(std::clamp<int64_t>(kRemembered / longer.window, 1, kMaxHeatWindows));
  const analysis::ShareTable shares = analysis::SharesOf(paces.ranks, paces.expected_ranks, now, {}, longer);
  const std::vector<size_t> places = ShownPlaces(paces.ranks, slowdown, max_ranks);

  Json ranks = Json::array(), node_of = Json::array(), nodes = Json::array();
  std::map<std::string, size_t> numbers;
  for (const size_t place : places) {
    const analysis::RankPace& rank = paces.ranks[place];
    const auto [number, is_new] = numbers.try_emplace(rank.node, numbers.size());
    if (is_new) nodes.push_back(rank.node);
    ranks.push_back(rank.world_rank);
    node_of.push_back(number->second);
  }
  Json windows = Json::array();
  for (const analysis::ShareWindow& window : shares.windows) {
    if (windows.empty() && !window.is_known) continue;  // from before the run, or its warm-up
    windows.push_back(WindowJson(window, places));
  }
  Json heat = {{"traced", true},
               {"windowSeconds", ToSeconds(longer.window)},
               {"ranks", std::move(ranks)},
               {"omitted", paces.ranks.size() - places.size()},
               {"nodes", std::move(nodes)},
               {"nodeOf", std::move(node_of)},
               {"windows", std::move(windows)},
               {"slow", SlowRanks(slowdown)}};
  if (slowdown.slowdown) {
    heat["slowdown"] = *slowdown.slowdown;
    heat["error"] = slowdown.error.value_or(0);
  } else {
    heat["whyNot"] = slowdown.why_not;
  }
  return heat;
}

RunPaces RankHeatSource::Pull(const kube::ObjectKey& key, const api::TrainingRun& run, Deadline deadline) const {
  RunPaces paces;
  std::set<std::string> names(run.status.nodes.begin(), run.status.nodes.end());
  int64_t processes = 0;
  for (const auto& [node, report] : env_.reports.TracesOf(key)) {
    names.insert(node);
    processes += report.processes;
  }
  if (processes == 0) return paces;
  std::vector<PaceQuestion> questions;
  for (const std::string& name : names) questions.push_back({{name, env_.reports.AddressOf(name)}, {}});
  const Deadline limit = Deadline::After(env_.clock, kHeatPullTimeout).Min(deadline);
  // Through a store of its own, which knows whose word counts for a rank that has moved.
  PaceStore store;
  const int64_t expected = std::max(processes, run.spec.world_size.value_or(0));
  store.Merge(key, env_.traces.PacesOf(key, questions, limit, std::stop_token()).ranks, static_cast<size_t>(expected));
  return *store.Get(key);
}

std::string RankHeatSource::Make(const kube::ObjectKey& key, Deadline deadline) const {
  const std::optional<api::TrainingRun> run = FindTrainingRun(env_.runs, key);
  if (!run || IsOver(run->status)) return DumpJson(RankHeat({}, env_.clock.WallNow(), {}));
  const std::optional<api::StragglerPolicy> policy =
      FindPolicy(env_.policies, PolicyNameOf(env_.catalog, *run).value_or(""));
  const analysis::SlowdownOptions options = OptionsOf(policy ? policy->spec.detection : api::Detection{}).windows;
  const std::shared_ptr<const RunPaces> known = env_.paces.Get(key);
  const RunPaces pulled = known == nullptr ? Pull(key, *run, deadline) : RunPaces();
  return DumpJson(RankHeat(known == nullptr ? pulled : *known, env_.clock.WallNow(), options));
}

std::string RankHeatSource::Heat(const kube::ObjectKey& run, Deadline deadline) {
  {
    MutexLock lock(mutex_);
    const TimePoint now = env_.clock.Now();
    std::erase_if(kept_, [&](const auto& entry) { return entry.second.until <= now; });
    const auto found = kept_.find(run);
    if (found != kept_.end()) return found->second.text;
  }
  // Two that ask at once ask twice: rarely, and neither waits behind the other's slow agents.
  std::string text = Make(run, deadline);
  MutexLock lock(mutex_);
  kept_[run] = {text, env_.clock.Now() + keep_};
  return text;
}

}  // namespace paceline::operator_
