// What can go wrong in a traced job, or only looks as if it did: the rows of bench/faults.
#pragma once

#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "analysis/trace_model.h"
#include "tests/collectives/job.h"

namespace paceline::bench {

// One job: what its workers are told, and what happens to it from outside once it runs.
struct Plan {
  std::string schedule;
  bool has_second_comm = false;
  std::map<uint32_t, std::vector<std::string>> of_rank;
  bool has_slow_link = false;
  std::function<void(collectives::Job&)> strike;  // null: nothing, or by of_rank
  std::vector<int32_t> culprits;                  // sorted; empty: nobody in particular
};

struct Scenario {
  std::string name;
  std::vector<analysis::Category> categories;  // any of these is right; empty: a healthy run, where none is
  Duration limit;                              // for a fault to be told; for a healthy run how long it is watched
  std::function<Plan(std::mt19937& random)> plan;
};

inline constexpr uint32_t kRanks = 4;

std::vector<Scenario> Faults();
std::vector<Scenario> HealthyRuns();

}  // namespace paceline::bench
