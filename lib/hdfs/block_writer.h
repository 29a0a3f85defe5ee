// Writes one block through a pipeline of DataNodes. Internal to lib/hdfs. It does one pipeline and says what went wrong
// with it; whether to go on with other DataNodes is its owner's decision (FileWriter, PartWriter).
//
// Used by one thread at a time; a thread of its own takes the acknowledgements and sends heartbeats while nothing is
// written, since DataNodes give up a pipeline that is silent for a minute.
#pragma once

#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "lib/base/mutex.h"
#include "lib/hdfs/block.h"
#include "lib/hdfs/data_node_client.h"
#include "lib/hdfs/packet_cutter.h"

namespace paceline::hdfs {

enum class PipelineStage : uint32_t {
  kSetupAppend = 0,
  kSetupAppendRecovery = 1,
  kSetupStreamingRecovery = 3,
  kCloseRecovery = 5,
  kSetupCreate = 6,
};

struct PipelineSetup {
  LocatedBlock block;  // with the stamp that it had; nodes are the pipeline, the first one is spoken to
  PipelineStage stage = PipelineStage::kSetupCreate;
  uint64_t new_stamp = 0;     // 0 for a new block
  uint64_t min_received = 0;  // bytes that every replica has
  uint64_t max_received = 0;  // bytes that some replica may have
  PacketCutter::Options packets;
};

// Why a pipeline is of no use any more, and whose fault it is.
struct PipelineFailure {
  Status status;
  std::vector<size_t> bad_nodes;  // indexes in the pipeline; empty: not known
};

class BlockWriter {
 public:
  // Connects to the first node and sets the pipeline up. On failure `*failure` says which node to leave out.
  static std::unique_ptr<BlockWriter> Open(DataNodeClient& client, const PipelineSetup& setup, Deadline deadline,
                                           PipelineFailure* failure);
  // Cuts the connection when Finish was not reached.
  ~BlockWriter();

  // Blocks while too much is not acknowledged yet.
  Status Write(std::string_view data, Deadline deadline);
  // Packets that another pipeline had sent and not got acknowledged, before anything else.
  Status Resend(const std::vector<std::shared_ptr<const OutgoingPacket>>& packets, Deadline deadline);
  enum class Durability { kMemory, kDisk };
  // Until everything written is acknowledged by every node.
  Status Flush(Durability durability, Deadline deadline);
  // Ends the block: its replicas are final when this returns ok.
  Status Finish(Deadline deadline);

  // Ends every call at once with kCancelled. The one method that may come from any thread.
  void Abort() { Fail(CancelledError("the write was stopped"), {}); }

  // The length of the block with everything that was written.
  uint64_t position() const { return cutter_.position(); }
  uint64_t acknowledged() const;
  const LocatedBlock& block() const { return block_; }
  // After a set-up that gave the block a new generation stamp.
  void SetStamp(uint64_t stamp) { block_.block.generation_stamp = stamp; }

  // After a failure: why; and what the next pipeline has to resend, in order.
  PipelineFailure failure() const;
  std::vector<std::shared_ptr<const OutgoingPacket>> TakeUnacknowledged();

 private:
  struct Sent {
    int64_t seqno;
    std::shared_ptr<const OutgoingPacket> packet;
  };

  BlockWriter(DataNodeClient& client, const PipelineSetup& setup, std::unique_ptr<ByteStream> stream);

  Status Send(std::shared_ptr<const OutgoingPacket> packet, Deadline deadline);
  Status AwaitAcknowledged(Deadline deadline);
  void TakeAcks(std::stop_token stop);
  // One acknowledgement, or a look at the time. False at the end.
  Status TakeAck(BufferedReader& reader);
  enum class SilenceStep { kWait, kProbe, kHeartbeat, kGiveUp };
  SilenceStep NextSilenceStep() REQUIRES(mutex_);
  Status OnSilence(BufferedReader& reader);
  void Fail(const Status& status, std::vector<size_t> bad_nodes);

  DataNodeClient& client_;
  LocatedBlock block_;
  const std::unique_ptr<ByteStream> stream_;
  PacketCutter cutter_;
  bool is_finished_ = false;

  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Sent> unacked_ GUARDED_BY(mutex_);
  uint64_t unacked_bytes_ GUARDED_BY(mutex_) = 0;
  uint64_t acked_ GUARDED_BY(mutex_);
  int64_t next_seqno_ GUARDED_BY(mutex_) = 0;
  bool is_sending_ GUARDED_BY(mutex_) = false;
  bool has_all_acks_ GUARDED_BY(mutex_) = false;  // of the last packet too
  TimePoint last_progress_ GUARDED_BY(mutex_);
  TimePoint last_sent_ GUARDED_BY(mutex_);
  TimePoint last_probe_ GUARDED_BY(mutex_){};
  PipelineFailure failure_ GUARDED_BY(mutex_);

  std::jthread acks_;
};

}  // namespace paceline::hdfs
