// A header.
#pragma once
struct Ring {
  std::mutex mutex;                  // BAD
  std::condition_variable_any wake;  // BAD
  Mutex good;
};
void WaitUntil(std::condition_variable_any& wakeup, std::unique_lock<std::mutex>& lock);
void F() { std::lock_guard l(mutex); }  // BAD
