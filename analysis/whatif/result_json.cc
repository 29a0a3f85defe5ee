#include "analysis/whatif/result_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

namespace paceline::analysis {
namespace {

using Json = nlohmann::ordered_json;

std::vector<size_t> Descending(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] > values[b]; });
  return order;
}

Json Sorted(const std::vector<std::string>& names, const std::vector<double>& values) {
  Json object = Json::object();
  for (const size_t i : Descending(values)) object[names[i]] = values[i];
  return object;
}

class Writer {
 public:
  explicit Writer(const WhatIfResult& result) : result_(result) {
    for (const int64_t step : result.steps) step_names_.push_back(std::to_string(step));
    for (size_t i = 0; i < result.steps.size(); i++) {
      step_slowdown_.push_back(result.simulated[i] / result.ideal);
      launch_step_slowdown_.push_back(result.measured[i] / result.simulated[i]);
    }
  }

  Json Write(const std::vector<CauseHint>& hints, const std::vector<Scenario>& scenarios) const {
    Json json;
    json["job_meta"] = Shape();
    json["step_t_base"] = PerStep(result_.measured);
    json["step_t_nodelay"] = PerStep(result_.simulated);
    json["step_t_noblk"] = PerStep(std::vector<double>(result_.steps.size(), result_.ideal));
    json["launch_slowdown"] = result_.launch_slowdown;
    json["blocking_slowdown"] = result_.slowdown;
    json["blocking_step_slowdown"] = Sorted(step_names_, step_slowdown_);
    json["launch_step_slowdown"] = Sorted(step_names_, launch_step_slowdown_);
    Add(json, "blocking_decompose_by_dp_rank", result_.by_dp_rank);
    Add(json, "launch_decompose_by_dp_rank", result_.launch_by_dp_rank);
    Add(json, "blocking_decompose_by_stage", result_.by_stage);
    Add(json, "launch_decompose_by_stage", result_.launch_by_stage);
    Add(json, "blocking_decompose_by_optype", result_.by_type);
    Add(json, "launch_decompose_by_optype", result_.launch_by_type);
    AddPerStep(json, "blocking_decompose_by_dp_rank_per_step", result_.by_dp_rank, step_slowdown_);
    AddPerStep(json, "launch_decompose_by_dp_rank_per_step", result_.launch_by_dp_rank, launch_step_slowdown_);
    AddPerStep(json, "blocking_decompose_by_stage_per_step", result_.by_stage, step_slowdown_);
    AddPerStep(json, "launch_decompose_by_stage_per_step", result_.launch_by_stage, launch_step_slowdown_);
    AddPerStep(json, "blocking_decompose_by_optype_per_step", result_.by_type, step_slowdown_);
    AddPerStep(json, "launch_decompose_by_optype_per_step", result_.launch_by_type, launch_step_slowdown_);
    json["ms"] = Share(result_.by_last_stage, "Ms");
    json["mw"] = Share(result_.by_slowest_workers, "Mw");
    json["paceline"] = Ours(hints);
    json["paceline"]["scenarios"] = Played(scenarios);
    return json;
  }

 private:
  Json Shape() const {
    const JobShape& shape = result_.shape;
    return {{"trial_name", shape.trial_name}, {"run_id", shape.run_id},        {"dp_size", shape.dp_size},
            {"pp_size", shape.pp_size},       {"tp_size", shape.tp_size},      {"dsp_size", shape.dsp_size},
            {"vpp_size", shape.vpp_size},     {"world_size", shape.world_size}};
  }

  Json PerStep(const std::vector<double>& values) const {
    Json object = Json::object();
    for (size_t i = 0; i < values.size(); i++) object[step_names_[i]] = values[i];
    return object;
  }

  void Add(Json& json, const char* name, const std::optional<Decomposition>& parts) const {
    json[name] = parts ? Sorted(parts->parts, parts->ratio) : Json(nullptr);
  }

  // Steps in the order of their own slowdown.
  void AddPerStep(Json& json, const char* name, const std::optional<Decomposition>& parts,
                  const std::vector<double>& slowdown) const {
    json[name] = nullptr;
    if (!parts) return;
    Json steps = Json::object();
    for (const size_t i : Descending(slowdown)) steps[step_names_[i]] = Sorted(parts->parts, parts->per_step[i]);
    json[name] = std::move(steps);
  }

  Json Share(const std::optional<Attribution>& share, const char* name) const {
    if (!share) return nullptr;
    const double simulated = std::accumulate(result_.simulated.begin(), result_.simulated.end(), 0.0) /
                             static_cast<double>(result_.simulated.size());
    return {{"trem", share->removed_seconds},
            {"tadd", share->added_seconds},
            {"tori", simulated},
            {"tideal", result_.ideal},
            {"rem", share->removed},
            {"add", share->added},
            {name, share->removed}};
  }

  Json Ours(const std::vector<CauseHint>& hints) const {
    Json ours;
    ours["waste"] = result_.waste();
    ours["steps_left_out"] = result_.left_out_steps;
    ours["worker_slowdown"] = result_.worker_slowdown.empty() ? Json(nullptr) : Json(result_.worker_slowdown);
    Json workers = Json::array();
    for (const auto& [dp_rank, stage] : result_.slowest_workers)
      workers.push_back({{"dp_rank", dp_rank}, {"stage", stage}});
    ours["slowest_workers"] = std::move(workers);
    Json list = Json::array();
    for (const CauseHint& hint : hints) {
      list.push_back(
          {{"cause", hint.cause}, {"value", hint.value}, {"threshold", hint.threshold}, {"text", hint.text}});
    }
    ours["hints"] = std::move(list);
    return ours;
  }

  Json Played(const std::vector<Scenario>& scenarios) const {
    Json list = Json::array();
    for (const Scenario& scenario : scenarios) {
      list.push_back({{"kind", scenario.kind},
                      {"text", scenario.text},
                      {"mean_step", scenario.mean_seconds},
                      {"speedup", scenario.speedup},
                      {"slowdown", scenario.slowdown},
                      {"step_t", PerStep(scenario.seconds)}});
    }
    return list;
  }

  const WhatIfResult& result_;
  std::vector<std::string> step_names_;
  std::vector<double> step_slowdown_;
  std::vector<double> launch_step_slowdown_;
};

}  // namespace

nlohmann::ordered_json WhatIfJson(const WhatIfResult& result, const std::vector<CauseHint>& hints,
                                  const std::vector<Scenario>& scenarios) {
  return Writer(result).Write(hints, scenarios);
}

}  // namespace paceline::analysis
