// The proxy progress thread of a rank: moves the steps of all communicators' connections to other nodes, and tells the
// plugin of each in NCCL's order. Operations on one connection run one after the other.
//
// When a connection breaks the thread leaves its loop, as NCCL's does: what is open then gets no stop, and all
// communicators of the process fall silent. Append may be called from any thread.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <thread>
#include <vector>

#include "lib/base/mutex.h"
#include "tests/collectives/edge.h"

namespace paceline::collectives {

// One direction of one channel for one operation.
struct ProxyOrder {
  SendEdge* send = nullptr;  // one of the two
  ReceiveEdge* receive = nullptr;
  void* context = nullptr;
  tracer::ProxyDescription description;
};

class ProxyThread {
 public:
  // `version` of the plugin's interface.
  ProxyThread(int version, const std::string& plugin);
  ~ProxyThread();

  // The operations of one launch, which the thread takes over in one pass.
  void Append(std::vector<ProxyOrder> orders) EXCLUDES(mutex_);
  // Blocks until everything appended is done. Returns at once after a failure.
  void Drain() EXCLUDES(mutex_);
  // A neighbour has gone away.
  bool has_failed() const { return has_failed_; }

 private:
  struct Operation {
    ProxyOrder order;
    void* handle = nullptr;
    bool has_begun = false;
  };
  void Run(const std::stop_token& stop);
  void TakeOrders(std::vector<ProxyOrder> orders);
  // True when it did something.
  bool ProgressFirst(std::deque<Operation>& queue);
  bool WaitForOrders(const std::stop_token& stop, std::vector<ProxyOrder>& orders) EXCLUDES(mutex_);

  tracer::NcclDriver driver_;
  RealClock clock_;
  std::atomic<bool> has_failed_{false};
  std::map<const void*, std::deque<Operation>> queues_;  // by connection; the thread's own
  size_t open_ = 0;

  Mutex mutex_;
  CondVar changed_;
  bool is_idle_ GUARDED_BY(mutex_) = true;
  std::vector<ProxyOrder> orders_ GUARDED_BY(mutex_);
  std::jthread thread_;
};

}  // namespace paceline::collectives
