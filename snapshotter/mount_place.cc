#include "snapshotter/mount_place.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>

#include "lib/blocks/format/digest.h"

namespace paceline::snapshotter {
namespace {

// Of the name's digest: enough to tell mounts of one machine apart, short enough for a socket's path.
constexpr size_t kNameDigits = 16;

Result<std::string> Resolve(const std::string& path) {
  char* resolved = realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return ErrnoStatus(errno, path);
  std::string text = resolved;
  std::free(resolved);
  return text;
}

}  // namespace

Result<MountPlace> FindMountPlace(const std::string& state_folder, const std::string& directory) {
  std::string trimmed = directory;
  while (trimmed.size() > 1 && trimmed.ends_with('/')) trimmed.pop_back();
  // The directory itself may be a mount that answers nothing any more; those above it do.
  const size_t slash = trimmed.rfind('/');
  const std::string above = slash == std::string::npos ? "." : slash == 0 ? "/" : trimmed.substr(0, slash);
  const std::string name = slash == std::string::npos ? trimmed : trimmed.substr(slash + 1);
  MountPlace place;
  struct stat st = {};
  const bool is_link = lstat(trimmed.c_str(), &st) == 0 && S_ISLNK(st.st_mode);
  if (is_link || name.empty() || name == "." || name == "..") {
    ASSIGN_OR_RETURN(place.directory, Resolve(trimmed));
  } else {
    ASSIGN_OR_RETURN(place.directory, Resolve(above));
    place.directory += (place.directory == "/" ? "" : "/") + name;
  }
  if (stat(place.directory.c_str(), &st) != 0) {
    if (errno != ENOTCONN) return ErrnoStatus(errno, place.directory);
  } else if (!S_ISDIR(st.st_mode)) {
    return InvalidArgumentError(place.directory + " is no directory");
  }
  place.folder = state_folder + "/" + blocks::Sha256Of(place.directory).Hex().substr(0, kNameDigits);
  return place;
}

}  // namespace paceline::snapshotter
