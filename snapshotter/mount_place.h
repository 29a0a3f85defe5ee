// Where a mounted image keeps its things on this machine, found again from the mount point alone: the folder in which
// layers are mounted, the socket of the process that serves it.
//
// Callers: ImageMount, the unmount command. Pure but for Find, which resolves links.
#pragma once

#include <string>

#include "lib/base/result.h"

namespace paceline::snapshotter {

struct MountPlace {
  std::string directory;  // the mount point, absolute, links resolved
  std::string folder;     // everything else of this mount is below

  std::string fuse_folder() const { return folder + "/fuse"; }
  // Short and relative to `folder`: an overlay of 127 layers names them all in one page.
  static std::string LayerFolder(size_t number) { return "l/" + std::to_string(number); }
  std::string layers_folder() const { return folder + "/l"; }
  std::string empty_folder() const { return folder + "/e"; }
  std::string socket() const { return folder + "/s"; }
  // Beside the folder: it is its keeper's to remove.
  std::string keeper_socket() const { return folder + ".k"; }
};

// kNotFound when the directory does not exist, kInvalidArgument when it is none. A directory whose server has died is
// found all the same.
Result<MountPlace> FindMountPlace(const std::string& state_folder, const std::string& directory);

}  // namespace paceline::snapshotter
