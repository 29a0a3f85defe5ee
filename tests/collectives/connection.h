// One direction of data between two ranks over TCP, with the calls that NCCL's network layer has: a send is taken only
// when the receiver has posted a buffer for it, and both ends are tested until they are done.
//
// A frame is a length and its bytes; in the other direction each byte is the credit for one frame. A send is done when
// the kernel has its bytes, as with NCCL's sockets. Nothing here blocks after the connection stands. Not thread-safe:
// an end belongs to the thread that moves its data.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "lib/base/unique_fd.h"

namespace paceline::collectives {

class SendEnd {
 public:
  explicit SendEnd(UniqueFd fd) : fd_(std::move(fd)) {}

  // Takes `bytes` at `data`, which must stay until done. False when the receiver has no buffer posted.
  bool TrySend(const void* data, uint32_t bytes);
  // True once for each send that is done, in order.
  bool TestDone();
  // The other end is gone.
  bool is_broken() const { return is_broken_; }

 private:
  struct Frame {
    uint32_t header = 0;
    const char* data = nullptr;
    uint64_t written = 0;  // header included
  };
  void ReadCredits();
  void Pump();

  UniqueFd fd_;
  std::deque<Frame> frames_;
  uint64_t credits_ = 0;
  uint64_t done_ = 0;  // done and not yet told
  bool is_broken_ = false;
};

class ReceiveEnd {
 public:
  explicit ReceiveEnd(UniqueFd fd) : fd_(std::move(fd)) {}

  // Offers a buffer. False when the credit cannot be sent now.
  bool TryPost(void* data, uint32_t capacity);
  // Size of the oldest posted receive when its bytes are all there, once.
  std::optional<uint32_t> TestDone();
  bool is_broken() const { return is_broken_; }

 private:
  struct Buffer {
    char* data = nullptr;
    uint32_t capacity = 0;
  };
  // Reads into `to`; true when `have` reached `want`.
  bool Fill(char* to, uint64_t want, uint64_t& have);

  UniqueFd fd_;
  std::deque<Buffer> posted_;
  uint32_t header_ = 0;
  uint64_t have_header_ = 0, have_body_ = 0;
  bool is_broken_ = false;
};

}  // namespace paceline::collectives
