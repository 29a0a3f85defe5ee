#include "bench/faults/scenarios.h"

#include <fmt/format.h>

#include <csignal>

namespace paceline::bench {
namespace {

using analysis::Category;
using std::chrono::seconds;

// What both triggers and the operator's patience may take, and the time to get to the fault.
constexpr Duration kStallLimit = seconds(30);
constexpr Duration kSlowLimit = seconds(90);
constexpr Duration kHealthyTime = seconds(20);

int Between(std::mt19937& random, int least, int most) {
  return std::uniform_int_distribution<int>(least, most)(random);
}

// Data-parallel training: some work, one reduction, the optimizer waits for it.
std::string Training(std::mt19937& random) {
  return fmt::format("compute:{};allreduce:dp:{};sync", Between(random, 1000, 8000), Between(random, 5000, 40000));
}

std::function<Plan(std::mt19937&)> WithOption(const std::string& option) {
  return [option](std::mt19937& random) {
    Plan plan;
    plan.schedule = Training(random);
    const int rank = Between(random, 0, kRanks - 1), at = Between(random, 20, 200);
    plan.of_rank[static_cast<uint32_t>(rank)] = {fmt::format("{}={}", option, at)};
    // Connections carry the data of one collective after another: it hangs only when there is none.
    if (option == "mismatch-at") plan.of_rank[static_cast<uint32_t>(rank)].push_back(fmt::format("hang-at={}", at + 1));
    plan.culprits = {rank};
    return plan;
  };
}

std::function<Plan(std::mt19937&)> WithSignal(int signal) {
  return [signal](std::mt19937& random) {
    Plan plan;
    plan.schedule = Training(random);
    const int rank = Between(random, 0, kRanks - 1);
    plan.strike = [rank, signal](collectives::Job& job) { job.Signal(static_cast<uint32_t>(rank), signal); };
    plan.culprits = {rank};
    return plan;
  };
}

std::function<Plan(std::mt19937&)> WithLinkRate(uint64_t rate) {
  return [rate](std::mt19937& random) {
    Plan plan;
    plan.schedule = Training(random);
    plan.has_slow_link = true;
    plan.strike = [rate](collectives::Job& job) { job.link().SetRate(rate); };
    plan.culprits = {1, 2};
    return plan;
  };
}

Plan Deadlock(std::mt19937& random) {
  Plan plan;
  plan.schedule = "allreduce:dp:50000;allreduce:x:50000;sync";
  plan.has_second_comm = true;
  const auto rank = static_cast<uint32_t>(Between(random, 0, kRanks - 1));
  plan.of_rank[rank] = {fmt::format("swap-at={}", 2 * Between(random, 10, 100))};  // the first of the two
  return plan;
}

// All ranks stop for longer than a stall takes, as for an evaluation.
Plan Evaluation(std::mt19937& random) {
  Plan plan;
  plan.schedule = fmt::format("compute:{};allreduce:dp:20000;sync", Between(random, 3'000'000, 9'000'000));
  return plan;
}

// One rank stands for a moment, and the others wait for it.
Plan ShortPause(std::mt19937& random) {
  Plan plan;
  plan.schedule = Training(random);
  const auto rank = static_cast<uint32_t>(Between(random, 0, kRanks - 1));
  const auto pause = std::chrono::milliseconds(Between(random, 200, 2000));
  plan.strike = [rank, pause](collectives::Job& job) {
    job.Signal(rank, SIGSTOP);
    RealClock().SleepFor(pause, {});
    job.Signal(rank, SIGCONT);
  };
  return plan;
}

// Every rank has its own work, within 5 %.
Plan Uneven(std::mt19937& random) {
  Plan plan;
  plan.schedule = "compute:40000;allreduce:dp:20000;reducescatter:dp:5000;allgather:dp:5000;sync";
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    plan.of_rank[rank] = {fmt::format("extra-compute-us={}", Between(random, 0, 2000))};
  }
  return plan;
}

}  // namespace

std::vector<Scenario> Faults() {
  return {{"a rank is stopped", {Category::kHostStuck}, kStallLimit, WithSignal(SIGSTOP)},
          {"a rank is killed", {Category::kProcessLost}, kStallLimit, WithSignal(SIGKILL)},
          {"a rank never launches", {Category::kNotLaunched}, kSlowLimit, WithOption("hang-at")},
          {"a rank stays inside the call", {Category::kHostStuck}, kSlowLimit, WithOption("hang-in-call-at")},
          {"a kernel never begins", {Category::kGpuStuck}, kSlowLimit, WithOption("kernel-stuck-at")},
          {"a rank asks for another count", {Category::kMismatch}, kSlowLimit, WithOption("mismatch-at")},
          {"a link carries nothing", {Category::kNetwork}, kStallLimit, WithLinkRate(0)},
          {"two communicators, swapped", {Category::kDeadlock}, kSlowLimit, Deadlock},
          {"a link at 200 kB/s", {Category::kNetwork}, kSlowLimit, WithLinkRate(200'000)}};
}

std::vector<Scenario> HealthyRuns() {
  return {{"plain steps", {}, kHealthyTime, [](std::mt19937& random) { return Plan{.schedule = Training(random)}; }},
          {"uneven within 5 %", {}, kHealthyTime, Uneven},
          {"pauses of 3 to 9 s", {}, kHealthyTime, Evaluation},
          {"a rank pauses for up to 2 s", {}, kHealthyTime, ShortPause}};
}

}  // namespace paceline::bench
