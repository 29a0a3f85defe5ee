#include "analysis/whatif/dependency_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "analysis/whatif/p2p_matching.h"

namespace paceline::analysis {
namespace {

auto KeyOf(const GraphOp& op) { return std::make_tuple(op.stage, op.type, op.seq); }

// The smallest step among those with the usual number of rows on rank 0: a step that was cut off is no model.
int64_t ChooseStep(const StepTrace& trace) {
  std::map<int64_t, size_t> rows;
  for (size_t i = 0; i < trace.rows(); i++) {
    if (trace.dp_rank[i] == 0) ++rows[trace.step[i]];
  }
  std::map<size_t, size_t> frequency;
  for (const auto& [step, count] : rows) ++frequency[count];
  size_t usual = 0;
  for (const auto& [count, times] : frequency) {
    if (usual == 0 || times >= frequency[usual]) usual = count;
  }
  for (const auto& [step, count] : rows) {
    if (count == usual) return step;
  }
  return 0;
}

class Builder {
 public:
  explicit Builder(const StepTrace& trace) : trace_(trace) {}

  Result<DependencyGraph> Build() {
    RETURN_IF_ERROR(TakeOps());
    graph_.dependencies.resize(graph_.ops.size());
    ASSIGN_OR_RETURN(matching_, MatchPeerToPeer(graph_));
    AddPeerToPeerEdges();
    for (int stage = 0; stage < graph_.pp_size; stage++) {
      ChainStreams(stage);
      if (has_dp_) AddDataParallelEdges(stage);
      AddTail(stage);
    }
    for (std::vector<int>& list : graph_.dependencies) {
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
    }
    MakeUnits();
    RETURN_IF_ERROR(OrderUnits());
    return std::move(graph_);
  }

 private:
  Status TakeOps() {
    graph_.pp_size = trace_.shape.pp_size;
    const int64_t step = ChooseStep(trace_);
    for (size_t i = 0; i < trace_.rows(); i++) {
      if (trace_.type[i] == OpType::kSeparateGradsAllReduce) overlaps_dp_ = true;
      if (trace_.dp_rank[i] != 0 || trace_.step[i] != step) continue;
      const double start = trace_.start[i];
      graph_.ops.push_back({trace_.type[i], trace_.stage[i], trace_.seq[i], trace_.mc[i], trace_.gmc[i], start,
                            start + trace_.duration[i]});
    }
    has_dp_ = trace_.shape.dp_size * trace_.shape.dsp_size > 1;
    std::sort(graph_.ops.begin(), graph_.ops.end(),
              [](const GraphOp& a, const GraphOp& b) { return KeyOf(a) < KeyOf(b); });
    if (graph_.ops.empty()) return InvalidArgumentError("the trace has no rows of dp_rank 0");
    for (size_t i = 1; i < graph_.ops.size(); i++) {
      const GraphOp& op = graph_.ops[i];
      if (KeyOf(op) == KeyOf(graph_.ops[i - 1])) {
        return InvalidArgumentError(
            fmt::format("step {}: {} {} of stage {} is there twice", step, NameOf(op.type), op.seq, op.stage));
      }
    }
    return Status();
  }

  void Depend(int op, int on) {
    if (op >= 0 && on >= 0) graph_.dependencies[static_cast<size_t>(op)].push_back(on);
  }
  void Chain(const std::vector<int>& ops) {
    for (size_t i = 1; i < ops.size(); i++) Depend(ops[i], ops[i - 1]);
  }
  const GraphOp& At(int op) const { return graph_.ops[static_cast<size_t>(op)]; }
  std::vector<int> Ops(int stage, std::initializer_list<OpType> types) const {
    return OpsInOrder(graph_, stage, types);
  }

  void AddPeerToPeerEdges() {
    for (int op = 0; op < static_cast<int>(graph_.ops.size()); op++) {
      const int compute = matching_.compute[static_cast<size_t>(op)];
      if (compute < 0) continue;
      const OpType type = At(op).type;
      if (type == OpType::kForwardSend || type == OpType::kBackwardSend) {
        Depend(op, compute);
      } else {
        Depend(compute, op);
        Depend(op, graph_.Find(At(compute).type, At(compute).stage, At(compute).seq - 1));
      }
    }
  }

