#include "tests/collectives/connection.h"

#include <sys/socket.h>

#include <cerrno>

namespace paceline::collectives {

namespace {

bool IsLater() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

void SendEnd::ReadCredits() {
  char bytes[64];
  const ssize_t count = ::recv(fd_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
  if (count > 0) {
    credits_ += static_cast<uint64_t>(count);
  } else if (count == 0 || !IsLater()) {
    is_broken_ = true;
  }
}

bool SendEnd::TrySend(const void* data, uint32_t bytes) {
  if (credits_ == 0) ReadCredits();
  if (credits_ == 0 || is_broken_) return false;
  credits_--;
  frames_.push_back({bytes, static_cast<const char*>(data), 0});
  Pump();
  return true;
}

void SendEnd::Pump() {
  while (!frames_.empty() && !is_broken_) {
    Frame& frame = frames_.front();
    const uint64_t total = sizeof frame.header + frame.header;
    const bool is_header = frame.written < sizeof frame.header;
    const char* from = is_header ? reinterpret_cast<const char*>(&frame.header) + frame.written
                                 : frame.data + (frame.written - sizeof frame.header);
    const uint64_t left = is_header ? sizeof frame.header - frame.written : total - frame.written;
    if (left > 0) {
      const ssize_t count = ::send(fd_.get(), from, left, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (count < 0) {
        if (!IsLater()) is_broken_ = true;
        return;
      }
      frame.written += static_cast<uint64_t>(count);
    }
    if (frame.written < total) continue;
    frames_.pop_front();
    done_++;
  }
}

bool SendEnd::TestDone() {
  Pump();
  if (done_ == 0) return false;
  done_--;
  return true;
}

bool ReceiveEnd::TryPost(void* data, uint32_t capacity) {
  const char credit = 1;
  if (::send(fd_.get(), &credit, 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1) {
    if (!IsLater()) is_broken_ = true;
    return false;
  }
  posted_.push_back({static_cast<char*>(data), capacity});
  return true;
}

bool ReceiveEnd::Fill(char* to, uint64_t want, uint64_t& have) {
  while (have < want) {
    const ssize_t count = ::recv(fd_.get(), to + have, want - have, MSG_DONTWAIT);
    if (count <= 0) {
      if (count == 0 || !IsLater()) is_broken_ = true;
      return false;
    }
    have += static_cast<uint64_t>(count);
  }
  return true;
}

std::optional<uint32_t> ReceiveEnd::TestDone() {
  if (posted_.empty() || is_broken_) return std::nullopt;
  if (!Fill(reinterpret_cast<char*>(&header_), sizeof header_, have_header_)) return std::nullopt;
  if (header_ > posted_.front().capacity) {  // ranks that do not agree on the operation
    is_broken_ = true;
    return std::nullopt;
  }
  if (!Fill(posted_.front().data, header_, have_body_)) return std::nullopt;
  posted_.pop_front();
  have_header_ = have_body_ = 0;
  return header_;
}

}  // namespace paceline::collectives
