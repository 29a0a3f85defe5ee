// The kernel side of a mounted image: an EROFS mount for each layer file and an overlay over them, by mount(2). Also
// what is mounted now, read from the kernel's table, since nothing else can be believed after a crash.
//
// Callers: ImageMount, the unmount command. Stateless; calls block for the kernel, and Erofs for whoever serves `file`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace paceline::snapshotter {

// How EROFS gets at a file: by itself (Linux 6.12 and later, on file systems that can), or through a loop device.
enum class Backing { kFile, kLoop };
std::string_view BackingName(Backing backing);

// Mounts the image in `file` at `target`, read-only. kUnimplemented when the kernel or the file system of `file` cannot
// do it in this way: then the other one is to be tried.
Status MountErofs(const std::string& file, const std::string& target, Backing backing);

struct OverlayDirs {
  std::vector<std::string> lower;  // top first; relative to the working directory, so that 127 of them fit
  std::string upper, work;         // both empty: read-only
};
Status MountOverlay(const OverlayDirs& dirs, const std::string& target);

enum class Detach { kNo, kLazily };
// kNotFound when nothing is mounted there; kAborted when it is in use (not with kLazily).
Status Unmount(const std::string& target, Detach detach);

// Where something is mounted below `folder` or at it, from a text like /proc/self/mountinfo; the one mounted last comes
// first. Pure.
std::vector<std::string> MountsBelow(std::string_view mountinfo, const std::string& folder);
// The same from the kernel.
Result<std::vector<std::string>> MountsBelow(const std::string& folder);

}  // namespace paceline::snapshotter
