#include "analysis/comm_graph.h"

#include <fmt/format.h>

#include <algorithm>

namespace paceline::analysis {

namespace {

bool IsOperation(const CallView& call) { return call.kind == CallKind::kColl || call.kind == CallKind::kP2p; }

bool IsApi(CallKind kind) {
  return kind == CallKind::kCollApi || kind == CallKind::kP2pApi || kind == CallKind::kGroupApi ||
         kind == CallKind::kKernelLaunch;
}

}  // namespace

const char* CategoryName(Category category) {
  static const char* const kNames[] = {
      "None",    "Unknown",          "ProcessLost", "Mismatch",      "NotLaunched",  "HostStuck", "GpuStuck",
      "Compute", "ReceiverNotReady", "Network",     "IntraNodeLink", "ProxyStarved", "Deadlock"};
  return kNames[static_cast<size_t>(category)];
}

double Seconds(Duration duration) { return ToSeconds(duration); }

Culprit CulpritOf(const ProcessView& process) { return {process.world_rank, process.node, process.host}; }

std::string RankName(const ProcessView& process) {
  if (process.world_rank >= 0) return fmt::format("rank {}", process.world_rank);
  return fmt::format("process {} of {}", process.pid, process.host);
}

std::vector<int32_t> CommNode::UnseenRanks() const {
  std::vector<int32_t> unseen;
  // A number of ranks from a damaged table must not cost memory.
  for (int32_t rank = 0; rank < ranks && unseen.size() < 1000; rank++) {
    if (members.count(rank) == 0) unseen.push_back(rank);
  }
  return unseen;
}

CommGraph::CommGraph(const Tables& tables, const DiagnoseOptions& options) : options_(options) {
  for (const ProcessView& process : tables.processes) {
    for (size_t i = 0; i < process.comms.size(); i++) {
      const CommView& view = process.comms[i];
      if (view.id == 0 || !view.is_open) continue;
      CommNode& node = comms_[view.id];
      node.id = view.id;
      if (node.name.empty()) node.name = view.name;
      node.ranks = std::max(node.ranks, view.ranks);
      node.members[view.rank] = {&process, static_cast<int32_t>(i)};
    }
    for (const CallView& call : process.calls) {
      if (call.kind != CallKind::kP2p || call.comm < 0 || static_cast<size_t>(call.comm) >= process.comms.size())
        continue;
      const auto found = comms_.find(process.comms[static_cast<size_t>(call.comm)].id);
      if (found != comms_.end()) found->second.has_p2p = true;
    }
  }
  for (auto& [id, node] : comms_) {
    if (node.name.empty()) node.name = fmt::format("{:016x}", id);
  }
}

const CommNode* CommGraph::Find(uint64_t id) const {
  const auto found = comms_.find(id);
  return found == comms_.end() ? nullptr : &found->second;
}

const CallView* CommGraph::OldestStuck(const Member& member) const {
  const CallView* oldest = nullptr;
  for (const CallView& call : member.process->calls) {
    if (call.comm != member.comm || !IsOperation(call) || call.open_proxies == 0) continue;
    const bool is_better = oldest == nullptr || (call.kind == CallKind::kColl && oldest->kind == CallKind::kP2p) ||
                           (call.kind == oldest->kind && call.index < oldest->index);
    if (is_better) oldest = &call;
  }
  if (oldest == nullptr) return nullptr;
  // What moves is in the network operations, not in the call.
  Duration still = oldest->still;
  const auto place = static_cast<int32_t>(oldest - member.process->calls.data());
  for (const ProxyView& proxy : member.process->proxies) {
    if (proxy.call == place) still = std::min(still, proxy.still);
  }
  return still >= options_.still ? oldest : nullptr;
}

std::optional<bool> CommGraph::HasLaunched(const CommNode& comm, const Member& member,
                                           const CallView& collective) const {
  const CommView& view = member.process->comms[static_cast<size_t>(member.comm)];
  if (!comm.has_p2p) return view.operations > collective.index;
  // Sends and receives count too, and differ from rank to rank: NCCL's own number of the function tells.
  bool is_any = false;
  for (const CallView& call : member.process->calls) {
    if (call.comm != member.comm || call.kind != CallKind::kColl || call.func != collective.func) continue;
    if (call.sequence >= collective.sequence) return true;
    is_any = true;
  }
  if (is_any || view.operations == 0) return false;
  return std::nullopt;
}

bool CommGraph::AreSame(const CommNode& comm, const CallView& one, const CallView& other) {
  if (one.kind != other.kind) return false;
  if (one.kind != CallKind::kColl) return true;
  // As in HasLaunched.
  return comm.has_p2p ? one.func == other.func && one.sequence == other.sequence : one.index == other.index;
}

bool CommGraph::HasEnded(const CommNode& comm, const Member& member, const CallView& collective) {
  bool has_later = false;
  for (const CallView& call : member.process->calls) {
    if (call.comm != member.comm || call.kind != CallKind::kColl || call.proxies == 0) continue;
    if (comm.has_p2p && call.func != collective.func) continue;
    if (AreSame(comm, call, collective)) return call.open_proxies == 0;
    has_later |= comm.has_p2p ? call.sequence > collective.sequence : call.index > collective.index;
  }
  return has_later;
}

const CallView* CommGraph::OpenApiCall(const Member& member) const {
  const CallView* found = nullptr;
  for (const CallView& call : member.process->calls) {
    if (!call.is_open || !IsApi(call.kind) || call.still < options_.still) continue;
    if (call.comm >= 0 && call.comm != member.comm) continue;
    // The innermost says most.
    if (found == nullptr || call.age < found->age) found = &call;
  }
  return found;
}

const ProxyView* CommGraph::ProxyOf(const Member& member, const CallView& call, int32_t channel, bool is_send,
                                    int32_t peer) const {
  const auto place = static_cast<int32_t>(&call - member.process->calls.data());
  for (const ProxyView& proxy : member.process->proxies) {
    if (proxy.call == place && proxy.channel == channel && proxy.is_send == is_send && proxy.peer == peer)
      return &proxy;
  }
  return nullptr;
}

}  // namespace paceline::analysis
