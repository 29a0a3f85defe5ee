// Volume type `scratch`: an empty place on the node for one pod, gone with it. The simplest type there is, and so the
// one that proves the way from a pod's spec to a mounted folder.
//
// Attributes:
//   medium  Disk (default): a folder below the agent's state, bind-mounted; its bytes outlive a reboot of the node, as
//   an
//           emptyDir's do. Memory: a tmpfs, charged to the memory of the containers that write to it.
//   size    a quantity such as 10Gi. Memory: the limit of the tmpfs (default: half of the node's memory). Disk: that
//   much
//           must be free when the volume is made; it is not enforced afterwards, and is so said in docs/volumes.md.
// Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "agent/csi/volume_host.h"
#include "agent/csi/volume_type.h"

namespace paceline::agent {

// `state_dir` must exist; the type keeps its folders `scratch` and `scratch-trash` there. `host` must outlive it.
std::unique_ptr<VolumeType> NewScratchVolume(const std::string& state_dir, VolumeHost& host);

}  // namespace paceline::agent
