// A graceful end on SIGTERM and SIGINT: the first one asks the program to stop, the second one ends it at once.
//
// main() makes the one StopSignal before any thread exists and before it uses libraries that start some, since threads
// inherit the blocked signals: only so does the signal reach the waiting thread and no other. SIGPIPE is ignored from
// then on (a closed connection is an error of write, not the end of the program).
#pragma once

#include <stop_token>
#include <thread>

#include "lib/base/unique_fd.h"

namespace paceline {

class StopSignal {
 public:
  // Blocks the two signals in the calling thread and starts the thread that waits for them.
  StopSignal();
  // Ends that thread. The signals stay blocked, since main() is about to return.
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // Stop is requested when the first signal comes, from a thread of this object, so callbacks may do more than a signal
  // handler could.
  std::stop_token token() const { return source_.get_token(); }

  // Stops as a signal would: for failures after which the program cannot go on.
  void RequestStop() { source_.request_stop(); }

 private:
  std::stop_source source_;
  UniqueFd signals_;  // a signalfd
  UniqueFd end_;      // an eventfd: readable when the waiting thread is to end
  std::jthread waiter_;
};

// For a child process between fork and exec, which inherits the blocked signals and the ignored SIGPIPE otherwise and
// could then not be stopped. Async-signal-safe.
void RestoreSignalsForChild();

}  // namespace paceline
