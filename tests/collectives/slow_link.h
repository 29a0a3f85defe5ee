// A TCP relay with a rate: stands between two ranks and forwards what they send at the speed that the test sets.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <string>
#include <thread>

#include "lib/base/unique_fd.h"

namespace paceline::collectives {

class SlowLink {
 public:
  // Forwards connections that are made to `listener` to `target` ("host:port").
  SlowLink(UniqueFd listener, std::string target);
  ~SlowLink();

  // Of each connection, in the direction away from whoever connected. 0: nothing goes through any more.
  void SetRate(uint64_t bytes_per_second) { bytes_per_second_ = bytes_per_second; }

 private:
  void Accept(const std::stop_token& stop);
  void Forward(int from, int to, bool is_limited, const std::stop_token& stop) const;

  UniqueFd listener_;
  std::string target_;
  std::atomic<uint64_t> bytes_per_second_{UINT64_MAX};
  std::list<UniqueFd> sockets_;     // of the accepting thread
  std::list<std::jthread> movers_;  // of the accepting thread
  std::jthread acceptor_;
};

}  // namespace paceline::collectives
