// A fixed number of threads that run jobs in the order in which they came. The HTTP server's handlers run here, so that
// a handler may block without holding up the connections. Thread-safe.
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "lib/base/mutex.h"

namespace paceline::net {

class HandlerPool {
 public:
  explicit HandlerPool(int threads);
  ~HandlerPool();  // as Stop

  // Never blocks. Jobs given after Stop are dropped.
  void Post(std::function<void()> job);

  // Drops the jobs that no thread has begun, and blocks until the begun ones have returned.
  void Stop();

 private:
  void Run();

  Mutex mutex_;
  CondVar changed_;
  bool is_stopping_ GUARDED_BY(mutex_) = false;
  std::deque<std::function<void()>> jobs_ GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace paceline::net
