// What one callback of NCCL costs: an empty plugin, one that writes a single stamped record, and ours, by turns in one
// process; with 1 to 4 threads, with and without a reader every 100 ms. Report on stdout.
#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "lib/ring/reader.h"
#include "lib/ring/writer.h"
#include "tests/tracer/nccl_driver.h"

namespace paceline::tracer {
namespace {

constexpr int kSteps = 2000;  // of one operation
constexpr int kRounds = 60;   // operations per measurement
constexpr int kRepeats = 25;  // measurements, of which the median counts

double NowNs() { return static_cast<double>(RingNowSlow()); }

// User-space instructions of the calling thread; -1 where the kernel does not let us.
class Instructions {
 public:
  Instructions() {
    perf_event_attr attributes{};
    attributes.type = PERF_TYPE_HARDWARE;
    attributes.size = sizeof attributes;
    attributes.config = PERF_COUNT_HW_INSTRUCTIONS;
    attributes.exclude_kernel = 1;
    attributes.exclude_hv = 1;
    fd_ = static_cast<int>(::syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0));
  }
  ~Instructions() {
    if (fd_ >= 0) ::close(fd_);
  }
  double Read() const {
    uint64_t count = 0;
    return fd_ >= 0 && ::read(fd_, &count, sizeof count) == sizeof count ? static_cast<double>(count) : -1;
  }

