#include "analysis/root_cause.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "analysis/comm_graph.h"
#include "analysis/device_faults.h"
#include "analysis/edge_cause.h"
#include "analysis/mismatch.h"

namespace paceline::analysis {

namespace {

constexpr double kStandsOut = 3;  // times the share of the next
constexpr size_t kMaxDepth = 64;  // communicators in one chain; jobs have a handful

std::string JoinRanks(const std::vector<const ProcessView*>& processes) {
  std::string text;
  for (size_t i = 0; i < processes.size() && i < 8; i++) text += (i == 0 ? "" : ", ") + RankName(*processes[i]);
  if (processes.size() > 8) text += fmt::format(" and {} more", processes.size() - 8);
  return text;
}

void AddUnique(std::vector<const ProcessView*>& processes, const ProcessView* process) {
  if (std::find(processes.begin(), processes.end(), process) == processes.end()) processes.push_back(process);
}

void SetCulprits(Verdict& verdict, const std::vector<const ProcessView*>& processes) {
  verdict.culprits.clear();
  for (const ProcessView* process : processes) verdict.culprits.push_back(CulpritOf(*process));
}

std::optional<Verdict> JudgeLiveness(const Tables& tables) {
  std::vector<const ProcessView*> dead, stopped;
  for (const ProcessView& process : tables.processes) {
    if (process.state == ProcessState::kDead) dead.push_back(&process);
    if (process.state == ProcessState::kStopped) stopped.push_back(&process);
  }
  if (dead.empty() && stopped.empty()) return std::nullopt;
  const bool is_anyone_left = std::any_of(tables.processes.begin(), tables.processes.end(), [](const auto& process) {
    return process.state != ProcessState::kDead && process.state != ProcessState::kFinished;
  });
  if (!is_anyone_left) {
    Verdict over;
    over.category = Category::kNone;
    over.cause = "all processes have ended";
    return over;
  }
  Verdict verdict;
  verdict.category = dead.empty() ? Category::kHostStuck : Category::kProcessLost;
  verdict.confidence = 0.95;
  if (!dead.empty()) {
    // Others often end because of the first.
    auto ended_for = [](const ProcessView* process) { return process->ended_for.value_or(Duration::zero()); };
    const auto first = *std::max_element(dead.begin(), dead.end(),
                                         [&](const auto* a, const auto* b) { return ended_for(a) < ended_for(b); });
    std::vector<const ProcessView*> firsts;
    for (const ProcessView* process : dead) {
      if (ended_for(first) - ended_for(process) < std::chrono::milliseconds(500)) firsts.push_back(process);
    }
    SetCulprits(verdict, firsts);
    verdict.cause = fmt::format("the process of {} has ended", JoinRanks(firsts));
    verdict.evidence = {{"processes that ended", static_cast<double>(dead.size()), "", {}},
                        {"first seen ended before", Seconds(ended_for(first)), "s", {}}};
    if (firsts.size() > 1) verdict.confidence = 0.7;
    return verdict;
  }
  SetCulprits(verdict, stopped);
  verdict.cause = fmt::format("the process of {} is stopped, by a signal or a debugger", JoinRanks(stopped));
  verdict.evidence = {{"stopped processes", static_cast<double>(stopped.size()), "", {}}};
  return verdict;
}

class Walk {
 public:
  explicit Walk(const CommGraph& graph) : graph_(graph) {}

  // Why the operation that `member` of `comm` is stuck in does not end.
  Verdict Follow(const CommNode& comm, const Member& member);
  // A rank whose proxy thread lacks a processor for at least `share` of the time, and for much longer than the others':
  // where all lack it the node is busy, and that alone stops nobody.
  std::optional<Verdict> JudgeStarved(const CommNode& comm, double share) const;

 private:
  // Where a rank is that others wait for in `comm`.
  Verdict FollowAbsent(const CommNode& comm, const Member& absent, const CallView& waiting, double confidence);
  // The communicator beside `comm` in which the process has been stuck for longest; null when there is none.
  const CommNode* StuckElsewhere(const CommNode& comm, const Member& member, Duration older_than, Member& there) const;
  Verdict FollowCollective(const CommNode& comm, const CallView& waiting);
  Verdict FollowP2p(const CommNode& comm, const Member& member, const CallView& waiting);
  Verdict JudgeEdges(const CommNode& comm, const std::vector<std::pair<const Member*, const CallView*>>& stuck);
  Verdict FromFinding(const CommNode& comm, const std::vector<Finding>& winners, double share);
  Verdict Deadlock(const CommNode& comm) const;
  void Finish(const CommNode& comm, Verdict& verdict) const;