  void ChainStreams(int stage) {
    const std::vector<int> computes = Ops(stage, {OpType::kForwardCompute, OpType::kBackwardCompute});
    Chain(computes);
    for (const OpType type :
         {OpType::kForwardSend, OpType::kForwardRecv, OpType::kBackwardSend, OpType::kBackwardRecv}) {
      Chain(Ops(stage, {type}));
    }
    // Pipelines launch the first backward transfers one forward ahead.
    const auto first =
        std::find_if(computes.begin(), computes.end(), [&](int op) { return At(op).type == OpType::kBackwardCompute; });
    if (first == computes.end() || first - computes.begin() < 2) return;
    Depend(graph_.Find(OpType::kBackwardRecv, stage, 0), *(first - 2));
    Depend(graph_.Find(OpType::kBackwardSend, stage, 0), *(first - 2));
  }

  void AddDataParallelEdges(int stage) {
    Chain(Ops(stage, {OpType::kParamsAllGather, OpType::kGradsReduceScatter}));
    const std::vector<int> forwards = Ops(stage, {OpType::kForwardCompute});
    const std::vector<int> backwards = Ops(stage, {OpType::kBackwardCompute});
    std::map<int16_t, int> last_gather, first_scatter;  // by model chunk, by seq
    for (int op = 0; op < static_cast<int>(graph_.ops.size()); op++) {
      if (At(op).stage != stage) continue;
      if (At(op).type == OpType::kParamsAllGather) last_gather[At(op).mc] = op;
      if (At(op).type == OpType::kGradsReduceScatter) first_scatter.emplace(At(op).mc, op);
    }
    for (const auto& [mc, gather] : last_gather) {
      for (const int forward : forwards) {
        if (At(forward).mc != mc) continue;
        Depend(forward, gather);
        break;
      }
    }
    if (!overlaps_dp_) return;
    for (const auto& [mc, scatter] : first_scatter) Depend(scatter, LastToEnd(backwards, mc));
  }

  // -1 for none.
  int LastToEnd(const std::vector<int>& ops, int mc) const {
    int last = -1;
    for (const int op : ops) {
      if (mc != kAnyChunk && At(op).mc != mc) continue;
      if (last < 0 || At(op).end > At(last).end) last = op;
    }
    return last;
  }

  // From the last computation to the optimizer.
  void AddTail(int stage) {
    std::vector<int> before = {LastToEnd(Ops(stage, {OpType::kForwardCompute, OpType::kBackwardCompute}), kAnyChunk)};
    const auto follow = [&](int op) {
      if (op < 0) return;
      for (const int earlier : before) Depend(op, earlier);
      before = {op};
    };
    follow(graph_.Find(OpType::kGarbageCollection, stage, 0));
    std::vector<int> scatters = Ops(stage, {OpType::kGradsReduceScatter});
    std::sort(scatters.begin(), scatters.end(), [&](int a, int b) { return At(a).seq < At(b).seq; });
    if (has_dp_ && overlaps_dp_ && !scatters.empty()) before.push_back(scatters.back());
    follow(graph_.Find(OpType::kLayernormGradsAllReduce, stage, 0));
    if (stage == 0 || stage == graph_.pp_size - 1) follow(graph_.Find(OpType::kEmbeddingGradsAllReduce, stage, 0));
    if (has_dp_ && overlaps_dp_) follow(graph_.Find(OpType::kSeparateGradsAllReduce, stage, 0));
    if (has_dp_ && !overlaps_dp_) {
      for (const int scatter : scatters) follow(scatter);
    }
    follow(graph_.Find(OpType::kClipMainGrad, stage, 0));
    follow(graph_.Find(OpType::kOptimizer, stage, 0));
  }

