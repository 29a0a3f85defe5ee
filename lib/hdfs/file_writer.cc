#include "lib/hdfs/file_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/hdfs/pipeline_repair.h"

namespace paceline::hdfs {
namespace {

using namespace std::chrono_literals;

constexpr int kMaxSetups = 6;
constexpr Duration kComebackLimit = 15s;
constexpr Duration kComebackPoll = 500ms;

OpenFile Stoppable(OpenFile file, const std::stop_token& stop) {
  file.stop = stop;
  return file;
}

std::string_view AsText(std::span<const std::byte> data) {
  return {reinterpret_cast<const char*>(data.data()), data.size()};
}

}  // namespace

FileWriter::FileWriter(std::shared_ptr<WriteContext> context, OpenFile file, Naming naming)
    : context_(std::move(context)),
      file_(Stoppable(std::move(file), naming.stop)),
      naming_(std::move(naming)),
      position_(file_.length_bytes),
      on_stop_(naming_.stop, [this] { Abort(); }) {
  lease_.emplace(context_->leases);
}

void FileWriter::Use(std::unique_ptr<BlockWriter> block) {
  {
    MutexLock lock(mutex_);
    block_.swap(block);
    pipeline_ = block_.get();
  }
  // The stop may have come while there was none to abort.
  if (naming_.stop.stop_requested()) Abort();
}

void FileWriter::Abort() {
  MutexLock lock(mutex_);
  if (pipeline_ != nullptr) pipeline_->Abort();
}

Result<std::unique_ptr<FileWriter>> FileWriter::Make(std::shared_ptr<WriteContext> context, NameNode::Appended opened,
                                                     Naming naming, Deadline deadline) {
  std::unique_ptr<FileWriter> writer(new FileWriter(std::move(context), std::move(opened.file), std::move(naming)));
  writer->finished_ = std::move(opened.previous);
  if (opened.fill.has_value()) RETURN_IF_ERROR(writer->OpenAppended(*opened.fill, deadline));
  return writer;
}

FileWriter::~FileWriter() { Abandon(); }

Status FileWriter::Usable() const {
  if (!failure_.ok()) return failure_;
  return is_closed_ ? InvalidArgumentError(file_.path + ": the writer is closed") : Status();
}

Status FileWriter::Write(std::span<const std::byte> data, Deadline deadline) {
  RETURN_IF_ERROR(Usable());
  std::string_view rest = AsText(data);
  while (!rest.empty()) {
    if (block_ == nullptr) {
      if (const Status status = NextBlock(deadline); !status.ok()) return Fail(status);
    }
    const uint64_t room = file_.block_size_bytes - std::min(file_.block_size_bytes, block_->position());
    if (room == 0) {
      if (const Status status = FinishBlock(deadline); !status.ok()) return Fail(status);
      continue;
    }
    const std::string_view piece = rest.substr(0, room);
    // What a broken pipeline has taken of the piece is in its packets, which the next one gets.
    const uint64_t start = block_->position();
    const auto step = [&] { return block_->Write(piece.substr(block_->position() - start), deadline); };
    if (const Status status = WithRecovery(step, deadline); !status.ok()) return Fail(status);
    rest.remove_prefix(piece.size());
    position_ += piece.size();
  }
  return Status();
}

Status FileWriter::FlushAs(BlockWriter::Durability durability, Deadline deadline) {
  RETURN_IF_ERROR(Usable());
  if (block_ == nullptr) return Status();  // all blocks are final
  const Status status = WithRecovery([&] { return block_->Flush(durability, deadline); }, deadline);
  if (!status.ok()) return Fail(status);
  // Once for each block: from then on its length survives the death of this writer.
  if (block_is_known_) return Status();
  if (const Status told = context_->namenode.Fsync(file_, block_->position(), deadline); !told.ok()) return Fail(told);
  block_is_known_ = true;
  return Status();
}

Status FileWriter::FinishBlock(Deadline deadline) {
  RETURN_IF_ERROR(WithRecovery([&] { return block_->Finish(deadline); }, deadline, /*is_closing=*/true));
  finished_ = block_->block().block;
  finished_->length_bytes = block_->position();
  Use(nullptr);
  context_->spread.Release(std::exchange(favored_, ""));
  return Status();
}

Status FileWriter::Close(Deadline deadline) {
  RETURN_IF_ERROR(Usable());
  if (block_ != nullptr) {
    if (const Status status = FinishBlock(deadline); !status.ok()) return Fail(status);
  }
  if (const Status status = context_->namenode.Complete(file_, finished_, deadline); !status.ok()) return Fail(status);
  if (!naming_.final_path.empty()) {
    const RenameMode mode = naming_.mode == CreateMode::kOverwrite ? RenameMode::kOverwrite : RenameMode::kFailIfExists;
    const Status status = context_->namenode.Rename2(file_.path, naming_.final_path, mode, deadline);
    if (!status.ok()) return Fail(status);
  }
  is_closed_ = true;
  lease_.reset();
  return Status();
}

void FileWriter::Abandon() {
  context_->spread.Release(std::exchange(favored_, ""));
  if (is_closed_) return;
  is_closed_ = true;
  Use(nullptr);
  const Deadline deadline = Deadline::After(context_->clock, kAbandonLimit);
  // Best effort, both: the lease ends by itself, and the janitor finds the file.
  if (naming_.final_path.empty()) {
    context_->namenode.RecoverLease(file_.path, deadline).status().IgnoreError();
  } else {
    context_->namenode.Delete(file_.path, RemoveMode::kFileOrEmptyDirectory, deadline).status().IgnoreError();
  }
  lease_.reset();
}

Status FileWriter::NextBlock(Deadline deadline) {
  NameNode::Placement placement{.exclude = context_->datanodes.DeadNodes()};
  context_->spread.Release(std::exchange(favored_, context_->spread.Acquire(deadline)));
  if (!favored_.empty()) placement.favored = {favored_};
  Status last;
  for (int tries = 0; tries < kMaxSetups && !naming_.stop.stop_requested(); ++tries) {
    Result<LocatedBlock> added = context_->namenode.AddBlock(file_, finished_, placement, deadline);
    // With too few DataNodes left the excluded ones are the only ones: they may have come back.
    if (!added.ok() && !placement.exclude.empty() && added.status().code() == StatusCode::kResourceExhausted) {
      placement.exclude.clear();
      continue;
    }
    if (!added.ok()) return added.status();
    const LocatedBlock located = *std::move(added);
    PipelineFailure failure;
    Use(BlockWriter::Open(context_->datanodes, {.block = located, .packets = context_->packets()}, deadline, &failure));
    if (block_ != nullptr) {
      block_is_known_ = block_is_appended_ = false;
      return Status();
    }
    last = failure.status;
    context_->namenode.AbandonBlock(file_, located.block, deadline)
        .IgnoreError();  // the next AddBlock would tell as well
    placement.favored.clear();
    for (const size_t lost : LostNodes(context_->datanodes, located, failure)) {
      context_->datanodes.MarkDead(located.nodes[lost]);
      placement.exclude.push_back(located.nodes[lost]);
    }
  }
  return naming_.stop.stop_requested() ? Stopped() : last.Annotate("write " + file_.path);
}

Status FileWriter::OpenAppended(const LocatedBlock& last, Deadline deadline) {
  const uint64_t length = last.block.length_bytes;
  PipelineSetup setup{.block = last,
                      .stage = PipelineStage::kSetupAppend,
                      .min_received = length,
                      .max_received = length,
                      .packets = context_->packets()};
  block_is_appended_ = true;
  std::vector<DataNode> lost;
  for (int tries = 0;; ++tries) {
    ASSIGN_OR_RETURN(const LocatedBlock renewed, context_->namenode.UpdateBlockForPipeline(last.block, deadline));
    setup.block.token = renewed.token;
    setup.new_stamp = renewed.block.generation_stamp;
    PipelineFailure failure;
    Use(BlockWriter::Open(context_->datanodes, setup, deadline, &failure));
    if (block_ != nullptr) break;
    if (tries >= kMaxSetups) return Fail(failure.status.Annotate("append to " + file_.path));
    Status status = DropLost(failure, &setup.block, &lost, deadline);
    if (status.ok()) status = Replace(&setup.block, lost, deadline);
    if (!status.ok()) return Fail(status.Annotate("append to " + file_.path));
    // Some of the nodes may have begun to append already.
    setup.stage = PipelineStage::kSetupAppendRecovery;
  }
  ExtendedBlock stamped = last.block;
  stamped.generation_stamp = setup.new_stamp;
  RETURN_IF_ERROR(
      context_->namenode.UpdatePipeline(last.block, stamped, setup.block.nodes, setup.block.storage_ids, deadline));
  block_->SetStamp(setup.new_stamp);
  return Status();
}

template <typename Step>
Status FileWriter::WithRecovery(Step step, Deadline deadline, bool is_closing) {
  uint64_t progress = block_->acknowledged();
  for (int recoveries = 0;;) {
    const Status status = step();
    if (status.ok()) return status;
    if (naming_.stop.stop_requested()) return Stopped();
    if (block_->failure().status.ok()) return status;  // the caller's deadline
    if (const uint64_t now = block_->acknowledged(); now > progress) {
      progress = now;
      recoveries = 0;
    }
    if (!MayRecover(recoveries++)) return status.Annotate("write " + file_.path);
    RETURN_IF_ERROR(Recover(is_closing, deadline));
  }
}

Status FileWriter::DropLost(const PipelineFailure& failure, LocatedBlock* block, std::vector<DataNode>* lost,
                            Deadline deadline) {
  DataNodeClient& datanodes = context_->datanodes;
  std::vector<size_t> indexes = LostNodes(datanodes, *block, failure);
  const Deadline limit = deadline.Min(Deadline::After(context_->clock, kComebackLimit));
  while (indexes.size() == block->nodes.size()) {
    if (limit.Expired(context_->clock)) {
      return failure.status.Annotate(fmt::format("write {}: every DataNode of its last block has failed", file_.path));
    }
    if (!context_->clock.SleepFor(kComebackPoll, naming_.stop)) return Stopped();
    indexes = datanodes.SilentNodes(*block);
  }
  for (const size_t index : indexes) {
    datanodes.MarkDead(block->nodes[index]);
    lost->push_back(block->nodes[index]);
  }
  DropNodes(block, indexes);
  return Status();
}

Status FileWriter::Replace(LocatedBlock* block, const std::vector<DataNode>& lost, Deadline deadline) {
  const RepairJob job{.namenode = context_->namenode,
                      .datanodes = context_->datanodes,
                      .file = file_,
                      .rules = context_->replacement,
                      .exclude = lost,
                      .is_block_flushed = block_is_known_ || block_is_appended_};
  return lost.empty() ? Status() : ReplaceLostNode(job, block, deadline);
}

Status FileWriter::Recover(bool is_closing, Deadline deadline) {
  LocatedBlock block = block_->block();
  std::vector<DataNode> lost;
  RETURN_IF_ERROR(DropLost(block_->failure(), &block, &lost, deadline));
  return OpenRecovered(std::move(block), std::move(lost), is_closing, deadline);
}

Status FileWriter::OpenRecovered(LocatedBlock block, std::vector<DataNode> lost, bool is_closing, Deadline deadline) {
  const uint64_t acknowledged = block_->acknowledged(), sent = block_->position();
  const std::vector<std::shared_ptr<const OutgoingPacket>> packets = block_->TakeUnacknowledged();
  const bool only_end = is_closing && packets.empty();
  block.block.length_bytes = acknowledged;
  PipelineFailure failure;
  for (int tries = 0; tries < kMaxSetups; ++tries) {
    // With all bytes there the NameNode may as well make the missing replica itself, after the file is closed.
    if (!only_end) RETURN_IF_ERROR(Replace(&block, lost, deadline));
    ASSIGN_OR_RETURN(const LocatedBlock renewed, context_->namenode.UpdateBlockForPipeline(block.block, deadline));
    block.token = renewed.token;
    PipelineSetup setup{.block = block,
                        .stage = only_end ? PipelineStage::kCloseRecovery : PipelineStage::kSetupStreamingRecovery,
                        .new_stamp = renewed.block.generation_stamp,
                        .min_received = acknowledged,
                        .max_received = sent,
                        .packets = context_->packets()};
    std::unique_ptr<BlockWriter> fresh = BlockWriter::Open(context_->datanodes, setup, deadline, &failure);
    if (fresh == nullptr) {
      if (deadline.Expired(context_->clock)) break;
      if (naming_.stop.stop_requested()) return Stopped();
      RETURN_IF_ERROR(DropLost(failure, &block, &lost, deadline));
      continue;
    }
    ExtendedBlock stamped = block.block;
    stamped.generation_stamp = setup.new_stamp;
    RETURN_IF_ERROR(context_->namenode.UpdatePipeline(block.block, stamped, block.nodes, block.storage_ids, deadline));
    Use(std::move(fresh));
    block_->SetStamp(setup.new_stamp);
    // A failure here is one of the new pipeline, which keeps the packets; whoever asked finds it broken and comes
    // again.
    block_->Resend(packets, deadline).IgnoreError();
    return Status();
  }
  return failure.status.Annotate("write " + file_.path);
}

}  // namespace paceline::hdfs
