#include "tests/whatif/synthetic_trace.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace paceline::analysis {
namespace {

// One step on one data-parallel rank up to the end of its computations.
class Pipeline {
 public:
  Pipeline(const SyntheticJob& job, int dp_rank, int step) : job_(job), dp_rank_(dp_rank), step_(step) {}

  int per_direction() const { return job_.vpp * job_.micro_batches; }
  // Of the k-th forward (or backward) of a stage; backward goes through the chunks from the last.
  int ChunkOf(bool is_forward, int k) const {
    const int chunk = k / job_.micro_batches;
    return is_forward ? chunk : job_.vpp - 1 - chunk;
  }
  int ModelChunk(bool is_forward, int stage, int k) const { return ChunkOf(is_forward, k) * job_.pp + stage; }

  double Seconds(bool is_forward, int stage, int k) const {
    const OpType type = is_forward ? OpType::kForwardCompute : OpType::kBackwardCompute;
    return (is_forward ? job_.forward : job_.backward) * job_.scale(type, dp_rank_, stage, step_, k);
  }
  double End(bool is_forward, int stage, int k) { return Start(is_forward, stage, k) + Seconds(is_forward, stage, k); }

  double Start(bool is_forward, int stage, int k) {
    const auto key = std::make_tuple(is_forward, stage, k);
    const auto known = starts_.find(key);
    if (known != starts_.end()) return known->second;
    double start = 0;
    if (k > 0) start = End(is_forward, stage, k - 1);
    if (k == 0 && !is_forward) start = End(true, stage, per_direction() - 1);
    if (HasDataParallel() && is_forward) start = std::max(start, (ChunkOf(true, k) + 1) * job_.gather);
    if (HasSender(is_forward, stage, k)) start = std::max(start, RecvEnd(is_forward, stage, k));
    return starts_[key] = start;
  }

  bool HasDataParallel() const { return job_.dp > 1; }
  bool HasSender(bool is_forward, int stage, int k) const {
    const int from = ModelChunk(is_forward, stage, k) + (is_forward ? -1 : 1);
    return from >= 0 && from < job_.pp * job_.vpp;
  }
  bool HasReceiver(bool is_forward, int stage, int k) const {
    const int to = ModelChunk(is_forward, stage, k) + (is_forward ? 1 : -1);
    return to >= 0 && to < job_.pp * job_.vpp;
  }
  // With one chunk per stage, nothing is recorded at the ends of the pipeline; with more, no-ops are.
  bool IsRecorded(bool has_peer) const { return has_peer || job_.vpp > 1; }

  // When the receive is posted: after the computation before.
  double RecvStart(bool is_forward, int stage, int k) {
    double start = k > 0 ? End(is_forward, stage, k - 1) : 0;
    if (!is_forward && k == 0 && per_direction() > 1) start = End(true, stage, per_direction() - 2);
    if (k > 0 && HasSender(is_forward, stage, k - 1)) start = std::max(start, RecvEnd(is_forward, stage, k - 1));
    return start;
  }
  double RecvEnd(bool is_forward, int stage, int k) {
    const int sender = (stage + (is_forward ? -1 : 1) + job_.pp) % job_.pp;
    const bool wraps = is_forward ? stage == 0 : stage == job_.pp - 1;
    const int sender_k = wraps ? k - job_.micro_batches : k;
    return std::max(SendStart(is_forward, sender, sender_k), RecvStart(is_forward, stage, k)) + job_.p2p;
  }
  double SendStart(bool is_forward, int stage, int k) { return End(is_forward, stage, k); }
  double SendEnd(bool is_forward, int stage, int k) {
    const int receiver = (stage + (is_forward ? 1 : -1) + job_.pp) % job_.pp;
    const bool wraps = is_forward ? stage == job_.pp - 1 : stage == 0;
    return RecvEnd(is_forward, receiver, wraps ? k + job_.micro_batches : k);
  }

 private:
  const SyntheticJob& job_;
  const int dp_rank_;
  const int step_;
  std::map<std::tuple<bool, int, int>, double> starts_;
};

class Player {
 public:
  explicit Player(const SyntheticJob& job) : job_(job) {
    JobShape& shape = played_.trace.shape;
    shape.trial_name = "synthetic";
    shape.dp_size = job.dp;
    shape.pp_size = job.pp;
    shape.vpp_size = job.vpp;
    shape.world_size = job.dp * job.pp;
  }