 private:
  int fd_;
};

// The floors, as tables of a plugin. Noinline through the pointers, as NCCL calls them.
int EmptyStart(void*, void** handle, void*) {
  *handle = handle;
  return 0;
}
int EmptyStop(void*) { return 0; }
int EmptyRecord(void*, int, void*) { return 0; }

struct alignas(64) FloorRecord {
  uint64_t time, handle, state, rest[5];
};
struct Floor {
  FloorRecord records[8192];
  uint64_t head;
};
thread_local Floor* t_floor = new Floor();

int FloorWrite(void* handle, uint64_t state) {
  Floor* floor = t_floor;
  FloorRecord& record = floor->records[floor->head % 8192];
#if defined(__x86_64__)
  record.time = __builtin_ia32_rdtsc();
#else
  record.time = RingNowSlow();
#endif
  record.handle = reinterpret_cast<uint64_t>(handle);
  record.state = state;
  for (uint64_t& word : record.rest) word = state;
  __atomic_store_n(&floor->head, floor->head + 1, __ATOMIC_RELEASE);
  return 0;
}
int FloorStart(void* context, void** handle, void*) {
  *handle = handle;
  return FloorWrite(context, 100);
}
int FloorStop(void* handle) { return FloorWrite(handle, 101); }
int FloorRecord(void* handle, int state, void*) { return FloorWrite(handle, static_cast<uint64_t>(state)); }

// The calls alone, without the driver's making of descriptors.
struct Target {
  const char* name;
  ProfilerTable table;
  void* context;
};

struct Cost {
  double ns = 0, instructions = -1;
};

Cost Median(std::vector<Cost> costs) {
  auto middle = costs.begin() + static_cast<std::ptrdiff_t>(costs.size() / 2);
  std::nth_element(costs.begin(), middle, costs.end(), [](const Cost& a, const Cost& b) { return a.ns < b.ns; });
  return *middle;
}

void* StartOperation(const Target& target, bool is_send) {
  DescrProxyOp descr{};
  descr.head.type_word = kEventProxyOp;
  descr.pid = ::getpid();
  descr.peer = 1;
  descr.steps = kSteps;
  descr.is_send = is_send ? 1 : 0;
  unsigned char padded[kDescrBytesV5] = {};
  std::copy_n(reinterpret_cast<unsigned char*>(&descr), sizeof descr, padded);
  void* handle = nullptr;
  target.table.start(target.context, &handle, padded);
  return handle;
}

// Whole steps of a send: start, 8, 20, `repeats` times 20 again, 9, stop.
void SendSteps(const Target& target, void* operation, int repeats) {
  alignas(8) unsigned char descr[kDescrBytesV5] = {};
  auto* step = reinterpret_cast<DescrProxyStep*>(descr);
  step->head.type_word = kEventProxyStep;
  step->head.parent = operation;
  StateArgs args{};
  args.trans_bytes = 1000;
  for (int i = 0; i < kSteps; i++) {
    step->step = i;
    void* handle = nullptr;
    target.table.start(target.context, &handle, descr);
    target.table.record(handle, kStateStepSendGpuWait, &args);
    target.table.record(handle, kStateStepSendPeerWait, &args);
    for (int k = 0; k < repeats; k++) target.table.record(handle, kStateStepSendPeerWait, &args);
    target.table.record(handle, kStateStepSendWait, &args);
    target.table.stop(handle);
  }
}

void Collective(const Target& target) {
  alignas(8) unsigned char descr[kDescrBytesV5] = {};
  auto* coll = reinterpret_cast<DescrCollV4*>(descr);
  coll->head.type_word = kEventColl;
  coll->func = "AllReduce";
  coll->datatype = "ncclFloat32";
  coll->algo = "RING";
  coll->proto = "SIMPLE";
  void* handle = nullptr;
  target.table.start(target.context, &handle, descr);
  target.table.stop(handle);
}

Cost Measure(const std::function<void()>& body, double callbacks) {
  const Instructions instructions;
  const double before = instructions.Read(), began = NowNs();
  body();
  Cost cost;
  cost.ns = (NowNs() - began) / callbacks;
  const double after = instructions.Read();
  if (before >= 0) cost.instructions = (after - before) / callbacks;
  return cost;
}

Cost StepCost(const Target& target, int repeats) {
  return Measure(
      [&] {
        for (int round = 0; round < kRounds; round++) {
          void* operation = StartOperation(target, true);
          SendSteps(target, operation, repeats);
          target.table.stop(operation);
        }
      },
      kRounds * (2.0 + kSteps * (5.0 + repeats)));
}

std::string Show(const Cost& cost) {
  return cost.instructions < 0 ? fmt::format("{:6.1f} ns", cost.ns)
                               : fmt::format("{:6.1f} ns {:5.1f} instr", cost.ns, cost.instructions);
}

// By turns, so that what disturbs one disturbs the others.
void Compare(const char* name, const std::vector<Target>& targets, const std::function<Cost(const Target&)>& measure) {
  std::vector<std::vector<Cost>> costs(targets.size());
  for (int repeat = 0; repeat < kRepeats; repeat++) {
    for (size_t i = 0; i < targets.size(); i++) costs[i].push_back(measure(targets[i]));
  }
  for (size_t i = 0; i < targets.size(); i++) {
    std::vector<double> ns;
    for (const Cost& cost : costs[i]) ns.push_back(cost.ns);
    fmt::print("{:34} {:8} median {}   best {:6.1f} ns\n", name, targets[i].name, Show(Median(costs[i])),
               *std::min_element(ns.begin(), ns.end()));
  }
}

Cost ThreadsCost(const Target& target, int threads) {
  std::vector<Cost> costs(static_cast<size_t>(threads));
  std::vector<std::thread> running;
  for (int i = 0; i < threads; i++) {
    running.emplace_back([&, i] { costs[static_cast<size_t>(i)] = StepCost(target, 0); });
  }
  for (std::thread& thread : running) thread.join();
  return Median(costs);
}

void PushCost(const std::string& folder) {
  RingOptions options;
  RingDefaultOptions(&options, folder.c_str());
  Ring ring{};
  RingWriter writer{};
  if (RingCreate(&ring, &options) != 0 || RingClaimWriter(&ring, static_cast<uint32_t>(::gettid()), &writer) != 0)
    return;
  const char body[116] = {};
  std::vector<Cost> costs;
  for (int repeat = 0; repeat < kRepeats; repeat++) {
    costs.push_back(Measure(
        [&] {
          for (int i = 0; i < 200000; i++) RingPush(&writer, RING_RECORD_CALL, body);
        },
        200000));
  }
  fmt::print("{:34} {:8} median {}\n", "one record of 128 bytes", "lib/ring", Show(Median(costs)));
  RingClose(&ring);
}

int Run() {
  std::string folder = (std::filesystem::temp_directory_path() / "paceline-bench.XXXXXX").string();
  if (std::filesystem::is_directory("/dev/shm")) folder = "/dev/shm/paceline-bench.XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  ::setenv("PACELINE_TRACE_DIR", folder.c_str(), 1);
  ::setenv("PACELINE_TRACE_BUDGET_PERMILLE", "0", 1);
  NcclDriver nccl(5);
  void* context = nccl.Init();
  const std::vector<Target> targets = {{"empty", {"", nullptr, EmptyStart, EmptyStop, EmptyRecord, nullptr}, nullptr},
                                       {"record", {"", nullptr, FloorStart, FloorStop, FloorRecord, nullptr}, nullptr},
                                       {"paceline", nccl.table(), context}};
  fmt::print("per callback; {} steps per measurement, {} measurements by turns\n", kSteps * kRounds, kRepeats);
  Compare("send step", targets, [](const Target& target) { return StepCost(target, 0); });
  Compare("send step, credit polled 100 times", targets, [](const Target& target) { return StepCost(target, 100); });
  Compare("collective, start and stop", targets, [](const Target& target) {
    return Measure(
        [&] {
          for (int i = 0; i < 50000; i++) Collective(target);
        },
        100000);
  });
  Compare("operation, start and stop", targets, [](const Target& target) {
    return Measure(
        [&] {
          for (int i = 0; i < 50000; i++) target.table.stop(StartOperation(target, true));
        },
        100000);
  });
  Compare("send step, 4 threads", targets, [](const Target& target) { return ThreadsCost(target, 4); });
  std::string error, path;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) path = entry.path().string();
  auto reader = ring::RingReader::Open(path, error);
  double look_us = 0;
  int looks = 0;
  std::jthread agent([&](std::stop_token stop) {
    ring::Tables tables;
    ring::Records records;
    while (!stop.stop_requested() && reader != nullptr) {
      const double began = NowNs();
      reader->ReadTables(tables, error);
      reader->ReadRecords(1000000, records, error);
      look_us += (NowNs() - began) / 1000;
      looks++;
      const timespec pause{0, 100000000};
      ::syscall(SYS_clock_nanosleep, 1, 0, &pause, nullptr);
    }
  });
  Compare("send step, reader every 100 ms", targets, [](const Target& target) { return StepCost(target, 0); });
  agent.request_stop();
  agent.join();
  fmt::print("one look of the reader: {:.0f} us\n", looks > 0 ? look_us / looks : 0);
  fmt::print("ring: {:.1f} MiB per process\n", static_cast<double>(std::filesystem::file_size(path)) / 1048576);
  PushCost(folder);
  std::filesystem::remove_all(folder);
  return 0;
}

}  // namespace
}  // namespace paceline::tracer

int main() { return paceline::tracer::Run(); }
