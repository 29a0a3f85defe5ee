#include "lib/net/handler_pool.h"

#include <utility>

namespace paceline::net {

HandlerPool::HandlerPool(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

HandlerPool::~HandlerPool() { Stop(); }

void HandlerPool::Post(std::function<void()> job) {
  MutexLock lock(mutex_);
  if (is_stopping_) return;
  jobs_.push_back(std::move(job));
  changed_.NotifyOne();
}

void HandlerPool::Stop() {
  std::deque<std::function<void()>> dropped;  // may own connections: destroyed after the lock
  {
    MutexLock lock(mutex_);
    is_stopping_ = true;
    dropped.swap(jobs_);
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void HandlerPool::Run() {
  while (true) {
    std::function<void()> job;
    {
      MutexLock lock(mutex_);
      while (!is_stopping_ && jobs_.empty()) changed_.Wait(lock);
      if (is_stopping_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace paceline::net
