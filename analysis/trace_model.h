// What the analysis knows of a training run at one moment: the tables of its processes, as agents give them
// (docs/formats/trace-tables.md), and what it says of them.
//
// Own plain types, so that an incident can be replayed from a file and tests write what they mean; knows neither rings
// nor agents. Durations are lengths up to the moment of the look, so no clocks of two machines are ever compared.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/clock.h"

namespace paceline::analysis {

enum class ProcessState {
  kUnknown,  // nobody could say
  kRunning,
  kStopped,   // by a signal or a debugger
  kDead,      // ended without closing its ring
  kFinished,  // ended, or closed its communicators, as planned
};

enum class CallKind { kOther, kColl, kP2p, kCollApi, kP2pApi, kGroupApi, kKernelLaunch, kCeColl };

// "Running", "Stopped", ... as in the tables.
const char* ProcessStateName(ProcessState state);

// A communicator as one of its ranks sees it.
struct CommView {
  uint64_t id = 0;  // equal on all ranks; 0: not known yet
  std::string name;
  int32_t rank = 0;
  int32_t ranks = 0;
  int32_t nodes = 0;
  bool is_open = true;
  uint64_t operations = 0;  // collectives, sends and receives launched so far
};

// Something the application asked NCCL for.
struct CallView {
  CallKind kind = CallKind::kOther;
  int32_t comm = -1;  // place in the process's communicators
  uint64_t index = 0;
  uint64_t sequence = 0;
  std::string func, datatype, algo, proto;
  uint64_t count = 0;
  int32_t peer = -1;          // of sends and receives; the root of others
  bool is_open = false;       // the call has not come back
  uint32_t open_proxies = 0;  // network operations of it that go on
  uint32_t proxies = 0;       // that have begun
  Duration age{};             // since its start
  Duration still{};           // since its last change
};

// A network operation of one channel, as in docs/formats/trace-ring.md.
struct ProxyView {
  int32_t comm = -1;
  int32_t call = -1;  // place in the process's calls, -1: not there any more
  int32_t channel = 0;
  bool is_send = false;
  int32_t rank = 0, peer = 0;  // in the communicator
  uint64_t steps = 0, started = 0, posted = 0, ready = 0, moved = 0, done = 0;
  uint64_t bytes = 0;
  Duration age{};
  Duration still{};
};

// How the proxy thread got its processor time over the last seconds. Shares of time, 0 to 1.
struct ProxyThreadView {
  double running = 0;
  double waiting = 0;    // ready to run, on no processor
  double throttled = 0;  // of its cgroup
};

struct ProcessView {
  std::string node, host, run;
  int32_t world_rank = -1;
  int64_t pid = 0;
  ProcessState state = ProcessState::kUnknown;
  std::optional<Duration> ended_for;  // since it was seen to have ended
  uint32_t abi = 0;
  bool has_steps = true;  // false: step events were switched off
  uint64_t drops = 0;
  std::optional<ProxyThreadView> proxy_thread;
  std::optional<double> io_bytes_per_second;  // that it reads and writes by system calls
  std::vector<CommView> comms;
  std::vector<CallView> calls;
  std::vector<ProxyView> proxies;
};

// What the ranks of one node sent to one rank lately.
struct LinkView {
  uint64_t comm = 0;
  int32_t from = 0, to = 0;  // ranks of the communicator
  uint64_t operations = 0;
  uint64_t bytes = 0;
  double bytes_per_second = 0;  // while steps were with the network
};

// What is wrong with a device of a node, or was lately. What is well is not told.
struct DeviceFault {
  std::string node;
  std::string device;  // "GPU 3", "eth0", "mlx5_0 port 1"
  std::string fault;   // "receive errors"
  double value = 0;    // how much of it
  std::string unit;    // "in the last minute"
  friend bool operator==(const DeviceFault&, const DeviceFault&) = default;
};

struct Tables {
  std::vector<ProcessView> processes;
  std::vector<LinkView> links;
  std::vector<DeviceFault> device_faults;
  std::vector<std::string> missing;  // agents that gave no answer, and why
};

// The same classes as an Incident has, and kNone: nothing is wrong.
enum class Category {
  kNone,
  kUnknown,
  kProcessLost,
  kMismatch,
  kNotLaunched,
  kHostStuck,
  kGpuStuck,
  kCompute,
  kReceiverNotReady,
  kNetwork,
  kIntraNodeLink,
  kProxyStarved,
  kDeadlock,
};

// "NotLaunched", "Network", ... as in the Incident.
const char* CategoryName(Category category);

struct Culprit {
  int32_t world_rank = -1;
  std::string node, host;
  friend bool operator==(const Culprit&, const Culprit&) = default;
};

struct VerdictEdge {
  int32_t from = -1, to = -1;  // world ranks
  int32_t channel = 0;         // -1: all are alike
};

struct Evidence {
  std::string name;
  double value = 0;
  std::string unit;
  std::optional<double> usual;
};

struct Verdict {
  Category category = Category::kUnknown;
  std::string cause;  // one sentence
  std::vector<Culprit> culprits;
  std::string communicator;
  std::optional<VerdictEdge> edge;
  double confidence = 0;  // 0 to 1
  std::vector<Evidence> evidence;
  std::vector<std::string> not_visible;
  std::vector<std::string> path;  // communicators that the walk went through
};

}  // namespace paceline::analysis
