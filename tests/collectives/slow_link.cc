#include "tests/collectives/slow_link.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>

#include "tests/collectives/rendezvous.h"

namespace paceline::collectives {

namespace {

constexpr int kPollMs = 50;
constexpr uint64_t kTicksPerSecond = 50;

bool CanRead(int fd) {
  pollfd wanted{fd, POLLIN, 0};
  return ::poll(&wanted, 1, kPollMs) == 1;
}

}  // namespace

SlowLink::SlowLink(UniqueFd listener, std::string target)
    : listener_(std::move(listener)),
      target_(std::move(target)),
      acceptor_([this](std::stop_token stop) { Accept(stop); }) {}

SlowLink::~SlowLink() {
  acceptor_.request_stop();
  acceptor_.join();
  for (std::jthread& mover : movers_) mover.request_stop();
  movers_.clear();
}

void SlowLink::Accept(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    if (!CanRead(listener_.get())) continue;
    UniqueFd near_end(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    Result<UniqueFd> far_end = ConnectTo(target_);
    if (!near_end.is_valid() || !far_end.ok()) continue;
    const int near_fd = near_end.get(), far_fd = far_end->get();
    sockets_.push_back(std::move(near_end));
    sockets_.push_back(std::move(*far_end));
    movers_.emplace_back([=, this](std::stop_token stopped) { Forward(near_fd, far_fd, true, stopped); });
    movers_.emplace_back([=, this](std::stop_token stopped) { Forward(far_fd, near_fd, false, stopped); });
  }
}

void SlowLink::Forward(int from, int to, bool is_limited, const std::stop_token& stop) const {
  char bytes[16384];
  while (!stop.stop_requested()) {
    const uint64_t rate = is_limited ? bytes_per_second_.load() : UINT64_MAX;
    const uint64_t share = std::min<uint64_t>(sizeof bytes, rate == UINT64_MAX ? rate : rate / kTicksPerSecond);
    if (rate != UINT64_MAX) std::this_thread::sleep_for(std::chrono::milliseconds(1000 / kTicksPerSecond));
    if (share == 0 || !CanRead(from)) continue;
    const ssize_t count = ::recv(from, bytes, share, 0);
    if (count <= 0) {
      ::shutdown(to, SHUT_WR);
      return;
    }
    for (ssize_t sent = 0; sent < count && !stop.stop_requested();) {
      const ssize_t part = ::send(to, bytes + sent, static_cast<size_t>(count - sent), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (part > 0) sent += part;
      if (part <= 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

}  // namespace paceline::collectives