  PlayedJob Run() {
    for (step_ = 0; step_ < job_.steps; step_++) PlayStep();
    return std::move(played_);
  }

 private:
  void Add(OpType type, int dp_rank, int stage, int seq, double start, double end, int mc, int gmc) {
    StepTrace& trace = played_.trace;
    trace.type.push_back(type);
    trace.dp_rank.push_back(static_cast<int16_t>(dp_rank));
    trace.stage.push_back(static_cast<int16_t>(stage));
    trace.rank.push_back(dp_rank * job_.pp + stage);
    trace.step.push_back(10 + step_);
    trace.seq.push_back(seq);
    trace.start.push_back(static_cast<float>(start));
    trace.duration.push_back(static_cast<float>(end - start));
    trace.mc.push_back(static_cast<int16_t>(mc));
    trace.gmc.push_back(static_cast<int16_t>(gmc));
  }

  void AddComputes(Pipeline& pipeline, int dp_rank, int stage, bool is_forward) {
    const auto type = [&](OpType forward, OpType backward) { return is_forward ? forward : backward; };
    for (int k = 0; k < pipeline.per_direction(); k++) {
      const double start = pipeline.Start(is_forward, stage, k), end = pipeline.End(is_forward, stage, k);
      Add(type(OpType::kForwardCompute, OpType::kBackwardCompute), dp_rank, stage, k, start, end,
          pipeline.ChunkOf(is_forward, k), pipeline.ModelChunk(is_forward, stage, k));
      const bool has_sender = pipeline.HasSender(is_forward, stage, k);
      const bool has_receiver = pipeline.HasReceiver(is_forward, stage, k);
      if (pipeline.IsRecorded(has_sender)) {
        const double posted = pipeline.RecvStart(is_forward, stage, k);
        Add(type(OpType::kForwardRecv, OpType::kBackwardRecv), dp_rank, stage, k, posted,
            has_sender ? pipeline.RecvEnd(is_forward, stage, k) : posted, -1, -1);
      }
      if (pipeline.IsRecorded(has_receiver)) {
        Add(type(OpType::kForwardSend, OpType::kBackwardSend), dp_rank, stage, k, end,
            has_receiver ? pipeline.SendEnd(is_forward, stage, k) : end, -1, -1);
      }
    }
  }

  void PlayStep() {
    std::vector<Pipeline> lanes;
    for (int dp_rank = 0; dp_rank < job_.dp; dp_rank++) lanes.emplace_back(job_, dp_rank, step_);
    // When each stage of each rank is through with its computations, then with what follows.
    std::vector<std::vector<double>> at(lanes.size(), std::vector<double>(static_cast<size_t>(job_.pp)));
    for (size_t lane = 0; lane < lanes.size(); lane++) {
      for (int stage = 0; stage < job_.pp; stage++) {
        AddComputes(lanes[lane], static_cast<int>(lane), stage, true);
        AddComputes(lanes[lane], static_cast<int>(lane), stage, false);
        at[lane][static_cast<size_t>(stage)] = lanes[lane].End(false, stage, lanes[lane].per_direction() - 1);
      }
    }
    if (job_.dp > 1) AddGathers();
    if (job_.dp > 1 && job_.overlaps_dp) AddOverlappedScatters(lanes);
    Local(OpType::kGarbageCollection, 0, at);
    if (job_.dp > 1 && job_.overlaps_dp) {
      for (std::vector<double>& lane : at) {
        for (size_t stage = 0; stage < lane.size(); stage++) lane[stage] = std::max(lane[stage], scattered_[stage]);
      }
    }
    Local(OpType::kLayernormGradsAllReduce, job_.tail, at);
    Embedding(at);
    if (job_.dp > 1 && !job_.overlaps_dp) {
      for (int chunk = 0; chunk < job_.vpp; chunk++) OverRanks(OpType::kGradsReduceScatter, chunk, job_.scatter, at);
    }
    if (job_.dp > 1 && job_.overlaps_dp) OverRanks(OpType::kSeparateGradsAllReduce, 0, job_.tail, at);
    Clip(at);
    Local(OpType::kOptimizer, job_.tail, at);
    double last = 0;
    for (const std::vector<double>& lane : at) last = std::max(last, *std::max_element(lane.begin(), lane.end()));
    played_.step_seconds.push_back(last);
  }

