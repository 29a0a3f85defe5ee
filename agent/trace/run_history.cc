#include "agent/trace/run_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace paceline::agent {

namespace {

analysis::OperationKey KeyOf(uint64_t comm, const std::string& func, uint64_t bytes) {
  return {comm, func, analysis::SizeClass(bytes)};
}

std::string HexOf(uint64_t id) { return fmt::format("{:016x}", id); }

int64_t UnixNs(WallTime time) { return time.time_since_epoch().count(); }

template <typename T>
void Bound(std::deque<T>& queue, size_t limit) {
  while (queue.size() > limit) queue.pop_front();
}

// How long nothing of a call has changed.
Duration StillOf(const analysis::ProcessView& process, const analysis::CallView& call) {
  Duration still = call.still;
  const auto place = static_cast<int32_t>(&call - process.calls.data());
  for (const analysis::ProxyView& proxy : process.proxies) {
    if (proxy.call == place) still = std::min(still, proxy.still);
  }
  return still;
}

}  // namespace

const char* TraceTriggerName(TraceTriggerKind kind) {
  static const char* const kNames[] = {"Stall", "Slowdown", "ProcessLost"};
  return kNames[static_cast<size_t>(kind)];
}

void RunHistory::Add(const std::vector<EndedOperation>& ended, const std::vector<analysis::LinkUse>& links) {
  for (const EndedOperation& operation : ended) {
    window_[KeyOf(operation.comm, operation.func, operation.bytes)].Add(operation.duration);
    operations_.push_back(operation);
    const bool is_kept = paces_.count(operation.world_rank) != 0 || paces_.size() < options_.kept_ranks;
    if (operation.world_rank < 0 || !is_kept) continue;
    analysis::PaceMeter& meter = paces_.try_emplace(operation.world_rank, options_.pace).first->second;
    meter.Add(operation.comm, operation.is_collective, operation.start, operation.start + operation.duration);
  }
  links_.insert(links_.end(), links.begin(), links.end());
  Bound(operations_, options_.kept_operations);
  Bound(links_, options_.kept_links);
}

void RunHistory::Raise(TraceTriggerKind kind, int32_t world_rank, const std::string& key, std::string detail,
                       WallTime wall) {
  seen_.insert({kind, key});
  const auto [place, is_new] = open_.try_emplace({kind, key});
  if (!is_new) return;
  place->second = {kind, run_, wall, world_rank, std::move(detail)};
  raised_.push_back(place->second);
}

bool RunHistory::HasOpen(TraceTriggerKind kind) const {
  return std::any_of(open_.begin(), open_.end(), [&](const auto& entry) { return entry.first.first == kind; });
}

std::vector<TraceTrigger> RunHistory::OpenTriggers() const {
  std::vector<TraceTrigger> triggers;
  for (const auto& [key, trigger] : open_) triggers.push_back(trigger);
  return triggers;
}

void RunHistory::JudgeProcess(const analysis::ProcessView& process, WallTime wall) {
  const std::string key = std::to_string(process.pid);
  if (process.state == analysis::ProcessState::kDead) {
    Raise(TraceTriggerKind::kProcessLost, process.world_rank, key, "ended with communicators open", wall);
    return;
  }
  for (const analysis::CallView& call : process.calls) {
    const bool is_operation = call.kind == analysis::CallKind::kColl || call.kind == analysis::CallKind::kP2p;
    if (!(is_operation ? call.open_proxies > 0 : call.is_open)) continue;
    const bool has_comm = call.comm >= 0;
    const uint64_t id = has_comm ? process.comms[static_cast<size_t>(call.comm)].id : 0;
    const uint64_t bytes = call.count * analysis::DatatypeBytes(call.datatype);
    const Duration still = StillOf(process, call);
    const auto usual = is_operation ? usual_.Median(KeyOf(id, call.func, bytes)) : std::nullopt;
    if (!analysis::HasStalled(still, usual, options_.stall)) continue;
    Raise(TraceTriggerKind::kStall, process.world_rank, "",
          fmt::format("{} {} of {}: no change for {:.1f} s{}", call.func, call.index,
                      has_comm ? process.comms[static_cast<size_t>(call.comm)].name : "?", ToSeconds(still),
                      usual ? fmt::format(", usually {:.3f} s", ToSeconds(*usual)) : ""),
          wall);
  }
}

void RunHistory::JudgeWindow(TimePoint now, WallTime wall) {
  if (now - window_start_ < options_.window) {
    for (const auto& [key, trigger] : open_) {
      if (key.first == TraceTriggerKind::kSlowdown) seen_.insert(key);  // holds until the window is judged
    }
    return;
  }
  window_start_ = now;
  for (const auto& [key, counts] : window_) {
    const std::optional<Duration> usual = usual_.Median(key);
    const std::optional<Duration> median = counts.Percentile(0.5);
    if (analysis::IsSlow(counts, usual)) {
      Raise(TraceTriggerKind::kSlowdown, -1, HexOf(key.comm) + key.func,
            fmt::format("{} of 2^{} bytes on {}: {:.4f} s, usually {:.4f} s", key.func, key.size_class, HexOf(key.comm),
                        ToSeconds(*median), ToSeconds(*usual)),
            wall);
      continue;  // what is slow does not become usual
    }
    usual_.Merge(key, counts);
  }
  window_.clear();
}

