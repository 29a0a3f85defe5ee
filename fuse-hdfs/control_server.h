// A Unix socket that takes one line of words and answers with text until the end of the connection: how operators and
// the node agent look into a mount. Only the mounting user may connect. One thread, one client at a time, each for a
// few seconds at most.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace paceline::fuse_hdfs {

// Gives the answer to a line, split at blanks; never called for an empty one. Runs on the server's thread.
using ControlHandler = std::function<std::string(const std::vector<std::string>& words)>;

class ControlServer {
 public:
  // Listens on `path`, in the place of a socket that nobody serves any more. kAlreadyExists when somebody does.
  static Result<std::unique_ptr<ControlServer>> Start(const std::string& path, const Clock& clock,
                                                      ControlHandler handler);
  // Removes the socket. Waits for the answer in work.
  virtual ~ControlServer() = default;
};

// Sends one line and returns the answer. kUnavailable when nobody serves the socket, kDeadlineExceeded.
Result<std::string> AskControlServer(const std::string& path, const std::string& line, const Clock& clock,
                                     Deadline deadline);

}  // namespace paceline::fuse_hdfs
