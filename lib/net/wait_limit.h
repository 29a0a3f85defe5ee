// One blocking call's limits (deadline, stop request) as something that poll can wait for together with a socket. The
// stop request reaches a poll in another thread through an eventfd, so a blocked read ends at once, not at the next
// tick. Lives on the stack of the blocking call; used by that thread only.
#pragma once

#include <optional>
#include <stop_token>

#include "lib/base/clock.h"
#include "lib/base/unique_fd.h"

namespace paceline::net {

class WaitLimit {
 public:
  // `clock` is borrowed.
  WaitLimit(const Clock& clock, Deadline deadline, std::stop_token stop);
  ~WaitLimit();
  WaitLimit(const WaitLimit&) = delete;
  WaitLimit& operator=(const WaitLimit&) = delete;

  // Ok, kCancelled or kDeadlineExceeded as of now.
  Status Check() const;

  // Blocks until `fd` has one of `events` (POLLIN, POLLOUT, or an error condition), until Check() fails, or until
  // `silence_ends` passes, which is kUnavailable with `silence_message`.
  Status Await(int fd, short events, TimePoint silence_ends, const char* silence_message) const;

  const Clock& clock() const { return clock_; }
  Deadline deadline() const { return deadline_; }
  const std::stop_token& stop() const { return stop_; }

 private:
  struct Wake {
    int fd;
    void operator()() const;
  };

  const Clock& clock_;
  const Deadline deadline_;
  const std::stop_token stop_;
  UniqueFd event_;
  std::optional<std::stop_callback<Wake>> callback_;
};

}  // namespace paceline::net
