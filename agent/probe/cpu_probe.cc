#include "agent/probe/cpu_probe.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>

#include <atomic>
#include <latch>
#include <thread>

namespace paceline::agent {
namespace {

constexpr int kRoundsOfBurst = 20'000;  // some 50 us
constexpr double kOperationsOfRound = 16;
// Below this share of a processor the figure says that the thread did not get more.
constexpr double kWholeProcessor = 0.95;

// Results go here, so that the compiler leaves the work in.
std::atomic<uint64_t> g_sink{0};

// Four chains that do not wait for each other, half integer and half floating point, 16 operations in all.
double Burst(uint64_t& state) {
  uint64_t a = state, b = state ^ 0x9e3779b97f4a7c15;
  double x = static_cast<double>(a & 0xffff), y = static_cast<double>(b & 0xffff);
  for (int i = 0; i < kRoundsOfBurst; ++i) {
    a = a * 6364136223846793005 + 1442695040888963407;
    b ^= b << 13;
    b ^= b >> 7;
    b ^= b << 17;
    x = x * 0.999999 + 1.5;
    y = y * 0.999998 + 2.5;
    x += y * 1e-9;
    y -= x * 1e-9;
  }
  state = a ^ b ^ static_cast<uint64_t>(x + y);
  g_sink.fetch_xor(state, std::memory_order_relaxed);  // guards nothing
  return kRoundsOfBurst * kOperationsOfRound / 1e6;
}

double ThreadSeconds() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::string ShareText(double share) {
  return share < kWholeProcessor ? fmt::format("had a processor for {:.0f} % of the time", share * 100) : "";
}

struct ThreadRate {
  double rate = 0;
  double share = 0;  // of the time that it had a processor
};

ThreadRate RateOfThread(Duration length, uint64_t seed, const Clock& clock) {
  uint64_t state = seed;
  const TimePoint start = clock.Now();
  const double began = ThreadSeconds();
  ThreadRate rate;
  rate.rate = RatePerSecond(clock, length, [&] { return Burst(state); });
  rate.share = (ThreadSeconds() - began) / std::max(ToSeconds(clock.Now() - start), 1e-9);
  return rate;
}

}  // namespace

int UsableProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0)
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return std::max(1, CPU_COUNT(&set));
}

Measurement MeasureCpu(const CpuProbeOptions& options, const Clock& clock) {
  Measurement out;
  std::vector<double> rates, shares;
  for (int i = 0; i < options.slices; ++i) {
    const ThreadRate rate = RateOfThread(options.slice, static_cast<uint64_t>(i) + 1, clock);
    rates.push_back(rate.rate);
    shares.push_back(rate.share);
  }
  out.figures.push_back(FigureOf("cpuOneThread", MiddleOf(rates), clock, ShareText(MiddleOf(shares))));

  const int count = options.threads > 0 ? options.threads : UsableProcessors();
  std::vector<ThreadRate> all(static_cast<size_t>(count));
  {
    std::latch ready(count);
    std::vector<std::jthread> threads;
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        ready.arrive_and_wait();
        all[static_cast<size_t>(i)] = RateOfThread(options.slice * 2, static_cast<uint64_t>(i) + 7, clock);
      });
    }
  }
  double sum = 0, share = 0;
  for (const ThreadRate& rate : all) {
    sum += rate.rate;
    share += rate.share / count;
  }
  std::string detail = fmt::format("{} threads", count);
  if (const std::string text = ShareText(share); !text.empty()) detail += ", each " + text;
  out.figures.push_back(FigureOf("cpuAllThreads", sum, clock, detail));
  return out;
}

}  // namespace paceline::agent
