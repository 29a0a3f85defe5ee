#include "lib/hdfs/write_context.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/hdfs/pipeline_repair.h"

namespace paceline::hdfs {
namespace {

using namespace std::chrono_literals;

constexpr Duration kListLife = 30s;
constexpr Duration kRenewInterval = 20s;  // the lease goes to others after 60 s
constexpr Duration kRenewLimit = 15s;
constexpr int kMaxBlockTries = 6;

}  // namespace

std::string BlockSpread::Acquire(Deadline deadline) {
  bool is_old;
  {
    MutexLock lock(mutex_);
    is_old = listed_ == TimePoint{} || clock_.Now() - listed_ > kListLife;
    if (is_old) listed_ = clock_.Now();
  }
  if (is_old) {
    Result<std::vector<DataNode>> live = namenode_.LiveDataNodes(deadline);
    MutexLock lock(mutex_);
    // Listing needs a right that not every user has; without it the NameNode places alone.
    nodes_.clear();
    if (live.ok()) {
      for (const DataNode& node : *live) {
        if (node.admin_state == 0) nodes_.push_back(node.Key());
      }
    }
  }
  MutexLock lock(mutex_);
  if (nodes_.empty()) return "";
  // Among equals each time another one, so that single blocks of many small files spread as well.
  ++next_;
  std::string best = nodes_[next_ % nodes_.size()];
  for (size_t i = 1; i < nodes_.size(); ++i) {
    const std::string& node = nodes_[(next_ + i) % nodes_.size()];
    if (at_work_[node] < at_work_[best]) best = node;
  }
  ++at_work_[best];
  return best;
}

void BlockSpread::Release(const std::string& node) {
  if (node.empty()) return;
  MutexLock lock(mutex_);
  --at_work_[node];
}

void LeaseRenewer::AddFile() {
  MutexLock lock(mutex_);
  ++files_;
  if (!thread_.joinable()) thread_ = std::jthread([this](std::stop_token stop) { Run(std::move(stop)); });
  changed_.NotifyAll();
}

void LeaseRenewer::RemoveFile() {
  MutexLock lock(mutex_);
  --files_;
}

void LeaseRenewer::Run(std::stop_token stop) {
  TimePoint next = clock_.Now() + kRenewInterval;
  while (!stop.stop_requested()) {
    bool has_files;
    {
      MutexLock lock(mutex_);
      changed_.WaitUntil(lock, clock_, files_ > 0 ? next : TimePoint::max(), stop);
      has_files = files_ > 0;
    }
    if (clock_.Now() < next) continue;
    next = clock_.Now() + kRenewInterval;
    // A failure is tried again in time; a lease that is really lost shows in the next call of its writer.
    if (has_files && !stop.stop_requested()) namenode_.RenewLease(Deadline::After(clock_, kRenewLimit)).IgnoreError();
  }
}

Result<ExtendedBlock> WriteWholeBlock(WriteContext& context, const OpenFile& file, const BlockJob& job,
                                      Deadline deadline) {
  NameNode::Placement placement{.exclude = context.datanodes.DeadNodes()};
  Status last;
  const std::string favored = context.spread.Acquire(deadline);
  if (!favored.empty()) placement.favored = {favored};
  for (int tries = 0; tries < kMaxBlockTries; ++tries) {
    if (job.stop.stop_requested()) {
      last = CancelledError("write " + file.path + ": stopped");
      break;
    }
    Result<LocatedBlock> located = context.namenode.AddBlock(file, job.previous, placement, deadline);
    // With too few DataNodes left the excluded ones are the only ones: they may have come back.
    if (!located.ok() && !placement.exclude.empty() && located.status().code() == StatusCode::kResourceExhausted) {
      placement.exclude.clear();
      continue;
    }
    if (!located.ok()) {
      last = located.status();
      break;
    }
    PipelineFailure failure;
    std::unique_ptr<BlockWriter> writer =
        BlockWriter::Open(context.datanodes, {.block = *located, .packets = context.packets()}, deadline, &failure);
    if (writer != nullptr) {
      job.attach(writer.get());
      Status status = writer->Write(job.data, deadline);
      if (status.ok() && job.durability == BlockWriter::Durability::kDisk)
        status = writer->Flush(job.durability, deadline);
      if (status.ok()) status = writer->Finish(deadline);
      job.attach(nullptr);
      if (status.ok()) {
        context.spread.Release(favored);
        located->block.length_bytes = job.data.size();
        return located->block;
      }
      failure = writer->failure();
      if (failure.status.ok()) failure.status = status;  // the deadline of this call, not the pipeline's fault
    }
    last = failure.status.Annotate("write " + file.path);
    context.namenode.AbandonBlock(file, located->block, deadline)
        .IgnoreError();  // the next AddBlock would tell as well
    if (context.clock.Now() >= deadline.when()) break;
    for (const size_t lost : LostNodes(context.datanodes, *located, failure)) {
      context.datanodes.MarkDead(located->nodes[lost]);
      placement.favored.clear();
      placement.exclude.push_back(located->nodes[lost]);
    }
  }
  context.spread.Release(favored);
  return last;
}

}  // namespace paceline::hdfs
