// What the agent asks of paceline-holder, the parent of mount processes: docs/formats/holder-protocol.md. An interface,
// so that volume code is tested without processes.
//
// Every call is one short exchange over a Unix socket and ends at its deadline. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace paceline::agent {

struct MountOrder {
  std::string name;
  std::string owner;
  std::string program;
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;
  // Contents by name. Absent: those of an earlier order stay.
  std::optional<std::map<std::string, std::string>> files;
};

enum class HeldState { kStarting, kMounted, kBackingOff, kFailed, kStopping, kEnded };

struct HeldMount {
  std::string name;
  std::string owner;
  HeldState state = HeldState::kStarting;
  std::string mount_point;
  std::string control_socket;
  int restarts = 0;
  std::string last_exit;  // "signal 9"; empty when no process has ended
  std::vector<std::string> log;
};

class HolderClient {
 public:
  virtual ~HolderClient() = default;

  // kUnavailable when no holder answers; else what the holder says: kAlreadyExists, kAborted, ...
  virtual Result<HeldMount> Start(const MountOrder& order, Deadline deadline) = 0;
  // Empty when there is no such mount.
  virtual Result<std::optional<HeldMount>> Stop(const std::string& name, Deadline deadline) = 0;
  virtual Result<std::optional<HeldMount>> Look(const std::string& name, Deadline deadline) = 0;
  virtual Result<std::vector<HeldMount>> List(Deadline deadline) = 0;

  // Sends a command to the control socket of a mount, "stats", and returns the answer.
  virtual Result<std::string> AskMount(const std::string& control_socket, const std::string& command,
                                       Deadline deadline) = 0;
};

// `clock` must outlive the client.
std::unique_ptr<HolderClient> NewHolderClient(const std::string& socket, const Clock& clock);

// The holder's answer to start, stop and status. kDataLoss for what is no such answer, else the failure in it.
Result<std::optional<HeldMount>> ParseHolderAnswer(std::string_view text);

}  // namespace paceline::agent
