// The holder's requests and answers as values: docs/formats/holder-protocol.md. Requests come from the node agent,
// which is trusted, and are checked all the same, since the holder runs programs as root. Pure functions.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace paceline::holder {

inline constexpr size_t kMaxRequestBytes = 2 << 20;
inline constexpr size_t kMaxLogLines = 40;
inline constexpr size_t kMaxLogLineBytes = 400;

enum class Command { kStart, kStop, kStatus, kList };

// What is to run, without the contents of files.
struct MountSpec {
  std::string name;
  std::string owner;
  std::string program;  // a file name
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;

  // True when the two would run the same process.
  bool RunsAs(const MountSpec& other) const {
    return program == other.program && arguments == other.arguments && environment == other.environment;
  }
};

struct Request {
  Command command = Command::kList;
  MountSpec mount;  // only its name for kStop and kStatus
  // Contents by name. Absent: the request has none, and those of an earlier one stay.
  std::optional<std::map<std::string, std::string>> files;
};

enum class MountState { kStarting, kMounted, kBackingOff, kFailed, kStopping, kEnded };
std::string_view MountStateName(MountState state);

struct ExitReport {
  WallTime at;
  std::string text;  // "exit code 1"
};

struct MountView {
  std::string name;
  std::string owner;
  MountState state = MountState::kStarting;
  std::string mount_point;
  std::string control_socket;
  std::optional<int> pid;
  WallTime started_at;
  int restarts = 0;
  std::optional<ExitReport> last_exit;
  std::vector<std::string> log;
};

// kInvalidArgument names the field; kUnimplemented for another version or command.
Result<Request> ParseRequest(std::string_view line);

// One line without its end.
std::string RenderFailure(const Status& status);
std::string RenderMount(const std::optional<MountView>& mount);
std::string RenderMounts(const std::vector<MountView>& mounts);

// The form of a record: a MountSpec and what is known of its process.
struct MountRecord {
  MountSpec spec;
  int pid = 0;  // 0: none
  uint64_t start_ticks = 0;
  bool has_mounted = false;
  bool is_stopping = false;
  int restarts = 0;
  WallTime started_at;
};

std::string RenderRecord(const MountRecord& record);
// kDataLoss for anything that RenderRecord does not write; unknown fields are ignored.
Result<MountRecord> ParseRecord(std::string_view text);

// True for 1 to 63 of a-z, 0-9 and '-'.
bool IsMountName(std::string_view name);

}  // namespace paceline::holder
