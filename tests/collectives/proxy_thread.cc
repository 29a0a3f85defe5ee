#include "tests/collectives/proxy_thread.h"

#include <pthread.h>

#include <chrono>
#include <utility>

namespace paceline::collectives {

ProxyThread::ProxyThread(int version, const std::string& plugin)
    : driver_(version, plugin), thread_([this](std::stop_token stop) { Run(stop); }) {}

ProxyThread::~ProxyThread() {
  thread_.request_stop();
  thread_.join();
}

void ProxyThread::Append(std::vector<ProxyOrder> orders) {
  MutexLock lock(mutex_);
  for (ProxyOrder& order : orders) orders_.push_back(std::move(order));
  changed_.NotifyAll();
}

void ProxyThread::Drain() {
  MutexLock lock(mutex_);
  while (!has_failed_ && !(is_idle_ && orders_.empty())) changed_.WaitUntil(lock, clock_, TimePoint::max());
}

bool ProxyThread::WaitForOrders(const std::stop_token& stop, std::vector<ProxyOrder>& orders) {
  MutexLock lock(mutex_);
  while (open_ == 0 && orders_.empty()) {
    is_idle_ = true;
    changed_.NotifyAll();
    if (stop.stop_requested()) return false;
    changed_.WaitUntil(lock, clock_, TimePoint::max(), stop);
  }
  is_idle_ = false;
  orders = std::exchange(orders_, {});
  return !stop.stop_requested();
}

void ProxyThread::TakeOrders(std::vector<ProxyOrder> orders) {
  void* control = nullptr;
  if ((driver_.mask() & kEventProxyCtrl) != 0 && !orders.empty()) {
    control = driver_.Other(orders[0].context, kEventProxyCtrl);
  }
  for (ProxyOrder& order : orders) {
    const void* connection = order.send != nullptr ? static_cast<void*>(order.send) : order.receive;
    Operation operation{order};
    if ((driver_.mask() & kEventProxyOp) != 0) {
      operation.handle = driver_.ProxyOp(order.context, order.description);
    }
    queues_[connection].push_back(operation);
    open_++;
  }
  if (control != nullptr) driver_.Stop(control);
}

bool ProxyThread::ProgressFirst(std::deque<Operation>& queue) {
  if (queue.empty()) return false;
  Operation& operation = queue.front();
  const ProxyOrder& order = operation.order;
  if (!operation.has_begun) {
    operation.has_begun = true;
    const bool is_told = (driver_.mask() & kEventProxyStep) != 0;
    const StepListener listener{is_told ? &driver_ : nullptr, order.context, operation.handle};
    const auto steps = static_cast<uint64_t>(order.description.steps);
    order.send != nullptr ? order.send->Begin(steps, listener) : order.receive->Begin(steps, listener);
    if (operation.handle != nullptr && driver_.version() >= 4) {
      driver_.Record(operation.handle, kStateOpInProgress);
    }
  }
  const bool is_any = order.send != nullptr ? order.send->Progress() : order.receive->Progress();
  const bool is_broken = order.send != nullptr ? order.send->is_broken() : order.receive->is_broken();
  const bool is_done = order.send != nullptr ? order.send->IsDone() : order.receive->IsDone();
  if (is_broken && !is_done) has_failed_ = true;
  if (!is_done) return is_any;
  if (operation.handle != nullptr) driver_.Stop(operation.handle);
  queue.pop_front();
  open_--;
  return true;
}

void ProxyThread::Run(const std::stop_token& stop) {
  ::pthread_setname_np(::pthread_self(), "NCCL Progress 0");
  std::vector<ProxyOrder> orders;
  while (!has_failed_ && WaitForOrders(stop, orders)) {
    TakeOrders(std::exchange(orders, {}));
    bool is_any = false;
    for (auto& [connection, queue] : queues_) is_any = ProgressFirst(queue) || is_any;
    // NCCL yields here; with more ranks than processors that would keep the others from working.
    if (!is_any) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  MutexLock lock(mutex_);
  changed_.NotifyAll();
}

}  // namespace paceline::collectives