  void AddGathers() {
    for (int lane = 0; lane < job_.dp; lane++) {
      for (int stage = 0; stage < job_.pp; stage++) {
        for (int chunk = 0; chunk < job_.vpp; chunk++) {
          Add(OpType::kParamsAllGather, lane, stage, chunk, chunk * job_.gather, (chunk + 1) * job_.gather, chunk, -1);
        }
      }
    }
  }

  // Each chunk's as soon as its last backward is through on all ranks, one after another.
  void AddOverlappedScatters(std::vector<Pipeline>& lanes) {
    scattered_.assign(static_cast<size_t>(job_.pp), 0);
    for (int stage = 0; stage < job_.pp; stage++) {
      double& done = scattered_[static_cast<size_t>(stage)];
      done = job_.vpp * job_.gather;
      for (int seq = 0; seq < job_.vpp; seq++) {
        const int last_k = (seq + 1) * job_.micro_batches - 1;
        std::vector<double> starts;
        for (Pipeline& lane : lanes) starts.push_back(std::max(done, lane.End(false, stage, last_k)));
        done = *std::max_element(starts.begin(), starts.end()) + job_.scatter;
        for (size_t lane = 0; lane < lanes.size(); lane++) {
          Add(OpType::kGradsReduceScatter, static_cast<int>(lane), stage, seq, starts[lane], done, job_.vpp - 1 - seq,
              -1);
        }
      }
    }
  }

  void Local(OpType type, double seconds, std::vector<std::vector<double>>& at) {
    for (size_t lane = 0; lane < at.size(); lane++) {
      for (size_t stage = 0; stage < at[lane].size(); stage++) {
        double& now = at[lane][stage];
        Add(type, static_cast<int>(lane), static_cast<int>(stage), 0, now, now + seconds, -1, -1);
        now += seconds;
      }
    }
  }

  void Embedding(std::vector<std::vector<double>>& at) {
    for (size_t lane = 0; lane < at.size(); lane++) {
      const double end = std::max(at[lane].front(), at[lane].back()) + job_.tail;
      Add(OpType::kEmbeddingGradsAllReduce, static_cast<int>(lane), 0, 0, at[lane].front(), end, -1, -1);
      if (job_.pp > 1) {
        Add(OpType::kEmbeddingGradsAllReduce, static_cast<int>(lane), job_.pp - 1, 0, at[lane].back(), end, -1, -1);
      }
      at[lane].front() = end;
      at[lane].back() = end;
    }
  }

  void OverRanks(OpType type, int seq, double seconds, std::vector<std::vector<double>>& at) {
    for (int stage = 0; stage < job_.pp; stage++) {
      double end = 0;
      for (const std::vector<double>& lane : at) end = std::max(end, lane[static_cast<size_t>(stage)]);
      end += seconds;
      for (size_t lane = 0; lane < at.size(); lane++) {
        double& now = at[lane][static_cast<size_t>(stage)];
        Add(type, static_cast<int>(lane), stage, seq, now, end, seq, -1);
        now = end;
      }
    }
  }

  void Clip(std::vector<std::vector<double>>& at) {
    double end = 0;
    for (const std::vector<double>& lane : at) end = std::max(end, *std::max_element(lane.begin(), lane.end()));
    end += job_.tail;
    for (size_t lane = 0; lane < at.size(); lane++) {
      for (size_t stage = 0; stage < at[lane].size(); stage++) {
        Add(OpType::kClipMainGrad, static_cast<int>(lane), static_cast<int>(stage), 0, at[lane][stage], end, -1, -1);
        at[lane][stage] = end;
      }
    }
  }

  const SyntheticJob& job_;
  PlayedJob played_;
  int step_ = 0;
  std::vector<double> scattered_;  // per stage: when the overlapped scatters are through
};

}  // namespace

PlayedJob Play(const SyntheticJob& job) { return Player(job).Run(); }

}  // namespace paceline::analysis
