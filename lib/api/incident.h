// Incident: a stall or a straggler that Paceline looked into: trigger, verdict, evidence, what it could not see, what
// was done. Written by the operator, kept for people. Plain values; codec.h turns them to and from JSON and checks
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/api/meta.h"
#include "lib/api/training_run.h"

namespace paceline::api {

enum class TriggerKind { kStall, kSlowdown, kProcessLost };

struct IncidentTrigger {
  TriggerKind kind = TriggerKind::kStall;
  std::string node;  // whose agent raised it
  std::optional<WallTime> at;
  std::string detail;
};

struct IncidentSpec {
  JobReference job;
  std::string run;  // name of the TrainingRun, in the same namespace
  IncidentTrigger trigger;
};

// The class of the cause; kUnknown is an honest verdict. docs/api.md says what each looks like.
enum class VerdictCategory {
  kUnknown,
  kProcessLost,  // dead, out of memory, evicted
  kMismatch,     // ranks called different collectives
  kNotLaunched,  // a rank never entered the collective
  kHostStuck,    // a rank is inside the NCCL call on the CPU
  kGpuStuck,     // data arrived, the kernel does not go on
  kCompute,      // late because its own work takes longer
  kReceiverNotReady,
  kNetwork,        // one link, NIC or path is slow or down
  kIntraNodeLink,  // NVLink or PCIe
  kProxyStarved,   // the communication thread gets no CPU
  kDeadlock,       // communicators wait for each other in a circle
};

struct Edge {
  int64_t from_rank = 0;
  int64_t to_rank = 0;
  std::optional<int64_t> channel;
};

struct Verdict {
  VerdictCategory category = VerdictCategory::kUnknown;
  std::string cause;  // one sentence
  std::vector<int64_t> ranks;
  std::vector<std::string> pods;
  std::vector<std::string> nodes;
  std::string communicator;
  std::optional<Edge> edge;
  double confidence = 0;  // 0 to 1
};

struct EvidenceNumber {
  std::string name;
  double value = 0;
  std::string unit;
  std::optional<double> usual;  // what it is when all is well
};

struct IncidentAction {
  std::string action;  // Event, Taint, Cordon, Uncordon, RestartJob
  std::string node;
  std::optional<WallTime> at;
  std::string result;
};

enum class IncidentState { kOpen, kResolved };

struct IncidentStatus {
  std::optional<IncidentState> state;
  std::optional<Verdict> verdict;
  std::vector<EvidenceNumber> evidence;
  std::vector<std::string> not_visible;
  std::vector<IncidentAction> actions;
  std::optional<WallTime> resolved_at;
  std::vector<Condition> conditions;
};

struct Incident {
  ObjectMeta metadata;
  IncidentSpec spec;
  IncidentStatus status;
};

}  // namespace paceline::api
