#include "analysis/edge_cause.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace paceline::analysis {

namespace {

// Steps of a connection that NCCL keeps under way at least. Grouped sends and receives share their slots, down to one.
uint64_t Depth(const CallView& call) { return call.kind == CallKind::kColl ? 8 : 1; }

// All that the cause table looks at for one rank and channel.
struct Place {
  const CommGraph& graph;
  const CommNode& comm;
  const Member& member;
  const CallView& stuck;
  int32_t channel = 0;
  const ProxyView* send = nullptr;     // ours, null: none goes on
  const ProxyView* receive = nullptr;  // ours
};

std::vector<Evidence> Counters(const ProxyView& proxy) {
  return {
      {proxy.is_send ? "send steps offered to the GPU" : "receives posted", static_cast<double>(proxy.posted), "", {}},
      {proxy.is_send ? "filled by the GPU" : "received", static_cast<double>(proxy.ready), "", {}},
      {proxy.is_send ? "given to the network" : "visible to the GPU", static_cast<double>(proxy.moved), "", {}},
      {proxy.is_send ? "sent" : "consumed by the GPU", static_cast<double>(proxy.done), "", {}},
      {"steps", static_cast<double>(proxy.steps), "", {}},
      {"no change for", Seconds(proxy.still), "s", {}}};
}

const ProcessView* ProcessOf(const Place& place, int32_t rank) {
  const auto found = place.comm.members.find(rank);
  return found == place.comm.members.end() ? nullptr : found->second.process;
}

// The other end of one of our operations; null when its rank, or the operation there, is not to be seen. Counts of
// another operation of that rank say nothing of ours.
const ProxyView* Opposite(const Place& place, const ProxyView& proxy) {
  const auto found = place.comm.members.find(proxy.peer);
  if (found == place.comm.members.end()) return nullptr;
  const CallView* call = place.graph.OldestStuck(found->second);
  const int32_t self = place.member.process->comms[static_cast<size_t>(place.member.comm)].rank;
  if (call == nullptr || !CommGraph::AreSame(place.comm, *call, place.stuck)) return nullptr;
  return place.graph.ProxyOf(found->second, *call, proxy.channel, !proxy.is_send, self);
}

Finding NewFinding(const Place& place, Category category, const ProxyView& proxy, double confidence) {
  Finding finding;
  finding.category = category;
  finding.culprit = place.member.process;
  finding.channel = place.channel;
  finding.confidence = confidence;
  finding.progress = proxy.done;
  finding.evidence = Counters(proxy);
  return finding;
}

bool BeginsWithOwnData(const CallView& call) {
  return call.kind == CallKind::kP2p || call.func == "AllReduce" || call.func == "ReduceScatter" ||
         call.func == "AllGather";
}

// Data has come, room to send is there, and the kernel uses neither.
void JudgeGpu(const Place& place, std::vector<Finding>& findings) {
  const ProxyView* send = place.send;
  const ProxyView* receive = place.receive;
  const std::string name = RankName(*place.member.process);
  const bool has_data = receive != nullptr && receive->moved > receive->done;
  const bool has_room = send != nullptr && send->posted > send->ready;
  const bool has_begun = (send != nullptr && send->ready > 0) || (receive != nullptr && receive->done > 0);
  const bool must_begin = send != nullptr && BeginsWithOwnData(place.stuck) && place.stuck.algo != "TREE";
  if (must_begin && has_room && send->ready == 0) {
    Finding finding = NewFinding(place, Category::kGpuStuck, *send, has_data ? 0.9 : 0.8);
    finding.cause = fmt::format("{} has launched the collective, but its kernel has not begun to send", name);
    if (has_data) finding.evidence.push_back({"received and unused", static_cast<double>(receive->moved), "steps", {}});
    findings.push_back(std::move(finding));
  } else if (has_data && (has_room || send == nullptr)) {
    Finding finding = NewFinding(place, Category::kGpuStuck, *receive, has_begun ? 0.8 : 0.85);
    finding.cause = fmt::format("the kernel of {} does not use data that has arrived", name);
    findings.push_back(std::move(finding));
  } else if (has_room && send->moved == send->ready && receive == nullptr) {
    // What feeds this send is within the node, where nothing is told.
    Finding finding = NewFinding(place, Category::kGpuStuck, *send, 0.4);
    finding.cause = fmt::format("{} or a rank before it on its node does not fill what it should send", name);
    findings.push_back(std::move(finding));
  }
}

void JudgeSend(const Place& place, std::vector<Finding>& findings) {
  const ProxyView& send = *place.send;
  const ProcessView* peer = ProcessOf(place, send.peer);
  if (peer == nullptr) return;
  const ProxyView* opposite = Opposite(place, send);
  const std::string link = fmt::format("from {} to {}", RankName(*place.member.process), RankName(*peer));
  if (send.moved > send.done) {
    // Sent by the network's word and not received, or not even sent.
    Finding finding = NewFinding(place, Category::kNetwork, send, 0.75);
    finding.cause = fmt::format("the network does not carry on what is sent {}", link);
    finding.edge_from = place.member.process;
    finding.edge_to = peer;
    findings.push_back(std::move(finding));
  } else if (send.ready > send.moved && opposite != nullptr) {
    const bool is_full = opposite->posted >= std::min(opposite->steps, opposite->done + Depth(place.stuck));
    const bool offers = opposite->posted > opposite->ready;
    if (!is_full) {
      Finding finding = NewFinding(place, Category::kReceiverNotReady, *opposite, 0.7);
      finding.cause =
          fmt::format("{} does not post receives for what {} sends", RankName(*peer), RankName(*place.member.process));
      finding.culprit = peer;
      finding.edge_from = place.member.process;
      finding.edge_to = peer;
      findings.push_back(std::move(finding));
    } else if (offers) {
      Finding finding = NewFinding(place, Category::kNetwork, send, 0.6);
      finding.cause =
          fmt::format("{} has posted receives, and the word of it does not arrive {}", RankName(*peer), link);
      finding.edge_from = place.member.process;
      finding.edge_to = peer;
      findings.push_back(std::move(finding));
    }
  } else if (send.posted < std::min(send.steps, send.done + Depth(place.stuck))) {
    Finding finding = NewFinding(place, Category::kProxyStarved, send, 0.6);
    finding.cause = fmt::format("the proxy thread of {} does not go on", RankName(*place.member.process));
    findings.push_back(std::move(finding));
  }
}

// Both directions of a channel begin together.
bool HasEndedSending(const Place& place, const Member& peer) {
  const CallView* call = place.graph.OldestStuck(peer);
  if (call == nullptr || !CommGraph::AreSame(place.comm, *call, place.stuck) || peer.process->drops > 0) return false;
  const auto number = static_cast<int32_t>(call - peer.process->calls.data());
  bool has_receive = false;
  for (const ProxyView& proxy : peer.process->proxies) {
    if (proxy.call != number || proxy.channel != place.channel) continue;
    if (proxy.is_send) return false;
    has_receive = true;
  }
  return has_receive;
}

// What the peer has sent, in steps, as far as that is known to be more than what has come.
std::optional<uint64_t> SentAndNotArrived(const Place& place, const ProxyView& receive) {
  const ProxyView* opposite = Opposite(place, receive);
  if (opposite != nullptr) {
    const bool is_sent = opposite->done > receive.ready && opposite->moved == opposite->done;
    return is_sent ? std::optional(opposite->done) : std::nullopt;
  }
  const auto peer = place.comm.members.find(receive.peer);
  if (place.stuck.kind != CallKind::kColl || peer == place.comm.members.end()) return std::nullopt;
  // Who has ended the collective has sent all of it: the last steps may lie in the network's buffers for ever. So has a
  // peer that still receives in it and no longer sends to us.
  const bool has_sent_all =
      CommGraph::HasEnded(place.comm, peer->second, place.stuck) || HasEndedSending(place, peer->second);
  return has_sent_all && receive.steps > receive.ready ? std::optional(receive.steps) : std::nullopt;
}

void JudgeReceive(const Place& place, std::vector<Finding>& findings) {
  const ProxyView& receive = *place.receive;
  if (receive.ready > receive.moved) {
    Finding finding = NewFinding(place, Category::kIntraNodeLink, receive, 0.6);
    finding.cause = fmt::format("data that {} received does not become visible to its GPU (flush over PCIe)",
                                RankName(*place.member.process));
    findings.push_back(std::move(finding));
  }
  const ProcessView* peer = ProcessOf(place, receive.peer);
  if (peer == nullptr || receive.posted <= receive.ready) return;
  const std::optional<uint64_t> sent = SentAndNotArrived(place, receive);
  if (!sent) return;
  Finding finding = NewFinding(place, Category::kNetwork, receive, 0.7);
  finding.cause =
      fmt::format("what {} has sent has not arrived at {}", RankName(*peer), RankName(*place.member.process));
  finding.evidence.push_back({"sent by the peer", static_cast<double>(*sent), "steps", {}});
  finding.edge_from = peer;
  finding.edge_to = place.member.process;
  findings.push_back(std::move(finding));
}

}  // namespace

std::vector<Finding> FindingsOf(const CommGraph& graph, const CommNode& comm, const Member& member,
                                const CallView& stuck) {
  std::map<int32_t, Place> places;
  const auto call = static_cast<int32_t>(&stuck - member.process->calls.data());
  for (const ProxyView& proxy : member.process->proxies) {
    if (proxy.call != call) continue;
    Place& place = places.try_emplace(proxy.channel, Place{graph, comm, member, stuck, proxy.channel}).first->second;
    (proxy.is_send ? place.send : place.receive) = &proxy;
  }
  std::vector<Finding> findings;
  for (const auto& [channel, place] : places) {
    // What has moved a moment ago goes on.
    const bool is_moving = (place.send != nullptr && place.send->still < graph.options().still) ||
                           (place.receive != nullptr && place.receive->still < graph.options().still);
    if (is_moving) continue;
    JudgeGpu(place, findings);
    if (place.send != nullptr) JudgeSend(place, findings);
    if (place.receive != nullptr) JudgeReceive(place, findings);
  }
  return findings;
}

}  // namespace paceline::analysis
