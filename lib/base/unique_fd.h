// Owner of one file descriptor: closes it when it goes. Movable, not copyable; not thread-safe.
#pragma once

#include <unistd.h>

#include <utility>

namespace paceline {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) Reset(std::exchange(other.fd_, -1));
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { Reset(); }

  int get() const { return fd_; }
  bool is_valid() const { return fd_ >= 0; }
  // Gives the descriptor up to the caller, who must close it.
  [[nodiscard]] int Release() { return std::exchange(fd_, -1); }
  // Errors of close are dropped on purpose: after an fsync there is nothing left to lose, and on Linux the descriptor
  // is gone either way. Writers who must know call fsync or close themselves.
  void Reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace paceline
