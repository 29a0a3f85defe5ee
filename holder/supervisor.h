// The rules by which mount processes live: docs/formats/holder-protocol.md. Starts, watches, starts again, stops, and
// has everything on disk before it answers, so that the next holder knows what this one did.
//
// Used by one thread, the holder's loop: it hands over requests and news, and asks when to come back.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "holder/process_host.h"
#include "holder/protocol.h"
#include "lib/base/clock.h"
#include "lib/base/filesystem.h"
#include "lib/base/log.h"

namespace paceline::holder {

class Supervisor {
 public:
  struct Options {
    std::string state_dir;
    std::string mount_root;
    std::vector<std::string> programs;     // full paths
    std::vector<std::string> environment;  // allowed names
    size_t max_mounts = 256;
    Duration first_restart = std::chrono::seconds(1);
    Duration max_restart = std::chrono::seconds(60);
    Duration stop_limit = std::chrono::seconds(330);
  };

  // Everything passed by reference must outlive this object.
  Supervisor(Options options, FileSystem& files, ProcessHost& processes, const Clock& clock, Logger& log);

  // Makes the folders and takes up what an earlier holder left. Call once, first. Fails when the folders cannot be made
  // or the records cannot be listed.
  Status Recover();

  // Answers one request with one line. Blocks for the disk only.
  std::string Handle(const Request& request);

  void Take(const ProcessNews& news);

  // Does what is due. Returns when to call again at the latest.
  TimePoint Advance();

  // The holder ends: asks every process to write out and end, and keeps the records for the next holder.
  void EndAll();
  bool has_processes() const;

 private:
  struct Mount {
    MountRecord record;
    MountState state = MountState::kStarting;
    std::optional<ExitReport> last_exit;
    std::deque<std::string> log;
    int failures = 0;      // deaths in a row, for the back-off
    TimePoint mounted_at;  // when the state became kMounted
    TimePoint next_start;  // in kBackingOff
    TimePoint kill_at;     // in kStopping
  };

  Result<MountView> Start(const Request& request);
  Result<std::optional<MountView>> Stop(const std::string& name);
  Result<std::optional<MountView>> Look(const std::string& name) const;
  Status CheckOrder(const MountSpec& spec) const;
  Status WriteFiles(const Request& request);
  Status Launch(Mount& mount);
  Status Save(const Mount& mount);
  void RecoverMount(const std::string& name);
  void Ended(Mount& mount, const std::string& how);
  void Finish(const std::string& name);
  void RemoveFolder(const std::string& name);
  void BackOff(Mount& mount);
  TimePoint AdvanceMount(Mount& mount);
  MountView ViewOf(const Mount& mount) const;
  std::string FillIn(const std::string& text, const std::string& name) const;

  std::string FolderOf(const std::string& name) const { return options_.state_dir + "/mounts/" + name; }
  std::string MountPointOf(const std::string& name) const { return options_.mount_root + "/" + name; }

  const Options options_;
  FileSystem& files_;
  ProcessHost& processes_;
  const Clock& clock_;
  Logger& log_;
  std::map<std::string, Mount> mounts_;
  std::deque<MountView> ended_;
  bool is_ending_ = false;
};

}  // namespace paceline::holder
