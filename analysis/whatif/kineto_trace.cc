#include "analysis/whatif/kineto_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "analysis/whatif/trace_file.h"

namespace paceline::analysis {
namespace {

constexpr size_t kMaxFileBytes = size_t{4} << 30;
constexpr std::string_view kStepPrefix = "ProfilerStep#";
// Together less than what 64 bits of nanoseconds hold.
constexpr double kMaxStart = 4e15;                       // microseconds
constexpr double kMaxDuration = 1e15;                    // microseconds
constexpr int64_t kMaxBase = 4'000'000'000'000'000'000;  // nanoseconds

struct Range {
  std::string name;
  double ts = 0;  // microseconds, as all times of the format
  double dur = 0;
};

// Of an event, as far as it is read.
struct Event {
  std::string phase, category, name;
  std::optional<double> ts, dur;
};

// Keeps named ranges only: files of some hundred megabytes are usual, most of it kernels and host calls.
class Collector final : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<Range> device_ranges, host_ranges;
  std::optional<int64_t> rank;
  int64_t base_ns = 0;
  bool has_events = false;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override { return Number(static_cast<double>(value), value); }
  bool number_unsigned(number_unsigned_t value) override {
    return Number(static_cast<double>(value), static_cast<int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return Number(value, std::nullopt); }
  bool string(string_t& value) override {
    if (!IsEventField()) return true;
    if (key_ == "ph") event_.phase = value;
    if (key_ == "cat") event_.category = value;
    if (key_ == "name") event_.name = value;
    return true;
  }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override {
    path_.push_back(key_);
    if (path_.size() == 3 && IsInEvents()) event_ = {};
    return path_.size() < kMaxDepth;
  }
  bool key(string_t& name) override {
    key_ = name;
    return true;
  }
  bool end_object() override {
    if (path_.size() == 3 && IsInEvents()) Take();
    path_.pop_back();
    return true;
  }
  bool start_array(size_t) override {
    path_.push_back(key_);
    key_.clear();
    if (path_.size() == 2 && IsInEvents()) has_events = true;
    return path_.size() < kMaxDepth;
  }
  bool end_array() override {
    path_.pop_back();
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  static constexpr size_t kMaxDepth = 64;

  bool IsInEvents() const { return path_.size() >= 2 && path_[1] == "traceEvents"; }
  bool IsEventField() const { return path_.size() == 3 && IsInEvents(); }

  bool Number(double value, std::optional<int64_t> whole) {
    if (IsEventField()) {
      if (key_ == "ts") event_.ts = value;
      if (key_ == "dur") event_.dur = value;
    } else if (path_.size() == 1 && key_ == "baseTimeNanoseconds" && whole) {
      if (*whole >= 0 && *whole <= kMaxBase) base_ns = *whole;
    } else if (path_.size() == 2 && path_[1] == "distributedInfo" && key_ == "rank" && whole) {
      rank = whole;
    }
    return true;
  }

  void Take() {
    if (event_.phase != "X" || !event_.ts || !event_.dur || !(*event_.dur >= 0)) return;
    if (!(std::abs(*event_.ts) < kMaxStart) || !(*event_.dur < kMaxDuration)) return;
    const bool is_device = event_.category == "gpu_user_annotation";
    if (!is_device && event_.category != "user_annotation") return;
    const bool is_named = ParseOpType(event_.name) || event_.name.rfind(kStepPrefix, 0) == 0;
    if (is_named) (is_device ? device_ranges : host_ranges).push_back({event_.name, *event_.ts, *event_.dur});
  }

  std::vector<std::string> path_;  // keys of the open objects and arrays
  std::string key_;
  Event event_;
};

struct Step {
  int64_t number = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

bool HasOps(const std::vector<Range>& ranges) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [](const Range& range) { return ParseOpType(range.name).has_value(); });
}

int64_t Nanoseconds(const Collector& from, double microseconds) {
  return from.base_ns + static_cast<int64_t>(std::llround(microseconds * 1000));
}

std::vector<Step> StepsOf(const Collector& from, const std::vector<Range>& ranges) {
  std::vector<Step> steps;
  for (const Range& range : ranges) {
    if (range.name.rfind(kStepPrefix, 0) != 0) continue;
    int64_t number = 0;
    const char* const end = range.name.data() + range.name.size();
    const auto [rest, error] = std::from_chars(range.name.data() + kStepPrefix.size(), end, number);
    if (error != std::errc() || rest != end || number < 0) continue;
    const int64_t start = Nanoseconds(from, range.ts);
    steps.push_back({number, start, start + static_cast<int64_t>(std::llround(range.dur * 1000))});
  }
  std::sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.start_ns < b.start_ns; });
  return steps;
}

