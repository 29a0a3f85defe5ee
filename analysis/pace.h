// How fast each rank of a run goes, told from its collectives alone: which part of its time is its own work, and which
// part it spends inside operations, where it waits for the others.
//
// All members of a collective end it at the same moment, since nobody can end before the last has come. So of the time
// from one end to the next, which is equal on all ranks, each rank spends on its own work what it does before it comes;
// who comes last has the most of it. Each rank is measured by its own clock, and no clocks are compared. Works for any
// framework whose host waits for its device now and then; where launches run ahead of the device the host's time says
// nothing, and that is told apart (`ahead`).
//
// The agent's collector keeps a PaceMeter for each rank of its node. Windows begin at multiples of their length by the
// node's clock. Pure computation, no I/O; not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/clock.h"

namespace paceline::analysis {

inline constexpr Duration kPaceWindow = std::chrono::seconds(5);

// A rank over one window. A window without operations is not there.
struct PaceWindow {
  int64_t start = 0;        // seconds of the Unix epoch
  uint64_t operations = 0;  // that ended in it
  Duration own{};           // outside of operations
  Duration inside{};        // in at least one operation
  uint64_t ahead = 0;       // collectives that began before what was before them had ended

  bool operator==(const PaceWindow&) const = default;
};

// A communicator that a rank has used.
struct PaceComm {
  uint64_t id = 0;
  bool has_collectives = false;
  bool has_p2p = false;

  bool operator==(const PaceComm&) const = default;
};

struct RankPace {
  int32_t world_rank = -1;
  std::string node;
  std::vector<PaceComm> comms;      // by id
  std::vector<PaceWindow> windows;  // by start

  bool operator==(const RankPace&) const = default;
};

struct PaceOptions {
  Duration grace = std::chrono::seconds(3);     // after a window, for operations that are told late
  Duration warm_up = std::chrono::seconds(20);  // from the first operation on; windows that begin before are left out
  size_t kept_windows = 192;
  size_t kept_comms = 64;
  size_t max_operations = 32'768;  // of windows that are not over; with more of them those windows are not told
};

class PaceMeter {
 public:
  explicit PaceMeter(const PaceOptions& options = {}) : options_(options) {}

  // An operation that has ended, in any order.
  void Add(uint64_t comm, bool is_collective, WallTime start, WallTime end);
  // Closes the windows that ended `grace` before `now`.
  void Close(WallTime now);

  // Those that are over and began at or after `since`.
  std::vector<PaceWindow> Windows(WallTime since) const;
  const std::map<uint64_t, PaceComm>& comms() const { return comms_; }

 private:
  struct Span {
    WallTime start, end;
    bool is_collective;
  };
  void Count(const Span& span, PaceWindow& window);

  PaceOptions options_;
  std::map<uint64_t, PaceComm> comms_;
  std::vector<Span> waiting_;  // of windows that are not over
  bool has_overflowed_ = false;
  std::optional<WallTime> first_;
  int64_t open_ = 0;                  // the first window that was not over at the last Close
  std::optional<WallTime> last_end_;  // latest end of an operation of a closed window
  std::deque<PaceWindow> windows_;
};

}  // namespace paceline::analysis
