// Plays NCCL to a profiler plugin: loads it, takes one interface version and makes descriptors as that version lays
// them out.
//
// Each descriptor ends where a page ends that nobody may read beyond, and its unused bytes are garbage: a plugin that
// reads past its version or trusts padding crashes or shows it. For tests and benchmarks; one driver per thread, any
// number of drivers per process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tracer/profiler_abi.h"

namespace paceline::tracer {

struct CollDescription {
  const char* func = "AllReduce";
  const char* datatype = "ncclFloat32";
  const char* algo = "RING";
  const char* proto = "SIMPLE";
  uint64_t sequence = 0, count = 1000, comm_hash = 77;
  const char* comm_name = "world";
  int root = 0, rank = 0, channels = 2;
  void* parent = nullptr;
  void* parent_group = nullptr;
};

struct ProxyDescription {
  void* parent = nullptr;
  int pid = 0;  // 0: ours
  int channel = 0, peer = 1, steps = 4, rank = 0;
  bool is_send = true;
};

class NcclDriver {
 public:
  // Version 1 to 6; the library is our plugin unless named. Ends the program when it cannot be loaded.
  explicit NcclDriver(int version, const std::string& library = PACELINE_TRACER);
  ~NcclDriver();
  NcclDriver(const NcclDriver&) = delete;
  NcclDriver& operator=(const NcclDriver&) = delete;

  int version() const { return version_; }
  int mask() const { return *mask_; }
  // The plugin's callbacks themselves.
  const ProfilerTable& table() const { return *table_; }
  // Log lines that the plugin gave to NCCL, from all drivers of the process.
  static std::string Logged();

  void* Init(uint64_t comm_id = 77, const char* name = "world", int ranks = 2, int rank = 0, int nodes = 2);
  void Finalize(void* context) const { table_->finalize(context); }

  void* Coll(void* context, const CollDescription& description);
  void* P2p(void* context, const CollDescription& description, int peer);
  // GroupApi, CollApi, P2pApi, KernelLaunch, Group and others without a body of their own.
  void* Other(void* context, uint32_t type, void* parent = nullptr, const char* func = "AllReduce");
  void* ProxyOp(void* context, const ProxyDescription& description);
  void* KernelCh(void* context, void* parent, int channel, uint64_t timer);
  void* Step(void* context, void* operation, int step);
  // With the arguments of this version: a size for steps from v4 on, nothing before.
  void Record(void* handle, int state, uint64_t bytes = 0) const;
  // v1 to v3: state of an operation, by steps done.
  void RecordOperation(void* handle, int state, int steps, uint64_t bytes) const;
  void Stop(void* handle) const { table_->stop(handle); }

  // All states of one step of a send or receive, as NCCL goes through them.
  void WholeStep(void* context, void* operation, bool is_send, int step, uint64_t bytes);
  // A collective of a ring with `channels` channels over the network, in NCCL's order on one thread.
  void AllReduce(void* context, uint64_t sequence, int channels, int steps, uint64_t step_bytes);

 private:
  template <typename T>
  T* Descr(uint32_t type, void* parent, int rank);
  void* Start(void* context);

  int version_;
  void* library_;
  const ProfilerTable* table_;
  char* page_;  // one page to write and one that faults
  char* descr_;
  int* mask_;
};

}  // namespace paceline::tracer
