// Unix sockets that carry one line each way: how programs of one machine ask each other. Thread-safe: no state.
//
// Every wait ends at its deadline, so a silent other side costs time and nothing else.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace paceline {

// A listening socket at `path` with mode 0600, non-blocking, in the place of one that nobody serves any more.
// kAlreadyExists when somebody does, or when something else than a socket is there; kInvalidArgument for a path of more
// than 107 bytes.
Result<UniqueFd> ListenLocal(const std::string& path);

// The next connection of `listener`, non-blocking. kUnavailable when there is none.
Result<UniqueFd> AcceptLocal(int listener);

// The user that the process at the other end of a connection had when it connected.
Result<uid_t> PeerUser(int connection);

// Reads up to a line feed, which is cut off, or to the end. kResourceExhausted beyond `max_bytes`, kDeadlineExceeded.
Result<std::string> ReceiveLine(int connection, size_t max_bytes, const Clock& clock, Deadline deadline);

// kDeadlineExceeded when the other side does not read.
Status SendText(int connection, std::string_view text, const Clock& clock, Deadline deadline);

// Connects, sends `line` and a line feed, and returns all that comes back until the end, at most `max_bytes`.
// kUnavailable when nobody serves the socket.
Result<std::string> AskLocal(const std::string& path, std::string_view line, size_t max_bytes, const Clock& clock,
                             Deadline deadline);

}  // namespace paceline