  const CommGraph& graph_;
  std::vector<std::string> path_;
  std::set<std::pair<uint64_t, int32_t>> visited_;  // communicator and, for sends and receives, rank
  std::vector<const ProcessView*> chain_;
};

void Walk::Finish(const CommNode& comm, Verdict& verdict) const {
  verdict.communicator = comm.name;
  verdict.path = path_;
  const std::vector<int32_t> unseen = comm.UnseenRanks();
  if (unseen.empty()) return;
  const double seen = static_cast<double>(comm.members.size()) / (comm.members.size() + unseen.size());
  verdict.confidence *= 0.5 + 0.5 * seen;
  std::string ranks;
  for (size_t i = 0; i < unseen.size() && i < 8; i++) ranks += (i == 0 ? "" : ", ") + std::to_string(unseen[i]);
  if (unseen.size() > 8) ranks += ", ...";
  verdict.not_visible.push_back(
      fmt::format("no tables of {} of the {} ranks of {}: {}", unseen.size(), comm.ranks, comm.name, ranks));
}

Verdict Walk::Deadlock(const CommNode& comm) const {
  Verdict verdict;
  verdict.category = Category::kDeadlock;
  std::string comms;
  for (const std::string& name : path_) comms += (comms.empty() ? "" : ", ") + name;
  verdict.cause =
      fmt::format("communicators wait for each other in a circle ({}): the ranks launch in different orders", comms);
  SetCulprits(verdict, chain_);
  verdict.confidence = 0.85;
  Finish(comm, verdict);
  return verdict;
}

Verdict Walk::Follow(const CommNode& comm, const Member& member) {
  const CallView* waiting = graph_.OldestStuck(member);
  Verdict unknown;
  Finish(comm, unknown);
  if (waiting == nullptr || path_.size() > kMaxDepth) {
    unknown.cause = "what is waited for could not be followed";
    return unknown;
  }
  const bool is_collective = waiting->kind == CallKind::kColl;
  const int32_t rank = member.process->comms[static_cast<size_t>(member.comm)].rank;
  if (!visited_.insert({comm.id, is_collective ? -1 : rank}).second) return Deadlock(comm);
  path_.push_back(comm.name);
  return is_collective ? FollowCollective(comm, *waiting) : FollowP2p(comm, member, *waiting);
}

const CommNode* Walk::StuckElsewhere(const CommNode& comm, const Member& member, Duration older_than,
                                     Member& there) const {
  const CommNode* found = nullptr;
  Duration oldest = older_than;
  for (size_t i = 0; i < member.process->comms.size(); i++) {
    const CommView& view = member.process->comms[i];
    const CommNode* node = graph_.Find(view.id);
    if (node == nullptr || node == &comm || !view.is_open) continue;
    const Member candidate{member.process, static_cast<int32_t>(i)};
    const CallView* stuck = graph_.OldestStuck(candidate);
    if (stuck == nullptr || stuck->age <= oldest) continue;
    oldest = stuck->age;
    found = node;
    there = candidate;
  }
  return found;
}

Verdict Walk::FollowAbsent(const CommNode& comm, const Member& absent, const CallView& waiting, double confidence) {
  AddUnique(chain_, absent.process);
  const std::string name = RankName(*absent.process);
  Member there;
  if (const CommNode* other = StuckElsewhere(comm, absent, Duration::zero(), there)) return Follow(*other, there);
  Verdict verdict;
  SetCulprits(verdict, {absent.process});
  const CommView& view = absent.process->comms[static_cast<size_t>(absent.comm)];
  verdict.evidence = {{"operations launched by it", static_cast<double>(view.operations), "", {}},
                      {"operation that the others are in", static_cast<double>(waiting.index), "", {}},
                      {"waited for", Seconds(waiting.age), "s", {}}};
  if (const CallView* api = graph_.OpenApiCall(absent)) {
    verdict.category = Category::kHostStuck;
    verdict.cause = fmt::format("{} is inside the NCCL call of {} and does not come back", name,
                                api->func.empty() ? waiting.func : api->func);
    verdict.evidence.push_back({"inside the call for", Seconds(api->age), "s", {}});
    verdict.confidence = confidence;
  } else {
    verdict.category = Category::kNotLaunched;
    verdict.cause = fmt::format("{} has not launched the {} that the others are in", name, waiting.func);
    verdict.confidence = confidence;
    if (absent.process->abi < 5) {
      verdict.not_visible.push_back("whether it is inside an NCCL call: this NCCL does not tell (before 2.28)");
    }
  }
  Finish(comm, verdict);
  return verdict;
}

Verdict Walk::FollowCollective(const CommNode& comm, const CallView& given) {
  // The oldest operation that anybody waits in.
  const CallView* waiting = &given;
  std::vector<std::pair<const Member*, const CallView*>> stuck;
  for (const auto& [rank, member] : comm.members) {
    const CallView* call = graph_.OldestStuck(member);
    if (call == nullptr || call->kind != CallKind::kColl) continue;
    stuck.emplace_back(&member, call);
    const bool is_older =
        comm.has_p2p ? call->func == waiting->func && call->sequence < waiting->sequence : call->index < waiting->index;
    if (is_older) waiting = call;
  }
  for (const auto& [member, call] : stuck) AddUnique(chain_, member->process);
  std::optional<Verdict> best;
  size_t absent_count = 0, unclear = 0;
  for (const auto& [rank, member] : comm.members) {
    const std::optional<bool> has_launched = graph_.HasLaunched(comm, member, *waiting);
    unclear += has_launched.has_value() ? 0 : 1;
    if (has_launched.value_or(true)) continue;
    absent_count++;
    const auto saved = std::tuple(path_, visited_, chain_);
    Verdict verdict = FollowAbsent(comm, member, *waiting, 0.9);
    std::tie(path_, visited_, chain_) = saved;
    if (!best || verdict.confidence > best->confidence) {
      best = std::move(verdict);
    } else if (verdict.category == best->category && verdict.communicator == best->communicator) {
      for (Culprit& culprit : verdict.culprits) {
        const bool is_new = std::find(best->culprits.begin(), best->culprits.end(), culprit) == best->culprits.end();
        if (is_new) best->culprits.push_back(std::move(culprit));
      }
    }
  }
  if (best) {
    best->evidence.push_back({"ranks that are not in it", static_cast<double>(absent_count), "", {}});
    return *best;
  }
  std::erase_if(stuck, [&](const auto& entry) { return entry.second->index != waiting->index && !comm.has_p2p; });
  Verdict verdict = JudgeEdges(comm, stuck);
  if (unclear > 0) {
    verdict.confidence *= 0.7;
    verdict.not_visible.push_back(fmt::format("whether {} ranks have launched it", unclear));
  }
  return verdict;
}

Verdict Walk::FollowP2p(const CommNode& comm, const Member& member, const CallView& waiting) {
  AddUnique(chain_, member.process);
  const auto peer = comm.members.find(waiting.peer);
  if (peer == comm.members.end()) {
    Verdict verdict;
    verdict.cause = fmt::format("{} waits for rank {} of {}, of which there are no tables", RankName(*member.process),
                                waiting.peer, comm.name);
    Finish(comm, verdict);
    return verdict;
  }
  const int32_t self = member.process->comms[static_cast<size_t>(member.comm)].rank;
  const CallView* theirs = graph_.OldestStuck(peer->second);
  if (theirs != nullptr && theirs->kind == CallKind::kP2p && theirs->peer == self) {
    return JudgeEdges(comm, {{&member, &waiting}, {&peer->second, theirs}});
  }
  // The peer may be in an exchange with somebody else on this communicator.
  if (theirs != nullptr) return Follow(comm, peer->second);
  return FollowAbsent(comm, peer->second, waiting, 0.65);
}

std::optional<Verdict> Walk::JudgeStarved(const CommNode& comm, double least) const {
  const ProcessView* worst = nullptr;
  double worst_share = least;
  double others = 0;
  for (const auto& [rank, member] : comm.members) {
    if (!member.process->proxy_thread) continue;
    const double share = std::max(member.process->proxy_thread->waiting, member.process->proxy_thread->throttled);
    if (share < worst_share) {
      others = std::max(others, share);
      continue;
    }
    if (worst != nullptr) others = std::max(others, worst_share);
    worst = member.process;
    worst_share = share;
  }
  if (worst == nullptr || others * kStandsOut > worst_share) return std::nullopt;
  Verdict verdict;
  verdict.category = Category::kProxyStarved;
  verdict.cause = fmt::format("the proxy thread of {} gets too little processor time", RankName(*worst));
  verdict.confidence = 0.85;
  SetCulprits(verdict, {worst});
  verdict.evidence = {{"ready to run on no processor", worst->proxy_thread->waiting, "of the time", {}},
                      {"throttled by its cgroup", worst->proxy_thread->throttled, "of the time", {}},
                      {"the next worst rank", others, "of the time", {}}};
  Finish(comm, verdict);
  return verdict;
}

Verdict Walk::FromFinding(const CommNode& comm, const std::vector<Finding>& winners, double share) {
  const Finding& first = *std::min_element(winners.begin(), winners.end(),
                                           [](const Finding& a, const Finding& b) { return a.progress < b.progress; });
  Verdict verdict;
  verdict.category = first.category;
  verdict.cause = first.cause;
  verdict.evidence = first.evidence;
  verdict.evidence.push_back({"observations that agree", static_cast<double>(winners.size()), "", {}});
  verdict.confidence = first.confidence * (0.5 + 0.5 * share);
  SetCulprits(verdict, {first.culprit});
  if (first.edge_from != nullptr) {
    verdict.edge = VerdictEdge{first.edge_from->world_rank, first.edge_to->world_rank, first.channel};
    if (first.category == Category::kNetwork) SetCulprits(verdict, {first.edge_from, first.edge_to});
  }
  Finish(comm, verdict);
  return verdict;
}

Verdict Walk::JudgeEdges(const CommNode& comm, const std::vector<std::pair<const Member*, const CallView*>>& stuck) {
  if (std::optional<Verdict> starved = JudgeStarved(comm, graph_.options().stopped_share)) return *starved;
  using Key = std::tuple<Category, const ProcessView*, const ProcessView*>;
  std::map<Key, std::vector<Finding>> groups;
  double total = 0;
  for (const auto& [member, call] : stuck) {
    for (Finding& finding : FindingsOf(graph_, comm, *member, *call)) {
      total += finding.confidence;
      const ProcessView* one = finding.edge_from != nullptr ? finding.edge_from : finding.culprit;
      groups[{finding.category, one, finding.edge_to}].push_back(std::move(finding));
    }
  }
  const std::vector<Finding>* best = nullptr;
  double best_weight = 0;
  for (const auto& [key, group] : groups) {
    double weight = 0;
    for (const Finding& finding : group) weight += finding.confidence;
    if (weight <= best_weight) continue;
    best = &group;
    best_weight = weight;
  }
  if (best == nullptr) {
    Verdict verdict;
    verdict.cause = "all ranks that can be seen are in the operation and wait for others";
    verdict.not_visible.push_back("hops within a node");
    Finish(comm, verdict);
    return verdict;
  }
  // A kernel that has not begun may stand behind an older one of another communicator.
  const Finding& finding = best->front();
  if (finding.category == Category::kGpuStuck) {
    for (const auto& [member, call] : stuck) {
      Member there;
      if (member->process != finding.culprit) continue;
      if (const CommNode* other = StuckElsewhere(comm, *member, call->age, there)) return Follow(*other, there);
    }
  }
  return FromFinding(comm, *best, best_weight / total);
}

// Where nothing goes over the network: ranks that stand still at different places.
Verdict JudgeSilent(const CommGraph& graph) {
  Verdict none;
  none.category = Category::kNone;
  none.cause = "nothing stands still that should go on";
  none.confidence = 0.5;
  for (const auto& [id, comm] : graph.comms()) {
    if (comm.has_p2p || comm.members.size() < 2) continue;
    uint64_t most = 0;
    bool is_silent = true;
    for (const auto& [rank, member] : comm.members) {
      most = std::max(most, member.process->comms[static_cast<size_t>(member.comm)].operations);
      for (const CallView& call : member.process->calls) {
        is_silent = is_silent && (call.comm != member.comm || call.still >= graph.options().still);
      }
    }
    std::vector<const ProcessView*> behind;
    const CallView* api = nullptr;
    for (const auto& [rank, member] : comm.members) {
      if (member.process->comms[static_cast<size_t>(member.comm)].operations == most) continue;
      behind.push_back(member.process);
      if (api == nullptr) api = graph.OpenApiCall(member);
    }
    if (!is_silent || behind.empty()) continue;
    Verdict verdict;
    verdict.category = api != nullptr ? Category::kHostStuck : Category::kNotLaunched;
    verdict.cause = fmt::format(
        "{} {}", JoinRanks(behind),
        api != nullptr ? "is inside an NCCL call and does not come back" : "has launched fewer operations than others");
    SetCulprits(verdict, behind);
    verdict.communicator = comm.name;
    verdict.path = {comm.name};
    verdict.confidence = api != nullptr ? 0.6 : 0.45;
    verdict.not_visible = {"hops within a node: whether the others wait for it is not told"};
    return verdict;
  }
  return none;
}

// Nothing stands still: at most somebody is slow.
Verdict JudgeMoving(const CommGraph& graph) {
  for (const auto& [id, comm] : graph.comms()) {
    const bool is_busy = std::any_of(comm.members.begin(), comm.members.end(), [](const auto& entry) {
      const Member& member = entry.second;
      return std::any_of(member.process->calls.begin(), member.process->calls.end(),
                         [&](const CallView& call) { return call.comm == member.comm && call.open_proxies > 0; });
    });
    std::optional<Verdict> starved =
        is_busy ? Walk(graph).JudgeStarved(comm, graph.options().starved_share) : std::nullopt;
    if (!starved) continue;
    starved->confidence *= 0.8;
    return *starved;
  }
  return JudgeSilent(graph);
}

Verdict Walked(const Tables& tables, const DiagnoseOptions& options) {
  if (std::optional<Verdict> verdict = JudgeLiveness(tables)) return *verdict;
  const CommGraph graph(tables, options);
  if (std::optional<Verdict> verdict = FindMismatch(graph)) return *verdict;
  const CommNode* start = nullptr;
  const Member* from = nullptr;
  Duration longest{-1};
  for (const auto& [id, comm] : graph.comms()) {
    for (const auto& [rank, member] : comm.members) {
      const CallView* stuck = graph.OldestStuck(member);
      if (stuck == nullptr || stuck->age <= longest) continue;
      longest = stuck->age;
      start = &comm;
      from = &member;
    }
  }
  if (start == nullptr) return JudgeMoving(graph);
  return Walk(graph).Follow(*start, *from);
}

}  // namespace

Verdict Diagnose(const Tables& tables, const DiagnoseOptions& options) {
  Verdict verdict = Walked(tables, options);
  for (const std::string& missing : tables.missing) verdict.not_visible.push_back("no answer of " + missing);
  size_t without_steps = 0, with_drops = 0;
  for (const ProcessView& process : tables.processes) {
    without_steps += process.has_steps ? 0 : 1;
    with_drops += process.drops > 0 ? 1 : 0;
  }
  if (without_steps > 0)
    verdict.not_visible.push_back(fmt::format("steps of {} processes: switched off", without_steps));
  if (with_drops > 0) verdict.not_visible.push_back(fmt::format("events that {} processes dropped", with_drops));
  // An agent that is silent may hold the rank that all wait for.
  if (!tables.missing.empty() && verdict.category == Category::kNone) {
    verdict.category = Category::kUnknown;
    verdict.cause = "nothing stands still where there are tables";
    verdict.confidence = 0;
  }
  if (tables.processes.empty()) {
    verdict.category = Category::kUnknown;
    verdict.cause = "there are no tables";
    verdict.confidence = 0;
  }
  AddDeviceFaults(tables, &verdict);
  return verdict;
}

}  // namespace paceline::analysis
