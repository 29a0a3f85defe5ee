// Puts a mounted snapshot layer over its directories: an overlay on each, with what was there below it and a place for
// writes above. Linux, root. docs/formats/dependency-snapshot.md, section 5.
//
// Called by `pacectl deps restore` after paceline-snapshotter has mounted the layer, and by `deps unmount`. Blocks for
// the kernel, and for whoever serves the layer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace paceline::deps {

// Where everything of a mounted snapshot lies on this machine, found again from its directories alone.
struct OverlayPlace {
  std::vector<std::string> roots;
  std::string folder;  // "/run/paceline/deps/<16 hex>"
  std::string upper;   // writes go below this; on a disk

  std::string top() const { return folder + "/top"; }      // where the snapshotter mounts
  std::string state() const { return folder + "/state"; }  // what it needs for that
};
OverlayPlace PlaceOf(const std::vector<std::string>& roots, const std::string& run_folder,
                     const std::string& upper_folder);

// Mounts an overlay on each root; after a failure none stays. `layer_folder`: where the snapshot's layer alone is
// mounted, with its whiteouts (FindLayer).
Status MountOverRoots(const OverlayPlace& place, const std::string& layer_folder);

enum class DetachMode { kWhenIdle, kAlways };
// kAborted while one is in use (kWhenIdle): that one and those not tried yet stay. kNotFound when none was mounted.
Status UnmountRoots(const OverlayPlace& place, DetachMode mode);

// The EROFS mount below `folder`, from a text like /proc/self/mountinfo: "" for none. Pure.
std::string FindErofs(std::string_view mountinfo, const std::string& folder);
// From the kernel's own table; kNotFound.
Result<std::string> FindLayer(const std::string& folder);
// Whether our overlay is on `root`, from such a text. Pure.
bool HasOverlay(std::string_view mountinfo, const std::string& root);

}  // namespace paceline::deps
