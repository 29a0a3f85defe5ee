#include "lib/base/stop_signal.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <csignal>

#include "lib/base/check.h"

namespace paceline {

namespace {

sigset_t StopSet() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

void WaitForSignals(int signals, int end, const std::stop_source& source) {
  while (true) {
    pollfd watched[] = {{signals, POLLIN, 0}, {end, POLLIN, 0}};
    if (::poll(watched, 2, -1) < 0) continue;  // EINTR is all that can happen here
    if (watched[1].revents != 0) return;
    signalfd_siginfo info{};
    if (::read(signals, &info, sizeof info) != sizeof info) continue;
    // The second one: the graceful end takes too long for the sender. No destructors, they may be what hangs.
    if (!source.request_stop()) ::_exit(128 + static_cast<int>(info.ssi_signo));
  }
}

}  // namespace

StopSignal::StopSignal() {
  ::signal(SIGPIPE, SIG_IGN);
  const sigset_t set = StopSet();
  CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  signals_.Reset(::signalfd(-1, &set, SFD_CLOEXEC));
  end_.Reset(::eventfd(0, EFD_CLOEXEC));
  CHECK(signals_.is_valid() && end_.is_valid());
  waiter_ = std::jthread(WaitForSignals, signals_.get(), end_.get(), source_);
}

StopSignal::~StopSignal() {
  const uint64_t one = 1;
  CHECK(::write(end_.get(), &one, sizeof one) == sizeof one);
}

void RestoreSignalsForChild() {
  ::signal(SIGPIPE, SIG_DFL);
  const sigset_t set = StopSet();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace paceline