std::vector<TraceTrigger> RunHistory::Judge(const std::vector<analysis::ProcessView>& processes, TimePoint now,
                                            WallTime wall) {
  seen_.clear();
  raised_.clear();
  JudgeWindow(now, wall);
  for (auto& [rank, meter] : paces_) meter.Close(wall);
  const bool is_anyone_left = std::any_of(processes.begin(), processes.end(), [](const auto& process) {
    return process.state != analysis::ProcessState::kDead && process.state != analysis::ProcessState::kFinished;
  });
  for (const analysis::ProcessView& process : processes) {
    if (process.run == run_ && is_anyone_left) JudgeProcess(process, wall);
  }
  std::erase_if(open_, [&](const auto& entry) { return seen_.count(entry.first) == 0; });
  triggers_.insert(triggers_.end(), raised_.begin(), raised_.end());
  Bound(triggers_, options_.kept_triggers);
  return raised_;
}

std::vector<analysis::RankPace> RunHistory::Paces(WallTime since) const {
  std::vector<analysis::RankPace> paces;
  for (const auto& [rank, meter] : paces_) {
    analysis::RankPace& pace = paces.emplace_back();
    pace.world_rank = rank;
    for (const auto& [id, comm] : meter.comms()) pace.comms.push_back(comm);
    pace.windows = meter.Windows(since);
  }
  return paces;
}

Json RunHistory::LatenessJson() const {
  std::map<uint64_t, std::vector<analysis::Arrival>> arrivals;
  for (const EndedOperation& operation : operations_) {
    if (!operation.is_collective) continue;
    arrivals[operation.comm].push_back({operation.comm, operation.index, operation.rank, operation.start});
  }
  Json json = Json::array();
  for (const auto& [comm, list] : arrivals) {
    for (const analysis::RankLateness& rank : analysis::LatenessOf(comm, list)) {
      json.push_back({{"comm", HexOf(comm)},
                      {"rank", rank.rank},
                      {"operations", rank.operations},
                      {"timesLast", rank.times_last},
                      {"median", rank.median.count()}});
    }
  }
  return json;
}

std::vector<analysis::LinkView> RunHistory::Links() const {
  std::set<uint64_t> comms;
  const std::vector<analysis::LinkUse> uses(links_.begin(), links_.end());
  for (const analysis::LinkUse& use : uses) comms.insert(use.comm);
  std::vector<analysis::LinkView> links;
  for (const uint64_t comm : comms) {
    for (const analysis::LinkRate& rate : analysis::RatesOf(comm, uses)) {
      links.push_back({comm, rate.from, rate.to, rate.operations, rate.bytes, rate.bytes_per_second});
    }
  }
  return links;
}

Json RunHistory::Records(WallTime since) const {
  Json json = {{"version", 1}, {"run", run_}};
  for (const char* key : {"operations", "links", "usual", "triggers"}) json[key] = Json::array();
  for (const EndedOperation& operation : operations_) {
    if (operation.start < since) continue;
    json["operations"].push_back({{"comm", HexOf(operation.comm)},
                                  {"commName", operation.comm_name},
                                  {"rank", operation.rank},
                                  {"worldRank", operation.world_rank},
                                  {"index", operation.index},
                                  {"func", operation.func},
                                  {"bytes", operation.bytes},
                                  {"start", UnixNs(operation.start)},
                                  {"duration", operation.duration.count()}});
  }
  for (const analysis::LinkView& link : Links()) {
    json["links"].push_back({{"comm", HexOf(link.comm)},
                             {"from", link.from},
                             {"to", link.to},
                             {"operations", link.operations},
                             {"bytes", link.bytes},
                             {"bytesPerSecond", link.bytes_per_second}});
  }
  for (const auto& [key, counts] : usual_.all()) {
    json["usual"].push_back({{"comm", HexOf(key.comm)},
                             {"func", key.func},
                             {"sizeClass", key.size_class},
                             {"operations", counts.count()},
                             {"median", counts.Percentile(0.5).value_or(Duration::zero()).count()},
                             {"p95", counts.Percentile(0.95).value_or(Duration::zero()).count()}});
  }
  for (const TraceTrigger& trigger : triggers_) {
    if (trigger.at < since) continue;
    json["triggers"].push_back({{"kind", TraceTriggerName(trigger.kind)},
                                {"at", UnixNs(trigger.at)},
                                {"worldRank", trigger.world_rank},
                                {"detail", trigger.detail}});
  }
  json["lateness"] = LatenessJson();
  return json;
}

}  // namespace paceline::agent
