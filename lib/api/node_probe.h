// What a probe of a node is asked for and what it finds: small measurements that the agent takes on a quiet node, kept
// in NodePlan as numbers. How each is measured: docs/formats/node-probe.md. Plain values, shared by agent, operator and
// pacectl; node_plan.h and straggler_policy.h hold them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"

namespace paceline::api {

enum class ProbeCheck { kCpu, kMemory, kDisk, kNetwork, kGpu };

struct ProbePeer {
  std::string node;
  std::string address;  // host:port of the HTTP interface of its agent
};

// Asked for by counting up: the agent probes while the round that it has done is lower. Whoever asks adds 1 to what is
// there; a round that somebody else asked for serves as well.
struct ProbeRequest {
  int64_t round = 0;
  std::vector<ProbeCheck> checks;  // empty: all
  std::vector<ProbePeer> peers;    // to measure the network with; the first that is free is taken
};

// kWaiting: asked for, and something stands in the way.
enum class ProbeState { kWaiting, kRunning, kDone };

struct ProbeFigure {
  std::string name;  // of ProbeMeasures()
  double value = 0;
  std::string unit;
  std::optional<WallTime> at;
  std::string detail;  // for people: which of several devices, which peer
};

// kNotThere: the node has nothing of the kind. kFailed: it could not be measured, which says nothing about its speed.
enum class ProbeGap { kNotThere, kFailed };

struct MissingProbe {
  ProbeCheck check = ProbeCheck::kCpu;
  ProbeGap gap = ProbeGap::kFailed;
  std::string message;
};

struct ProbeStatus {
  ProbeState state = ProbeState::kDone;
  std::string message;  // of kWaiting: what it waits for
  int64_t round = 0;    // the last that is done; all that follows is of it
  std::optional<WallTime> started_at;
  std::optional<WallTime> finished_at;
  int64_t method = 0;  // how it was measured: figures of two methods are not compared
  std::string cpu_model;
  int64_t cpus = 0;
  std::string gpu_model;  // empty: there is none, or it is not known
  std::vector<ProbeFigure> figures;
  std::vector<MissingProbe> missing;
};

// What a figure is. `slack`: how many times the tolerance of a policy it may stay behind its peers' median, for what
// scatters more than others on sound nodes.
struct ProbeMeasure {
  std::string_view name;
  std::string_view unit;
  ProbeCheck check;
  bool is_less_better;
  double slack;
};

inline constexpr ProbeMeasure kProbeMeasures[] = {
    {"cpuOneThread", "Mop/s", ProbeCheck::kCpu, false, 1},
    {"cpuAllThreads", "Mop/s", ProbeCheck::kCpu, false, 1},
    {"memoryTriad", "MB/s", ProbeCheck::kMemory, false, 1},
    {"diskSequentialRead", "MB/s", ProbeCheck::kDisk, false, 3},
    {"diskRandomRead", "reads/s", ProbeCheck::kDisk, false, 3},
    // Where the file system has no direct I/O: not comparable with the two above.
    {"diskSequentialReadCached", "MB/s", ProbeCheck::kDisk, false, 5},
    {"diskRandomReadCached", "reads/s", ProbeCheck::kDisk, false, 5},
    {"networkThroughput", "MB/s", ProbeCheck::kNetwork, false, 2},
    {"networkRoundTrip", "us", ProbeCheck::kNetwork, true, 5},
    {"gpuMultiply", "GFLOP/s", ProbeCheck::kGpu, false, 1},
    {"gpuMemoryCopy", "MB/s", ProbeCheck::kGpu, false, 1},
    {"gpuHostCopy", "MB/s", ProbeCheck::kGpu, false, 2},
    {"gpuPeerCopy", "MB/s", ProbeCheck::kGpu, false, 2},
};

inline constexpr ProbeCheck kAllProbeChecks[] = {ProbeCheck::kCpu, ProbeCheck::kMemory, ProbeCheck::kDisk,
                                                 ProbeCheck::kNetwork, ProbeCheck::kGpu};

inline constexpr size_t kMaxProbePeers = 8;
inline constexpr size_t kMaxProbeFigures = 32;
inline constexpr size_t kMaxProbeMissing = 8;
inline constexpr size_t kMaxProbeMessageBytes = 256;

// How a node that is out stands with its probe. kUnknown: measured, and there is nothing to compare it with, or not
// all could be measured; it never counts for the node nor against it.
enum class ProbeVerdict { kPending, kUnknown, kPassed, kFailed };

// Null for a name that is not known.
const ProbeMeasure* FindProbeMeasure(std::string_view name);

std::string_view ProbeCheckText(ProbeCheck check);  // "Cpu"
// Nothing for what is none; upper and lower case are the same.
std::optional<ProbeCheck> ParseProbeCheck(std::string_view text);
std::string_view ProbeStateText(ProbeState state);
std::string_view ProbeVerdictText(ProbeVerdict verdict);

}  // namespace paceline::api
