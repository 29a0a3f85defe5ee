// What the agent remembers of one run: how long operations usually take, the last that ended, who came late, which link
// is slow; and when to raise a trigger.
//
// Memory is bounded. Fed by the collector under its lock: pure computation, no I/O. Not thread-safe.
#pragma once

#include <deque>
#include <set>
#include <string>
#include <vector>

#include "agent/trace/ring_progress.h"
#include "analysis/lateness.h"
#include "analysis/pace.h"
#include "analysis/usual_duration.h"
#include "lib/base/json.h"

namespace paceline::agent {

enum class TraceTriggerKind { kStall, kSlowdown, kProcessLost };
const char* TraceTriggerName(TraceTriggerKind kind);  // as in the Incident

struct TraceTrigger {
  TraceTriggerKind kind = TraceTriggerKind::kStall;
  std::string run;
  WallTime at;
  int32_t world_rank = -1;  // that shows it, which is rarely the culprit
  std::string detail;
  bool operator==(const TraceTrigger&) const = default;
};

struct RunHistoryOptions {
  analysis::StallOptions stall;
  analysis::PaceOptions pace;
  Duration window = std::chrono::seconds(10);  // of which slowness is judged
  size_t kept_operations = 4096;
  size_t kept_links = 4096;
  size_t kept_triggers = 64;
  size_t kept_ranks = 64;  // whose pace is taken
};

class RunHistory {
 public:
  RunHistory(std::string run, const RunHistoryOptions& options) : run_(std::move(run)), options_(options) {}

  void Add(const std::vector<EndedOperation>& ended, const std::vector<analysis::LinkUse>& links);

  // Judges the run's processes as they are now. Returns the triggers that are new; one is raised once for as long as it
  // holds. To be called after Add, once per sample.
  std::vector<TraceTrigger> Judge(const std::vector<analysis::ProcessView>& processes, TimePoint now, WallTime wall);

  const std::deque<EndedOperation>& operations() const { return operations_; }
  const std::deque<TraceTrigger>& triggers() const { return triggers_; }
  bool HasOpen(TraceTriggerKind kind) const;
  // Those that still hold, as they were raised.
  std::vector<TraceTrigger> OpenTriggers() const;

  // What the ranks here sent lately, by link.
  std::vector<analysis::LinkView> Links() const;

  // Operations that started at or after `since`, links, lateness, usual durations and triggers:
  // docs/formats/trace-tables.md.
  Json Records(WallTime since) const;
  // Windows that began at or after `since`, of each rank whose place in the world is known.
  std::vector<analysis::RankPace> Paces(WallTime since) const;

 private:
  void JudgeProcess(const analysis::ProcessView& process, WallTime wall);
  void JudgeWindow(TimePoint now, WallTime wall);
  void Raise(TraceTriggerKind kind, int32_t world_rank, const std::string& key, std::string detail, WallTime wall);
  Json LatenessJson() const;

  std::string run_;
  RunHistoryOptions options_;
  analysis::UsualDurations usual_;
  std::map<analysis::OperationKey, analysis::DurationCounts> window_;
  TimePoint window_start_{};
  std::deque<EndedOperation> operations_;
  std::deque<analysis::LinkUse> links_;
  std::deque<TraceTrigger> triggers_;
  std::map<int32_t, analysis::PaceMeter> paces_;  // by rank in the world
  using TriggerKey = std::pair<TraceTriggerKind, std::string>;
  std::map<TriggerKey, TraceTrigger> open_;
  std::set<TriggerKey> seen_;  // by the judgement at hand
  std::vector<TraceTrigger> raised_;
};

}  // namespace paceline::agent
