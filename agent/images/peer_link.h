// Between the node's plan and the snapshotter plugin: which nodes it shares chunks of lazy images with, and where it
// gives them itself. The plugin forgets peers that nobody speaks of, so they are told again now and then, and at once
// when they have changed or a new plugin knows none.
//
// See is called by the thread that asks the plugin for its status; address from any.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mutex.h"
#include "lib/base/result.h"

namespace paceline::agent {

// The member "peers" of docs/formats/snapshotter-status.md.
struct SharingStatus {
  bool is_configured = false;
  int port = 0;       // where it gives chunks; 0: it gives none
  int64_t peers = 0;  // that it knows
};
// All zero for what is no status.
SharingStatus ParseSharing(std::string_view status);

// "10.0.0.7:9466", "[fd00::7]:9466".
std::string JoinHostPort(const std::string& host, int port);

struct PeerLinkOptions {
  std::string host;  // of this node, for others; empty: its chunks are not offered
  // Sends a line to the plugin and gives its answer.
  std::function<Result<std::string>(const std::string& line, Deadline deadline)> ask;
  // Addresses in the plan of this node; nothing when no plan is known.
  std::function<std::optional<std::vector<std::string>>()> peers;
  std::function<void()> on_news;  // the address has changed
  Duration repeat = std::chrono::minutes(1);
  Duration ask_limit = std::chrono::seconds(5);
};

class PeerLink {
 public:
  // Borrows `clock` and `log`.
  PeerLink(PeerLinkOptions options, const Clock& clock, Logger& log)
      : options_(std::move(options)), clock_(clock), log_(log) {}

  // Takes note of a status, and tells the plugin its peers when that is due. Blocks for the plugin, bounded.
  void See(std::string_view status) EXCLUDES(mutex_);

  // host:port where this node gives chunks; empty when it gives none.
  std::string address() const EXCLUDES(mutex_);

 private:
  void Tell(const SharingStatus& sharing, const std::string& own);

  const PeerLinkOptions options_;
  const Clock& clock_;
  Logger& log_;
  std::vector<std::string> told_;  // this and what follows by the seeing thread alone
  std::optional<TimePoint> told_at_;
  bool has_failed_ = false;
  mutable Mutex mutex_;
  std::string address_ GUARDED_BY(mutex_);
};

}  // namespace paceline::agent