using Place = std::tuple<int, int>;  // dp_rank, stage

// Where each rank stands; only the first of each tensor-parallel group.
Result<std::map<Place, const KinetoRank*>> PlaceRanks(const std::vector<KinetoRank>& ranks, const JobShape& shape) {
  const int64_t group = int64_t{shape.tp_size} * shape.dsp_size;
  const int64_t per_stage = group * shape.dp_size;
  std::map<Place, const KinetoRank*> places;
  for (const KinetoRank& rank : ranks) {
    if (rank.rank < 0 || rank.rank >= shape.world_size) {
      return InvalidArgumentError(fmt::format("rank {} with a world_size of {}", rank.rank, shape.world_size));
    }
    if (rank.rank % group != 0) continue;
    const Place place{static_cast<int>(rank.rank % per_stage / group), static_cast<int>(rank.rank / per_stage)};
    if (!places.emplace(place, &rank).second) {
      return InvalidArgumentError(fmt::format("rank {} is there twice", rank.rank));
    }
  }
  for (int stage = 0; stage < shape.pp_size; stage++) {
    for (int dp_rank = 0; dp_rank < shape.dp_size; dp_rank++) {
      if (places.count({dp_rank, stage}) > 0) continue;
      return InvalidArgumentError(fmt::format("there is no file of rank {} (dp_rank {}, stage {})",
                                              stage * per_stage + dp_rank * group, dp_rank, stage));
    }
  }
  return places;
}

void AddRank(const KinetoRank& rank, const Place& place, const std::map<int64_t, int64_t>& begin_ns, StepTrace& trace) {
  std::map<std::pair<int64_t, OpType>, int32_t> seqs;
  const auto [dp_rank, stage] = place;
  for (const KinetoOp& op : rank.ops) {
    const bool is_compute = op.type == OpType::kForwardCompute || op.type == OpType::kBackwardCompute;
    const bool has_chunk = is_compute || op.type == OpType::kParamsAllGather || op.type == OpType::kGradsReduceScatter;
    trace.dp_rank.push_back(static_cast<int16_t>(dp_rank));
    trace.stage.push_back(static_cast<int16_t>(stage));
    trace.rank.push_back(rank.rank);
    trace.step.push_back(op.step);
    trace.type.push_back(op.type);
    trace.start.push_back(static_cast<float>(static_cast<double>(op.start_ns - begin_ns.at(op.step)) / 1e9));
    trace.duration.push_back(static_cast<float>(static_cast<double>(op.duration_ns) / 1e9));
    trace.seq.push_back(seqs[{op.step, op.type}]++);
    trace.mc.push_back(has_chunk ? 0 : -1);
    trace.gmc.push_back(static_cast<int16_t>(is_compute ? stage : -1));
  }
}

}  // namespace

