// Volume type `hdfs`: a directory of HDFS, served by a paceline-hdfs-mount that paceline-holder runs, so that it
// outlives this agent. Inline and PersistentVolumes; attributes in docs/volumes.md.
//
// The process mounts at a place of the holder's, and the agent binds that to the target. When the process dies, the
// holder mounts again at its place and the agent binds the new mount over the dead one: a mount on top of a mount is
// passed on to the containers whose volumeMount has mountPropagation: HostToContainer, while one that takes the dead
// mount's place would not be (docs/decisions/0011-mounts-outlive-the-agent.md).
// Thread-safe.
#pragma once

#include <memory>

#include "agent/csi/hdfs_order.h"
#include "agent/csi/holder_client.h"
#include "agent/csi/volume_host.h"
#include "agent/csi/volume_type.h"
#include "lib/base/log.h"

namespace paceline::agent {

struct HdfsOptions {
  HdfsRules rules;
  Duration mount_limit = std::chrono::seconds(60);  // how long a new mount may take
};

// Everything passed by reference must outlive the type. The holder's mount points must lie below a root of `host`.
std::unique_ptr<VolumeType> NewHdfsVolume(HdfsOptions options, std::unique_ptr<HolderClient> holder, VolumeHost& host,
                                          const Clock& clock, Logger& log);

}  // namespace paceline::agent
