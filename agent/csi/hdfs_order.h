// From the attributes and the Secret of a volume of type `hdfs` to the command line of paceline-hdfs-mount, as an order
// for the holder. What the attributes mean is in docs/volumes.md. Pure functions.
#pragma once

#include <map>
#include <string>

#include "agent/csi/holder_client.h"
#include "agent/csi/volume_type.h"
#include "lib/base/result.h"
#include "lib/base/units.h"

namespace paceline::agent {

struct HdfsRules {
  ByteSize memory_limit{1ULL << 30};  // of a mount that does not say otherwise
  // Folder below which file:// may be mounted. Empty: nowhere, since such a mount shows the node's own files.
  std::string file_root;
};

// The holder's name for the mount of a volume. Volume ids are too long for a path of a socket.
std::string HdfsMountName(const std::string& volume_id);

// kInvalidArgument says which attribute or key of the Secret is wrong, and what would do.
Result<MountOrder> MakeHdfsOrder(const VolumeSpec& spec, const HdfsRules& rules);

}  // namespace paceline::agent
