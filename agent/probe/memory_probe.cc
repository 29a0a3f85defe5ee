#include "agent/probe/memory_probe.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <latch>
#include <thread>

#include "agent/probe/cpu_probe.h"
#include "lib/base/status.h"

namespace paceline::agent {
namespace {

constexpr int kMostThreads = 8;  // as many as fill the memory channels of most machines

// Zeroed pages, each on the memory of the processor that touches it first.
class Pages {
 public:
  explicit Pages(size_t bytes)
      : bytes_(bytes), data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Pages() {
    if (is_valid()) munmap(data_, bytes_);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  bool is_valid() const { return data_ != MAP_FAILED; }
  double* data() const { return static_cast<double*>(data_); }

 private:
  const size_t bytes_;
  void* const data_;
};

// MB per second of one thread on `count` numbers of each array, which it owns.
double Triad(double* a, double* b, double* c, size_t count, Duration length, std::latch& ready, const Clock& clock) {
  for (size_t i = 0; i < count; ++i) {
    a[i] = 0;
    b[i] = 1;
    c[i] = 2;
  }
  ready.arrive_and_wait();
  double scalar = 3;
  return RatePerSecond(clock, length, [&] {
    for (size_t i = 0; i < count; ++i) a[i] = b[i] + scalar * c[i];
    asm volatile("" : : "r"(a) : "memory");  // the array is looked at, as far as the compiler knows
    scalar += 1;
    return static_cast<double>(count) * 3 * sizeof(double) / 1e6;
  });
}

}  // namespace

Measurement MeasureMemory(const MemoryProbeOptions& options, const Clock& clock) {
  const Pages pages(options.bytes);
  if (!pages.is_valid()) return Missing(api::ProbeCheck::kMemory, api::ProbeGap::kFailed, "no memory for the arrays");
  const int threads = options.threads > 0 ? options.threads : std::min(UsableProcessors(), kMostThreads);
  const size_t count = options.bytes / sizeof(double) / 3;  // of each array
  const size_t part = count / static_cast<size_t>(threads);
  std::vector<double> rates(static_cast<size_t>(threads));
  {
    std::latch ready(threads);
    std::vector<std::jthread> workers;
    for (size_t i = 0; i < rates.size(); ++i) {
      double* const a = pages.data() + i * part;
      workers.emplace_back(
          [&, a, i] { rates[i] = Triad(a, a + count, a + 2 * count, part, options.length, ready, clock); });
    }
  }
  double sum = 0;
  for (const double rate : rates) sum += rate;
  return {{FigureOf("memoryTriad", sum, clock, fmt::format("{} threads", threads))}, std::nullopt};
}

}  // namespace paceline::agent
