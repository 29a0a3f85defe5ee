// Keeps a FUSE connection in a process of its own, so that the mounts of running containers outlive whoever serves
// them, the plugin or the server of one image: a crash, an upgrade. The process knows nothing else and hardly ever
// changes; it ends by itself when no server has come for a while, and then reads fail instead of waiting for ever. In
// what follows such a server is called a plugin.
//
// A SOCK_SEQPACKET socket for our own user only, one datagram each way:
//   'K' + INIT request, with the descriptor   keep this           -> 'K'
//   'T'                                       what is kept?       -> 'T' + INIT request, with the descriptor; or 'N'
//   'Q'                                       nothing, from now on: end
// The plugin holds its connection to the socket open as long as it lives.
#pragma once

#include <optional>
#include <stop_token>
#include <string>

#include "lib/base/clock.h"
#include "lib/base/config.h"
#include "lib/base/log.h"
#include "lib/base/result.h"
#include "lib/fusefs/session.h"

namespace paceline::snapshotter {

struct KeeperConfig {
  std::string socket = "/run/paceline/snapshotter/keeper.sock";
  Duration give_up_after = std::chrono::minutes(5);  // without a plugin
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
};
ConfigSpec DescribeKeeperConfig(KeeperConfig* config);

// The keeper's life. Ok at the stop, and when nobody came for `give_up_after`. Single-threaded.
Status RunKeeper(const KeeperConfig& config, const Clock& clock, Logger& log, std::stop_token stop);

// The plugin's side. Not thread-safe. Calls end within seconds.
class KeeperClient {
 public:
  // kUnavailable when nobody serves the socket.
  static Result<KeeperClient> Connect(const std::string& socket);

  // What an earlier plugin left; nothing when there is none.
  Result<std::optional<fusefs::Connection>> Take();
  // In place of what was kept before.
  Status Keep(const fusefs::Connection& connection);
  // The mount is gone, and with it the reason for a keeper: it ends. One of an older version ends later, by itself.
  Status Release();

 private:
  explicit KeeperClient(UniqueFd socket) : socket_(std::move(socket)) {}

  UniqueFd socket_;
};

// Starts `program` keep as a process that is nobody's child and of a session of its own. It is ready when Connect
// works.
Status SpawnKeeper(const std::string& program, const KeeperConfig& config);

// The keeper at `config.socket`; with `spawns` one is started when there is none, as a copy of this program. Within
// seconds.
Result<KeeperClient> ReachKeeper(const KeeperConfig& config, bool spawns, const Clock& clock,
                                 const std::stop_token& stop);

// False once the kernel has given the connection up: nothing brings its mounts back.
bool IsAlive(const fusefs::Connection& connection);

}  // namespace paceline::snapshotter
