// One kind of volume that the node plugin can publish, chosen by the attribute `type` of the inline volume. The node
// service keeps a table of these; a new kind is one class here and one line in main.
//
// Calls for one volume never overlap; calls for different volumes do, so implementations are thread-safe.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "agent/csi/target_path.h"
#include "lib/api/node_plan.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace paceline::agent {

struct PodIdentity {
  std::string ns;
  std::string name;
  std::string uid;
  std::string service_account;  // as kubelet says at the volume's publish; not kept with it
  bool operator==(const PodIdentity&) const = default;
};

// What kubelet asked for, checked and without the attributes that are not the type's own.
struct VolumeSpec {
  std::string volume_id;  // unique on the node, usable as a file's name
  std::string type;
  TargetPath target;
  PodIdentity pod;
  bool is_read_only = false;
  std::map<std::string, std::string> attributes;
  // Of the volume's Secret. Only there while kubelet's call is worked on, never on disk; has_secrets says for good that
  // the volume came with some.
  std::map<std::string, std::string> secrets;
  bool has_secrets = false;
};

// How a mounted volume does, for the report of its pod.
struct MountFigures {
  std::string state;    // "Mounted", "Restarting", "Failed", "Unknown"
  std::string message;  // what a person should know; empty when all is well
  int restarts = 0;     // of the process that serves the mount
  int64_t read_bytes = 0;
  int64_t written_bytes = 0;
  // The reading with which a program starts: from its first byte to the last one before it first paused for a minute.
  std::optional<WallTime> first_read_at;
  std::optional<WallTime> last_read_at;
  bool operator==(const MountFigures&) const = default;
};

struct VolumeHealth {
  MountFigures figures;
  bool needs_mending = false;                        // Publish would put it right
  std::optional<api::PodDependencies> dependencies;  // of a volume for them
};

class VolumeType {
 public:
  virtual ~VolumeType() = default;

  // The value of `type` in volumeAttributes.
  virtual std::string_view name() const = 0;

  // Looks at the attributes only. kInvalidArgument for an unknown one or a bad value, saying what would do.
  virtual Status Validate(const VolumeSpec& spec) const = 0;

  // Makes the target show the volume. Called again for a volume that is already there (kubelet repeats, the agent
  // restarts): then it mends what is broken and leaves the rest alone. Blocks until `deadline` at the longest.
  virtual Status Publish(const VolumeSpec& spec, Deadline deadline) = 0;

  // Undoes all of Publish, also of one that was cut off half way, and is ok when nothing is left to undo. Only
  // volume_id and target are sure to be set: the record of a volume may be lost.
  virtual Status Unpublish(const VolumeSpec& spec, Deadline deadline) = 0;

  // True when PersistentVolumes may be of this type, besides inline volumes.
  virtual bool serves_persistent() const = 0;

  // Looks at a published volume without changing it. Empty for types of which there is nothing to say. Blocks until
  // `deadline` at the longest.
  virtual std::optional<VolumeHealth> Look(const VolumeSpec& spec, Deadline deadline) = 0;

  // Removes what belongs to no volume that `is_known`; run at start, before any other call.
  virtual Status RemoveOrphans(const std::function<bool(const std::string& volume_id)>& is_known) = 0;

  // Slow disposal of what Unpublish left, off the path that kubelet waits on. Ok when there is nothing.
  virtual Status TakeOutTrash() = 0;
};

}  // namespace paceline::agent
