#include "agent/trace/collector.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "analysis/rings/snapshot.h"

namespace paceline::agent {

namespace {

using analysis::ProcessState;
using analysis::ProcessView;

constexpr size_t kRecordsPerLook = 8192;
constexpr size_t kMaxSeries = 250;

MetricOptions Metric(const char* name, const char* help, std::vector<std::string> labels) {
  return {name, help, std::move(labels), kMaxSeries};
}

// Sets the series of a family to `values`, and forgets those of before that are not among them.
void ShowGauges(const std::map<LabelValues, double>& values, MetricFamily<Gauge>& family,
                std::set<LabelValues>& shown) {
  for (const LabelValues& labels : shown) {
    if (values.count(labels) == 0) family.Remove(labels);
  }
  shown.clear();
  for (const auto& [labels, value] : values) {
    family.With(labels).Set(value);
    shown.insert(labels);
  }
}

// Forgets the series of runs that have no process here any more; the run is their first label.
void ForgetRuns(const std::map<LabelValues, double>& open, MetricFamily<Counter>& family,
                std::set<LabelValues>& counted) {
  for (auto labels = counted.begin(); labels != counted.end();) {
    const bool is_here = open.count({labels->front()}) != 0;
    if (!is_here) family.Remove(*labels);
    labels = is_here ? std::next(labels) : counted.erase(labels);
  }
}

// Functions of NCCL; anything else a ring may hold is one label.
std::string FunctionLabel(const std::string& func) {
  static const std::set<std::string> kKnown = {"AllGather", "AllReduce", "AlltoAll", "Broadcast", "Gather",
                                               "Recv",      "Reduce",    "Scatter",  "Send",      "ReduceScatter"};
  return kKnown.count(func) != 0 ? func : "other";
}

// NCCL starts the plugin, which makes the ring, when it has set the first communicator up. An agent that comes later
// does not know what ended before, so only a communicator's first operation counts.
void NoteStages(TracedStages& stages, const RingHeader& header, const std::vector<EndedOperation>& ended) {
  stages.communicator_ready = WallTime(std::chrono::nanoseconds(header.epoch_realtime_ns));
  for (const EndedOperation& operation : ended) {
    if (stages.first_step || operation.index > 1) continue;
    stages.first_step = operation.start + operation.duration;
  }
}

// A pod is where its first process is.
void AddStages(const TracedStages& more, TracedStages& all) {
  const auto take = [](const std::optional<WallTime>& from, std::optional<WallTime>& to) {
    if (from && (!to || *from < *to)) to = from;
  };
  take(more.communicator_ready, all.communicator_ready);
  take(more.first_step, all.first_step);
}

}  // namespace

struct Collector::OpenRing {
  std::string path;
  TraceFolder folder;
  TracedStages stages;
  std::unique_ptr<ring::RingReader> reader;
  RingProgress progress;
  ProcessView view;  // of the last look that went well
  std::optional<TimePoint> ended;
  ProcessState end_state = ProcessState::kDead;
};

// What one sample sees.
struct Collector::Look {
  uint64_t ticks = 0;
  TimePoint now;
  WallTime wall;
  std::vector<ProcessView> processes;
  std::map<std::string, std::vector<EndedOperation>> ended;     // by run
  std::map<std::string, std::vector<analysis::LinkUse>> links;  // by run
  std::map<std::string, TracedStages> stages;                   // by pod
  uint64_t lost = 0;
};

Collector::Collector(CollectorOptions options, FileSystem& files, const Clock& clock, MetricsRegistry& metrics)
    : options_(std::move(options)),
      files_(files),
      clock_(clock),
      probe_(files, options_.proc_root, options_.cgroup_root),
      rings_gauge_(metrics.GaugeFamily(
          Metric("paceline_trace_processes", "Training processes with a trace ring.", {"run", "state"}))),
      open_gauge_(metrics.GaugeFamily(Metric("paceline_trace_open_operations",
                                             "Collectives, sends and receives that go on over the network.", {"run"}))),
      operations_(metrics.CounterFamily(
          Metric("paceline_trace_operations_total", "Collectives, sends and receives that ended.", {"run", "func"}))),
      seconds_(metrics.CounterFamily(
          Metric("paceline_trace_operation_seconds_total", "Sum of the durations of those.", {"run", "func"}))),
      triggers_(metrics.CounterFamily(Metric("paceline_trace_triggers_total",
                                             "Times a run was seen to stall, slow down or lose a process.",
                                             {"run", "kind"}))),
      lost_(metrics.CounterFamily(Metric("paceline_trace_lost_records_total",
                                         "Records that were overwritten before they were read, or damaged.", {}))),
      unreadable_(
          metrics.CounterFamily(Metric("paceline_trace_unreadable_rings_total", "Looks at a ring that failed.", {}))) {}

Collector::~Collector() = default;

void Collector::OpenRingAt(const std::string& path, const TraceFolder& folder) {
  if (rings_.size() >= options_.max_rings) return;
  std::string error;
  auto reader = ring::RingReader::Open(path, error);
  if (reader == nullptr) return;  // not whole yet, or foreign: seen again at the next scan
  auto ring = std::make_unique<OpenRing>();
  ring->path = path;
  ring->folder = folder;
  ring->reader = std::move(reader);
  rings_[path] = std::move(ring);
}

void Collector::Scan() {
  const TimePoint now = clock_.Now();
  if (now < next_scan_) return;
  next_scan_ = now + options_.scan_period;
  for (const TraceFolder& folder : options_.folders()) {
    for (const std::string& path : analysis::FindRings(files_, folder.path)) {
      if (rings_.count(path) == 0) OpenRingAt(path, folder);
    }
  }
}

void Collector::SetState(OpenRing& ring, const ring::Tables& tables, ProcessView& view) {
  const pid_t pid = ring.reader->WriterPid();
  view.pid = pid > 0 ? pid : ring.view.pid;
  if (pid < 0) {
    view.state = ProcessState::kUnknown;
    return;
  }
  if (pid > 0) {
    const ProcessState state = probe_.StateOf(pid);
    view.state = state == ProcessState::kUnknown ? ProcessState::kRunning : state;  // its lock says that it lives
    view.proxy_thread = probe_.ProxyThreadOf(pid, clock_.Now());
    view.io_bytes_per_second = probe_.IoRateOf(pid, clock_.Now());
    if (state != ProcessState::kDead) return;
  }
  if (!ring.ended) {
    ring.ended = clock_.Now();
    ring.end_state = analysis::EndStateOf(tables);
    probe_.Forget(view.pid);
  }
  view.state = ring.end_state;
  view.proxy_thread.reset();
  view.io_bytes_per_second.reset();
}

bool Collector::LookAt(OpenRing& ring, Look& look) {
  ring::Tables& tables = tables_;
  ring::Records records;
  std::string error;
  const bool is_read =
      ring.reader->ReadTables(tables, error) && ring.reader->ReadRecords(kRecordsPerLook, records, error);
  if (!is_read) {
    unreadable_.With({}).Add();
    return false;  // cut short: by its pod, and of no more use
  }
  const analysis::RingTime time = analysis::RingTimeOf(tables.header, look.ticks, look.now);
  const analysis::NameLookup name = [&ring](uint16_t index) { return ring.reader->Name(index); };
  ProcessView view = analysis::ViewOf(tables, time, name);
  SetState(ring, tables, view);
  view.node = options_.node;
  if (!ring.folder.ns.empty()) view.run = ring.folder.ns + "/" + view.run;
  if (ring.ended) view.ended_for = look.now - *ring.ended;
  auto ended = ring.progress.TakeEnded(tables, time, look.wall, name);
  auto links = RingProgress::LinksOf(records, tables, time);
  NoteStages(ring.stages, tables.header, ended);
  if (!ring.folder.pod_uid.empty()) AddStages(ring.stages, look.stages[ring.folder.pod_uid]);
  auto& all_ended = look.ended[view.run];
  auto& all_links = look.links[view.run];
  all_ended.insert(all_ended.end(), std::make_move_iterator(ended.begin()), std::make_move_iterator(ended.end()));
  all_links.insert(all_links.end(), links.begin(), links.end());
  look.lost += records.lost + records.damaged;
  if (ring.ended && look.now - *ring.ended >= options_.keep_ended) {
    files_.Remove(ring.path).IgnoreError();  // its volume goes with the pod anyway
    return false;
  }
  ring.view = view;
  look.processes.push_back(std::move(view));
  return true;
}

std::vector<TraceTrigger> Collector::Sample() {
  Scan();
  Look look{analysis::ReadTicks(), clock_.Now(), clock_.WallNow(), {}, {}, {}, {}, 0};
  for (auto ring = rings_.begin(); ring != rings_.end();) {
    // The clocks are read beside the tables: a long sample must not make its last rings look old.
    look.ticks = analysis::ReadTicks();
    look.now = clock_.Now();
    look.wall = clock_.WallNow();
    ring = LookAt(*ring->second, look) ? std::next(ring) : rings_.erase(ring);
  }
  std::vector<TraceTrigger> raised;
  Publish(look, raised);
  CountMetrics(look, raised);
  return raised;
}

void Collector::Publish(const Look& look, std::vector<TraceTrigger>& raised) {
  std::set<std::string> runs;
  for (const ProcessView& process : look.processes) runs.insert(process.run);
  MutexLock lock(mutex_);
  processes_ = look.processes;
  stages_ = look.stages;
  for (const std::string& run : runs) {
    RunHistory& history = histories_.try_emplace(run, run, options_.history).first->second;
    history.Add(look.ended.at(run), look.links.at(run));
    std::vector<TraceTrigger> triggers = history.Judge(processes_, look.now, look.wall);
    raised.insert(raised.end(), triggers.begin(), triggers.end());
  }
  std::erase_if(histories_, [&](const auto& entry) { return runs.count(entry.first) == 0; });
}

void Collector::CountMetrics(const Look& look, const std::vector<TraceTrigger>& raised) {
  std::map<LabelValues, double> processes, open;
  for (const ProcessView& process : look.processes) {
    static const char* const kStates[] = {"unknown", "running", "stopped", "dead", "finished"};
    for (const char* state : kStates) processes[{process.run, state}] += 0;
    processes[{process.run, kStates[static_cast<size_t>(process.state)]}] += 1;
    // From zero on, so that a first alert shows as an increase.
    for (const TraceTriggerKind kind :
         {TraceTriggerKind::kStall, TraceTriggerKind::kSlowdown, TraceTriggerKind::kProcessLost}) {
      const LabelValues labels = {process.run, TraceTriggerName(kind)};
      if (counted_triggers_.insert(labels).second) triggers_.With(labels);
    }
    double& count = open[{process.run}];
    for (const analysis::CallView& call : process.calls) count += call.open_proxies > 0 ? 1 : 0;
  }
  ShowGauges(processes, rings_gauge_, shown_);
  ShowGauges(open, open_gauge_, shown_open_);
  for (const auto& [run, ended] : look.ended) {
    for (const EndedOperation& operation : ended) {
      const LabelValues labels = {run, FunctionLabel(operation.func)};
      operations_.With(labels).Add();
      seconds_.With(labels).Add(ToSeconds(operation.duration));
      counted_operations_.insert(labels);
    }
  }
  for (const TraceTrigger& trigger : raised) {
    const LabelValues labels = {trigger.run, TraceTriggerName(trigger.kind)};
    triggers_.With(labels).Add();
    counted_triggers_.insert(labels);
  }
  std::set<LabelValues> same = counted_operations_;
  ForgetRuns(open, operations_, counted_operations_);
  ForgetRuns(open, seconds_, same);
  ForgetRuns(open, triggers_, counted_triggers_);
  lost_.With({}).Add(static_cast<double>(look.lost));
}

void Collector::Run(std::stop_token stop) {
  TimePoint next = clock_.Now();
  std::pair<std::vector<RunState>, std::map<std::string, TracedStages>> told;
  do {
    Sample();
    std::pair now(States(), Stages());
    if (now != told && options_.on_news != nullptr) options_.on_news();
    told = std::move(now);
    next = std::max(next + options_.period, clock_.Now());  // what was missed is not made up for
  } while (clock_.SleepUntil(next, stop));
}

std::vector<std::string> Collector::Runs() const {
  std::set<std::string> runs;
  MutexLock lock(mutex_);
  for (const ProcessView& process : processes_) runs.insert(process.run);
  return {runs.begin(), runs.end()};
}

analysis::Tables Collector::TablesOf(const std::string& run) const {
  analysis::Tables tables;
  MutexLock lock(mutex_);
  for (const ProcessView& process : processes_) {
    if (run.empty() || process.run == run) tables.processes.push_back(process);
  }
  for (const auto& [name, history] : histories_) {
    if (!run.empty() && name != run) continue;
    const std::vector<analysis::LinkView> links = history.Links();
    tables.links.insert(tables.links.end(), links.begin(), links.end());
  }
  return tables;
}

Result<Json> Collector::RecordsOf(const std::string& run, WallTime since) const {
  MutexLock lock(mutex_);
  const auto history = histories_.find(run);
  if (history == histories_.end()) return NotFoundError("run " + run + ": no process of it is traced here");
  return history->second.Records(since);
}

Result<std::vector<analysis::RankPace>> Collector::PacesOf(const std::string& run, WallTime since) const {
  MutexLock lock(mutex_);
  const auto history = histories_.find(run);
  if (history == histories_.end()) return NotFoundError("run " + run + ": no process of it is traced here");
  return history->second.Paces(since);
}

std::vector<RunState> Collector::States() const {
  std::map<std::string, RunState> states;
  MutexLock lock(mutex_);
  for (const ProcessView& process : processes_) {
    RunState& state = states[process.run];
    state.run = process.run;
    state.processes += 1;
  }
  std::vector<RunState> list;
  for (auto& [run, state] : states) {
    const auto history = histories_.find(run);
    if (history != histories_.end()) state.open = history->second.OpenTriggers();
    list.push_back(std::move(state));
  }
  return list;
}

std::map<std::string, TracedStages> Collector::Stages() const {
  MutexLock lock(mutex_);
  return stages_;
}

std::vector<TraceTrigger> Collector::TriggersSince(WallTime since) const {
  std::vector<TraceTrigger> triggers;
  MutexLock lock(mutex_);
  for (const auto& [run, history] : histories_) {
    for (const TraceTrigger& trigger : history.triggers()) {
      if (trigger.at >= since) triggers.push_back(trigger);
    }
  }
  return triggers;
}

}  // namespace paceline::agent
