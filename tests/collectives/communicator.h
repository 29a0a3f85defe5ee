// A communicator of one rank: its connections, and launches in the order of calls that NCCL makes to its profiler.
//
// One application thread per communicator. The proxy and GPU threads are the rank's, shared by all its communicators,
// and must live longer.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/collectives/gpu_thread.h"
#include "tests/collectives/proxy_thread.h"
#include "tests/collectives/rendezvous.h"

namespace paceline::collectives {

struct CommDescription {
  uint32_t index = 0;  // the same on all ranks
  std::string name;
  std::vector<uint32_t> members;  // world ranks in ring order
};

// What is the same for all communicators of a rank.
struct RankSettings {
  uint32_t rank = 0;            // in the world
  uint32_t ranks_per_node = 1;  // neighbours on one node need no network
  uint32_t channels = 2;
  uint32_t slice_bytes = 65536;
  int version = 6;  // of the plugin's interface, 4 to 6
};

// A part of a launch: one collective, or the sends and receives of a group.
struct Work {
  Function function = Function::kAllReduce;
  uint64_t count = 0;  // as in NCCL's call
  uint32_t peer = 0;   // of a send or receive, world rank
  const float* input = nullptr;
  float* output = nullptr;
};

// Faults of one launch.
enum class LaunchFault { kNone, kHangInCall, kKernelStuck };

class Communicator {
 public:
  // Makes all connections. Collective: all members must do so.
  static Result<std::unique_ptr<Communicator>> Create(const CommDescription& description, const RankSettings& settings,
                                                      Rendezvous& rendezvous, tracer::NcclDriver& driver);
  // Tells the plugin; the connections stay for what is still open.
  void Finalize();

  // Starts `works` as one group. Returns at once; kHangInCall never returns.
  void Launch(const std::vector<Work>& works, LaunchFault fault, GpuThread& gpu, ProxyThread& proxy);

  const CommDescription& description() const { return description_; }
  uint32_t place() const { return place_; }

 private:
  struct Pair {
    std::unique_ptr<SendEdge> send;
    std::unique_ptr<ReceiveEdge> receive;
  };
  Communicator(const CommDescription& description, const RankSettings& settings, tracer::NcclDriver& driver);
  Status ConnectAll(Rendezvous& rendezvous);
  bool IsLocal(uint32_t peer) const;
  uint32_t PlaceOf(uint32_t world_rank) const;
  // The channels of one work, with their proxy operations.
  void AddBlocks(const Work& work, void* call, Kernel& kernel, std::vector<ProxyOrder>& orders);
  void AddOrder(const Block& block, bool is_send, uint32_t channel, uint32_t peer,
                std::vector<ProxyOrder>& orders) const;
  void* StartCall(const Work& work, void* api, void* group);

  CommDescription description_;
  RankSettings settings_;
  tracer::NcclDriver& driver_;
  void* context_ = nullptr;
  uint32_t place_ = 0;
  std::vector<Pair> ring_;          // per channel
  std::map<uint32_t, Pair> peers_;  // by world rank
  std::map<Function, uint64_t> sequence_;
};

}  // namespace paceline::collectives
