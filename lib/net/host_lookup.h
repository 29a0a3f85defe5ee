// Host names to addresses, with a deadline: getaddrinfo cannot be interrupted, so it runs on a thread of its own that
// is left behind when the caller gives up. IP literals are answered at once, without that thread. Thread-safe.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lib/net/wait_limit.h"

namespace paceline::net {

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;
};

// At least one address, in the order in which to try them. kUnavailable when the name is unknown or the lookup takes
// longer than `give_up`.
Result<std::vector<SocketAddress>> LookUpHost(const std::string& host, uint16_t port, const WaitLimit& limit,
                                              TimePoint give_up);

}  // namespace paceline::net