Result<KinetoRank> ParseKinetoTrace(const std::string& json) {
  if (json.rfind("\x1f\x8b", 0) == 0) return InvalidArgumentError("the file is compressed: unpack it with gunzip");
  Collector from;
  if (!nlohmann::json::sax_parse(json, &from)) return InvalidArgumentError("the file is no JSON, or it is cut off");
  if (!from.has_events) return InvalidArgumentError("there are no traceEvents: not a trace of PyTorch's profiler");
  if (!from.rank || *from.rank < 0 || *from.rank > std::numeric_limits<int32_t>::max()) {
    return InvalidArgumentError("distributedInfo.rank is missing: the profiler ran without torch.distributed");
  }
  const std::vector<Range>& ranges = HasOps(from.device_ranges) ? from.device_ranges : from.host_ranges;
  if (!HasOps(ranges)) {
    return InvalidArgumentError(
        "no operation is named: wrap them in torch.profiler.record_function(\"forward-compute\") and so on");
  }
  const std::vector<Step> steps = StepsOf(from, ranges);
  if (steps.empty()) return InvalidArgumentError("there are no steps: call the profiler's step() after each");
  KinetoRank rank;
  rank.rank = static_cast<int32_t>(*from.rank);
  for (const Range& range : ranges) {
    const std::optional<OpType> type = ParseOpType(range.name);
    if (!type) continue;
    const int64_t start = Nanoseconds(from, range.ts);
    const auto after = std::upper_bound(steps.begin(), steps.end(), start,
                                        [](int64_t at, const Step& step) { return at < step.start_ns; });
    if (after == steps.begin() || start >= std::prev(after)->end_ns) continue;
    rank.ops.push_back({*type, std::prev(after)->number, start, static_cast<int64_t>(std::llround(range.dur * 1000))});
  }
  std::sort(rank.ops.begin(), rank.ops.end(), [](const KinetoOp& a, const KinetoOp& b) {
    return std::make_tuple(a.start_ns, a.type) < std::make_tuple(b.start_ns, b.type);
  });
  for (const Step& step : steps) rank.step_starts_ns.emplace_back(step.number, step.start_ns);
  std::sort(rank.step_starts_ns.begin(), rank.step_starts_ns.end());
  return rank;
}

Result<StepTrace> MergeKinetoRanks(const std::vector<KinetoRank>& ranks, const JobShape& shape) {
  RETURN_IF_ERROR(CheckShape(shape));
  if (shape.vpp_size > 1) {
    return InvalidArgumentError("traces of PyTorch's profiler do not say which model chunk works: vpp_size must be 1");
  }
  ASSIGN_OR_RETURN(const auto places, PlaceRanks(ranks, shape));
  std::map<int64_t, int64_t> begin_ns;  // of each step: on the rank that begins first
  for (const auto& [place, rank] : places) {
    for (const auto& [step, start] : rank->step_starts_ns) {
      const auto [at, is_new] = begin_ns.emplace(step, start);
      if (!is_new) at->second = std::min(at->second, start);
    }
  }
  StepTrace trace;
  trace.shape = shape;
  for (const auto& [place, rank] : places) AddRank(*rank, place, begin_ns, trace);
  const bool has_wait = std::any_of(trace.type.begin(), trace.type.end(), IsDataParallel);
  if (shape.dp_size > 1 && !has_wait) {
    return InvalidArgumentError(
        "no operation waits for all data-parallel ranks: name the exchange of gradients (\"grads-reduce-scatter\") "
        "too");
  }
  RETURN_IF_ERROR(CheckTrace(trace));
  return trace;
}

Result<StepTrace> ReadKinetoTraces(const std::vector<std::string>& paths, const std::string& metadata_path) {
  ASSIGN_OR_RETURN(const JobShape shape, ReadJobShape(metadata_path));
  std::vector<KinetoRank> ranks;
  for (const std::string& path : paths) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    const auto size = file ? static_cast<std::streamoff>(file.tellg()) : -1;
    if (size < 0) return NotFoundError("cannot read " + path);
    if (static_cast<size_t>(size) > kMaxFileBytes) return InvalidArgumentError(path + " is larger than 4 GiB");
    std::string json(static_cast<size_t>(size), '\0');
    file.seekg(0);
    file.read(json.data(), size);
    if (!file) return UnavailableError("cannot read " + path);
    Result<KinetoRank> rank = ParseKinetoTrace(json);
    if (!rank.ok()) return rank.status().Annotate(path);
    ranks.push_back(*std::move(rank));
  }
  return MergeKinetoRanks(ranks, shape);
}

}  // namespace paceline::analysis
