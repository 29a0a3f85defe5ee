// Works off the steps of a trace on some threads: steps do not depend on each other. Called by the analysis and the
// scenarios.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace paceline::analysis {

// Calls `make_worker()` once on each of at most `threads` threads, and what it returns with each position in [0,
// steps). Blocks until all are done.
template <typename MakeWorker>
void ForEachStep(size_t steps, int threads, const MakeWorker& make_worker) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    auto worker = make_worker();
    for (size_t step = next++; step < steps; step = next++) worker(step);
  };
  const size_t wanted = std::min(static_cast<size_t>(std::max(threads, 1)), std::max<size_t>(steps, 1));
  std::vector<std::jthread> pool;
  for (size_t i = 1; i < wanted; i++) pool.emplace_back(work);
  work();
}

}  // namespace paceline::analysis
