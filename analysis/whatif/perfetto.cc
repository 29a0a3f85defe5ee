#include "analysis/whatif/perfetto.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

namespace paceline::analysis {
namespace {

constexpr size_t kFlushBytes = 256 << 10;
constexpr double kMicroseconds = 1e6;
constexpr double kBetweenSteps = 1e-3;  // seconds
constexpr int kComputeTrack = 1;

// Computation on one track, each kind of transfer on its own: they overlap each other.
int TrackOf(OpType type) { return IsCommunication(type) ? 2 + static_cast<int>(type) : kComputeTrack; }

const char* CategoryOf(OpType type) {
  if (!IsCommunication(type)) return "compute";
  return IsPeerToPeer(type) ? "pipeline" : "collective";
}

class EventWriter {
 public:
  EventWriter(const StepTrace& trace, const WhatIfModel& model, const WhatIfResult& result, std::ostream& out)
      : trace_(trace), model_(model), result_(result), out_(out) {}

  Status Run() {
    PlaceSteps();
    fmt::format_to(
        std::back_inserter(buffer_), "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"job\":{}}},\n\"traceEvents\":[",
        nlohmann::json(trace_.shape.trial_name).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
    NameProcesses();
    WriteSteps();
    WriteMeasured();
    WriteIdeal();
    fmt::format_to(std::back_inserter(buffer_), "\n]}}\n");
    Flush();
    out_.flush();
    return out_ ? Status() : UnavailableError("cannot write the Perfetto file");
  }

 private:
  int stages() const { return trace_.shape.pp_size; }
  int MeasuredProcess(int dp_rank, int stage) const { return 2 + stages() + dp_rank * stages() + stage; }
  static int IdealProcess(int stage) { return 2 + stage; }
  static constexpr int kStepsProcess = 1;

  // Where each step begins on the common axis, and its first start in the trace.
  void PlaceSteps() {
    first_start_.assign(result_.steps.size(), std::numeric_limits<double>::infinity());
    for (size_t row = 0; row < trace_.rows(); row++) {
      const int step = StepAt(row);
      if (step < 0) continue;
      double& first = first_start_[static_cast<size_t>(step)];
      first = std::min<double>(first, trace_.start[row]);
    }
    double at = 0;
    for (size_t step = 0; step < result_.steps.size(); step++) {
      begin_.push_back(at);
      at += std::max(result_.measured[step], result_.ideal) + kBetweenSteps;
    }
  }

  // The position of a row's step, -1 for a step that was left out.
  int StepAt(size_t row) const {
    const auto found = std::lower_bound(result_.steps.begin(), result_.steps.end(), trace_.step[row]);
    return found != result_.steps.end() && *found == trace_.step[row] ? static_cast<int>(found - result_.steps.begin())
                                                                      : -1;
  }

  void Begin() {
    if (buffer_.size() >= kFlushBytes) Flush();
    if (has_events_) buffer_.push_back(',');
    has_events_ = true;
    buffer_.push_back('\n');
  }
  void Flush() {
    out_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
    buffer_.clear();
  }

  // Names are ours: nothing in them needs escaping.
  void Name(const char* what, int pid, int tid, const std::string& name) {
    Begin();
    fmt::format_to(std::back_inserter(buffer_),
                   "{{\"ph\":\"M\",\"name\":\"{}_name\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":\"{}\"}}}},\n"
                   "{{\"ph\":\"M\",\"name\":\"{}_sort_index\",\"pid\":{},\"tid\":{},\"args\":{{\"sort_index\":{}}}}}",
                   what, pid, tid, name, what, pid, tid, tid > 0 ? tid : pid);
  }

  void NameTracks(int pid, int stage) {
    Name("thread", pid, kComputeTrack, "computation");
    for (int type = 0; type < kOpTypes; type++) {
      const auto op_type = static_cast<OpType>(type);
      if (!IsCommunication(op_type)) continue;
      if (model_.graph.Find(op_type, stage, 0) >= 0)
        Name("thread", pid, TrackOf(op_type), std::string(NameOf(op_type)));
    }
  }

  void NameProcesses() {
    Name("process", kStepsProcess, 0, "steps");
    for (int stage = 0; stage < stages(); stage++) {
      Name("process", IdealProcess(stage), 0, fmt::format("ideal: stage {}, every dp rank", stage));
      NameTracks(IdealProcess(stage), stage);
    }
    for (int dp_rank = 0; dp_rank < trace_.shape.dp_size; dp_rank++) {
      for (int stage = 0; stage < stages(); stage++) {
        Name("process", MeasuredProcess(dp_rank, stage), 0, fmt::format("measured: dp {} stage {}", dp_rank, stage));
        NameTracks(MeasuredProcess(dp_rank, stage), stage);
      }
    }
  }

  void WriteSteps() {
    for (size_t step = 0; step < result_.steps.size(); step++) {
      Begin();
      fmt::format_to(
          std::back_inserter(buffer_),
          "{{\"ph\":\"X\",\"cat\":\"step\",\"name\":\"step {}\",\"pid\":{},\"tid\":1,\"ts\":{:.3f},\"dur\":{:.3f},"
          "\"args\":{{\"measured_s\":{:.6f},\"simulated_s\":{:.6f},\"ideal_s\":{:.6f},\"slowdown\":{:.4f}}}}}",
          result_.steps[step], kStepsProcess, begin_[step] * kMicroseconds, result_.measured[step] * kMicroseconds,
          result_.measured[step], result_.simulated[step], result_.ideal, result_.simulated[step] / result_.ideal);
    }
  }

  void WriteOp(OpType type, int pid, int64_t step, int seq, double start, double duration) {
    Begin();
    fmt::format_to(std::back_inserter(buffer_),
                   "{{\"ph\":\"X\",\"cat\":\"{}\",\"name\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f},"
                   "\"args\":{{\"step\":{},\"seq\":{}}}}}",
                   CategoryOf(type), NameOf(type), pid, TrackOf(type), start * kMicroseconds, duration * kMicroseconds,
                   step, seq);
  }

  void WriteMeasured() {
    for (size_t row = 0; row < trace_.rows(); row++) {
      const int step = StepAt(row);
      if (step < 0) continue;
      const auto at = static_cast<size_t>(step);
      WriteOp(trace_.type[row], MeasuredProcess(trace_.dp_rank[row], trace_.stage[row]), trace_.step[row],
              trace_.seq[row], begin_[at] + trace_.start[row] - first_start_[at], trace_.duration[row]);
    }
  }

  // An operation waits from its start for the rest of its group: drawn from the start, as measured ones are.
  void WriteIdeal() {
    const std::vector<TimedOp> ideal = IdealTimeline(model_);
    for (size_t step = 0; step < result_.steps.size(); step++) {
      for (const TimedOp& op : ideal) {
        WriteOp(op.type, IdealProcess(op.stage), result_.steps[step], op.seq, begin_[step] + op.start,
                op.end - op.start);
      }
    }
  }

  const StepTrace& trace_;
  const WhatIfModel& model_;
  const WhatIfResult& result_;
  std::ostream& out_;
  fmt::memory_buffer buffer_;
  bool has_events_ = false;
  std::vector<double> begin_;        // seconds, per step of the result
  std::vector<double> first_start_;  // seconds
};

}  // namespace

Status WritePerfetto(const StepTrace& trace, const WhatIfModel& model, const WhatIfResult& result, std::ostream& out) {
  return EventWriter(trace, model, result, out).Run();
}

}  // namespace paceline::analysis
