#include "analysis/whatif/p2p_matching.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace paceline::analysis {
namespace {

constexpr double kTolerance = 50e-6;  // seconds; clocks of the streams differ by that much

struct Kind {
  OpType type;
  OpType compute;
  OpType peer;
  int neighbour;  // stage offset of the other half, and model chunk offset
  bool is_send;
};
constexpr Kind kKinds[] = {
    {OpType::kForwardSend, OpType::kForwardCompute, OpType::kForwardRecv, 1, true},
    {OpType::kForwardRecv, OpType::kForwardCompute, OpType::kForwardSend, -1, false},
    {OpType::kBackwardSend, OpType::kBackwardCompute, OpType::kBackwardRecv, -1, true},
    {OpType::kBackwardRecv, OpType::kBackwardCompute, OpType::kBackwardSend, 1, false},
};

class Matcher {
 public:
  explicit Matcher(const DependencyGraph& graph)
      : graph_(graph), can_pair_(graph.ops.size(), false), model_chunks_(CountModelChunks(graph)) {
    matching_.compute.assign(graph.ops.size(), -1);
    matching_.peer.assign(graph.ops.size(), -1);
  }

  Result<PeerToPeerMatching> Run() {
    for (int stage = 0; stage < graph_.pp_size; stage++) {
      for (const Kind& kind : kKinds) RETURN_IF_ERROR(MatchComputes(stage, kind));
    }
    for (int stage = 0; stage < graph_.pp_size; stage++) {
      for (const Kind& kind : kKinds) {
        if (kind.is_send) RETURN_IF_ERROR(Pair(stage, kind));
      }
    }
    return std::move(matching_);
  }

 private:
  static int CountModelChunks(const DependencyGraph& graph) {
    int last = 0;
    for (const GraphOp& op : graph.ops) last = std::max<int>(last, op.mc);
    return (last + 1) * graph.pp_size;
  }

  // Launched: not before the first computation's end (a send), not after the last one's start (a receive).
  std::vector<int> LaunchedOps(int stage, const Kind& kind, const std::vector<int>& computes) const {
    double last_start = 0, first_end = 0;
    for (size_t i = 0; i < computes.size(); i++) {
      const GraphOp& op = graph_.ops[static_cast<size_t>(computes[i])];
      last_start = i == 0 ? op.start : std::max(last_start, op.start);
      first_end = i == 0 ? op.end : std::min(first_end, op.end);
    }
    std::vector<int> launched = OpsInOrder(graph_, stage, {kind.type});
    const auto is_extra = [&](int index) {
      const GraphOp& op = graph_.ops[static_cast<size_t>(index)];
      return kind.is_send ? op.end < first_end - kTolerance : op.start > last_start + kTolerance;
    };
    launched.erase(std::remove_if(launched.begin(), launched.end(), is_extra), launched.end());
    return launched;
  }

  Status MatchComputes(int stage, const Kind& kind) {
    const std::vector<int> computes = OpsInOrder(graph_, stage, {kind.compute});
    if (computes.empty()) return Status();
    const std::vector<int> launched = LaunchedOps(stage, kind, computes);
    const size_t have = launched.size(), want = computes.size();
    const bool is_at_end = stage == 0 || stage == graph_.pp_size - 1;
    const bool fits = have == want || (is_at_end && (have == 0 || have + 1 == want));
    if (!fits) {
      return InvalidArgumentError(
          fmt::format("stage {}: {} {} for {} {}", stage, have, NameOf(kind.type), want, NameOf(kind.compute)));
    }
    // A first receive that is missing belongs to the first computation.
    int32_t seq = !kind.is_send && have + 1 == want ? 1 : 0;
    for (const int index : launched) {
      const int compute = graph_.Find(kind.compute, stage, seq++);
      if (compute < 0)
        return InvalidArgumentError(fmt::format("stage {}: no {} {}", stage, NameOf(kind.compute), seq - 1));
      const int peer_chunk = graph_.ops[static_cast<size_t>(compute)].gmc + kind.neighbour;
      matching_.compute[static_cast<size_t>(index)] = compute;
      can_pair_[static_cast<size_t>(index)] = peer_chunk >= 0 && peer_chunk < model_chunks_;
    }
    return Status();
  }

  std::vector<int> PairableOps(int stage, OpType type) const {
    std::vector<int> ops = OpsInOrder(graph_, stage, {type});
    ops.erase(std::remove_if(ops.begin(), ops.end(), [&](int op) { return !can_pair_[static_cast<size_t>(op)]; }),
              ops.end());
    return ops;
  }

  Status Pair(int stage, const Kind& kind) {
    const int peer_stage = (stage + kind.neighbour + graph_.pp_size) % graph_.pp_size;
    const std::vector<int> sends = PairableOps(stage, kind.type);
    const std::vector<int> receives = PairableOps(peer_stage, kind.peer);
    if (sends.size() != receives.size()) {
      return InvalidArgumentError(fmt::format("stage {} has {} {}, stage {} has {} {}: they must be as many", stage,
                                              sends.size(), NameOf(kind.type), peer_stage, receives.size(),
                                              NameOf(kind.peer)));
    }
    for (size_t i = 0; i < sends.size(); i++) {
      matching_.peer[static_cast<size_t>(sends[i])] = receives[i];
      matching_.peer[static_cast<size_t>(receives[i])] = sends[i];
    }
    return Status();
  }

  const DependencyGraph& graph_;
  PeerToPeerMatching matching_;
  std::vector<bool> can_pair_;
  const int model_chunks_;
};

}  // namespace

std::vector<int> OpsInOrder(const DependencyGraph& graph, int stage, std::initializer_list<OpType> types) {
  std::vector<int> found;
  for (size_t i = 0; i < graph.ops.size(); i++) {
    const GraphOp& op = graph.ops[i];
    if (op.stage == stage && std::find(types.begin(), types.end(), op.type) != types.end()) {
      found.push_back(static_cast<int>(i));
    }
  }
  std::sort(found.begin(), found.end(), [&](int a, int b) {
    const GraphOp& x = graph.ops[static_cast<size_t>(a)];
    const GraphOp& y = graph.ops[static_cast<size_t>(b)];
    return std::make_tuple(x.start, x.seq, NameOf(x.type)) < std::make_tuple(y.start, y.seq, NameOf(y.type));
  });
  return found;
}

Result<PeerToPeerMatching> MatchPeerToPeer(const DependencyGraph& graph) { return Matcher(graph).Run(); }

}  // namespace paceline::analysis
