#include "lib/net/wait_limit.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

namespace paceline::net {

namespace {
constexpr std::chrono::milliseconds kStopPollPeriod{50};
}

void WaitLimit::Wake::operator()() const {
  // The only failure is a counter at its maximum, and then it is readable anyway.
  [[maybe_unused]] const int result = eventfd_write(fd, 1);
}

WaitLimit::WaitLimit(const Clock& clock, Deadline deadline, std::stop_token stop)
    : clock_(clock), deadline_(deadline), stop_(std::move(stop)) {
  if (!stop_.stop_possible()) return;
  event_.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (event_.is_valid()) callback_.emplace(stop_, Wake{event_.get()});
}

WaitLimit::~WaitLimit() { callback_.reset(); }  // before the eventfd closes

Status WaitLimit::Check() const {
  if (stop_.stop_requested()) return CancelledError("stopped");
  if (deadline_.Expired(clock_)) return DeadlineExceededError("no answer in time");
  return Status();
}

Status WaitLimit::Await(int fd, short events, TimePoint silence_ends, const char* silence_message) const {
  while (true) {
    RETURN_IF_ERROR(Check());
    const TimePoint now = clock_.Now();
    if (now >= silence_ends) return UnavailableError(silence_message);

    TimePoint until = std::min(silence_ends, deadline_.when());
    // Without an eventfd (no descriptors left) the stop request is looked for now and then.
    if (stop_.stop_possible() && !event_.is_valid()) until = std::min(until, now + kStopPollPeriod);
    timespec timeout = {};
    if (until != TimePoint::max()) {
      const Duration left = until - now;
      timeout.tv_sec = static_cast<time_t>(left.count() / 1'000'000'000);
      timeout.tv_nsec = static_cast<long>(left.count() % 1'000'000'000);
    }
    pollfd fds[2] = {{fd, events, 0}, {event_.get(), POLLIN, 0}};
    const nfds_t count = event_.is_valid() ? 2 : 1;
    const int ready = ppoll(fds, count, until == TimePoint::max() ? nullptr : &timeout, nullptr);
    if (ready < 0 && errno != EINTR) return ErrnoStatus(errno, "poll");
    if (ready > 0 && fds[0].revents != 0) return Check();
  }
}

}  // namespace paceline::net