  void MakeUnits() {
    graph_.unit_of.assign(graph_.ops.size(), -1);
    GraphUnit embedding{{}, true, false}, clip{{}, true, true};
    const auto add = [&](GraphUnit unit) {
      if (unit.ops.empty()) return;
      for (const int op : unit.ops) graph_.unit_of[static_cast<size_t>(op)] = static_cast<int>(graph_.units.size());
      graph_.units.push_back(std::move(unit));
    };
    for (int op = 0; op < static_cast<int>(graph_.ops.size()); op++) {
      const OpType type = At(op).type;
      const int stage = At(op).stage;
      if (IsPeerToPeer(type)) {
        const int peer = matching_.peer[static_cast<size_t>(op)];
        if (peer < 0) add({{op}, true, false});
        if (peer > op) add({{op, peer}, true, false});
      } else if (type == OpType::kEmbeddingGradsAllReduce && (stage == 0 || stage == graph_.pp_size - 1)) {
        embedding.ops.push_back(op);
      } else if (type == OpType::kClipMainGrad) {
        clip.ops.push_back(op);
      } else {
        const bool is_group = has_dp_ && IsDataParallel(type);
        add({{op}, is_group, is_group});
      }
    }
    add(embedding);
    add(clip);
  }

  // Kahn's algorithm over the units.
  Status OrderUnits() {
    const size_t count = graph_.units.size();
    std::vector<std::set<int>> next(count);
    std::vector<int> waiting(count, 0);
    for (size_t op = 0; op < graph_.ops.size(); op++) {
      for (const int dependency : graph_.dependencies[op]) {
        const int from = graph_.unit_of[static_cast<size_t>(dependency)], to = graph_.unit_of[op];
        if (next[static_cast<size_t>(from)].insert(to).second) ++waiting[static_cast<size_t>(to)];
      }
    }
    std::vector<int> order;
    for (size_t unit = 0; unit < count; unit++) {
      if (waiting[unit] == 0) order.push_back(static_cast<int>(unit));
    }
    for (size_t i = 0; i < order.size(); i++) {
      for (const int unit : next[static_cast<size_t>(order[i])]) {
        if (--waiting[static_cast<size_t>(unit)] == 0) order.push_back(unit);
      }
    }
    if (order.size() != count) return CircleError(waiting);
    std::vector<GraphUnit> ordered;
    for (const int unit : order) {
      for (const int op : graph_.units[static_cast<size_t>(unit)].ops) {
        graph_.unit_of[static_cast<size_t>(op)] = static_cast<int>(ordered.size());
      }
      ordered.push_back(std::move(graph_.units[static_cast<size_t>(unit)]));
    }
    graph_.units = std::move(ordered);
    return Status();
  }

  Status CircleError(const std::vector<int>& waiting) const {
    for (size_t unit = 0; unit < waiting.size(); unit++) {
      if (waiting[unit] == 0) continue;
      const GraphOp& op = At(graph_.units[unit].ops.front());
      return InvalidArgumentError(
          fmt::format("operations wait for each other in a circle, {} {} of stage {} among them", NameOf(op.type),
                      op.seq, op.stage));
    }
    return InternalError("no circle");
  }

  static constexpr int kAnyChunk = -2;

  const StepTrace& trace_;
  DependencyGraph graph_;
  PeerToPeerMatching matching_;
  bool has_dp_ = false;
  bool overlaps_dp_ = false;
};

}  // namespace

int DependencyGraph::Find(OpType type, int stage, int32_t seq) const {
  GraphOp wanted;
  wanted.type = type;
  wanted.stage = static_cast<int16_t>(stage);
  wanted.seq = seq;
  const auto found = std::lower_bound(ops.begin(), ops.end(), wanted,
                                      [](const GraphOp& a, const GraphOp& b) { return KeyOf(a) < KeyOf(b); });
  return found != ops.end() && KeyOf(*found) == KeyOf(wanted) ? static_cast<int>(found - ops.begin()) : -1;
}

size_t DependencyGraph::edge_count() const {
  size_t count = 0;
  for (const std::vector<int>& list : dependencies) count += list.size();
  return count;
}

Result<DependencyGraph> BuildDependencyGraph(const StepTrace& trace) { return Builder(trace).Build(); }

}  // namespace paceline::analysis
