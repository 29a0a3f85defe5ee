// How the ranks of a job find each other: a listening socket per rank, and a greeting on each connection that says
// which communicator, channel and sender it is for.
//
// All connections of a rank are made first and accepted afterwards, so that no order among ranks is needed. Blocking;
// one thread.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace paceline::collectives {

struct Greeting {
  uint32_t comm = 0;
  uint32_t channel = 0;
  uint32_t from = 0;  // world rank
  uint32_t is_p2p = 0;
  auto operator<=>(const Greeting&) const = default;
};

// A socket that listens on `address` ("host:port", port 0: any). kInvalidArgument and errors of the network.
Result<UniqueFd> Listen(const std::string& address);
// The port that a socket listens on.
uint16_t PortOf(const UniqueFd& listener);
// Connects, and tries again for a minute while nobody listens.
Result<UniqueFd> ConnectTo(const std::string& address);

class Rendezvous {
 public:
  // `addresses[r]` is "host:port" of world rank r.
  Rendezvous(UniqueFd listener, std::vector<std::string> addresses)
      : listener_(std::move(listener)), addresses_(std::move(addresses)) {}

  Result<UniqueFd> Connect(uint32_t to, const Greeting& greeting);
  // Blocks until the connection with this greeting has come.
  Result<UniqueFd> Accept(const Greeting& greeting);

 private:
  UniqueFd listener_;
  std::vector<std::string> addresses_;
  std::map<Greeting, UniqueFd> accepted_;
};

}  // namespace paceline::collectives
