#include "lib/deps/overlay.h"

#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "lib/base/filesystem.h"
#include "lib/blocks/format/digest.h"

namespace paceline::deps {
namespace {

constexpr char kSource[] = "paceline-deps";
constexpr size_t kMaxOptionBytes = 4095;

struct MountLine {
  std::string point, type, source;
};

// The kernel writes blanks and the like as \040.
std::string Unescaped(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 3 >= text.size()) {
      plain += text[i];
      continue;
    }
    plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
    i += 3;
  }
  return plain;
}

std::vector<MountLine> Lines(std::string_view mountinfo) {
  std::vector<MountLine> found;
  std::istringstream lines{std::string(mountinfo)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string id, parent, device, root, point, word;
    if (!(fields >> id >> parent >> device >> root >> point)) continue;
    // A varying number of fields ends with a dash.
    while (fields >> word && word != "-") {
    }
    MountLine mount{Unescaped(point), "", ""};
    if (fields >> mount.type >> mount.source) found.push_back(std::move(mount));
  }
  return found;
}

Result<std::string> MountTable() {
  std::ifstream table("/proc/self/mountinfo");
  std::stringstream text;
  text << table.rdbuf();
  if (!table) return UnavailableError("cannot read /proc/self/mountinfo");
  return text.str();
}

// overlayfs splits its options at commas and colons.
std::string Escaped(const std::string& path) {
  std::string escaped;
  for (const char c : path) {
    if (c == ':' || c == ',' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

bool HasContents(const std::string& directory) {
  std::error_code error;
  return std::filesystem::directory_iterator(directory, error) != std::filesystem::directory_iterator();
}

Status MountOne(const OverlayPlace& place, size_t number, const std::string& layer_folder) {
  RealFileSystem files;
  const std::string& root = place.roots[number];
  const std::string own = fmt::format("{}/{}", place.upper, number);
  for (const std::string& folder : {own + "/upper", own + "/work"})
    RETURN_IF_ERROR(files.MakeDirectories(folder, 0755));
  const std::string below = layer_folder + root;
  struct stat st;
  if (::stat(below.c_str(), &st) != 0) return ErrnoStatus(errno, "the snapshot's " + root);
  // The upper directory is what one sees of the root itself.
  if (::chown((own + "/upper").c_str(), st.st_uid, st.st_gid) != 0 ||
      ::chmod((own + "/upper").c_str(), st.st_mode & 07777) != 0) {
    return ErrnoStatus(errno, "prepare " + own);
  }
  std::string options = "lowerdir=" + Escaped(below);
  if (HasContents(root)) options += ":" + Escaped(root);
  options += ",upperdir=" + Escaped(own + "/upper") + ",workdir=" + Escaped(own + "/work");
  if (options.size() > kMaxOptionBytes) return InvalidArgumentError("the path of " + root + " is too long to mount");
  // nosuid on the EROFS mount below would not reach through.
  if (::mount(kSource, root.c_str(), "overlay", MS_NOSUID | MS_NODEV, options.c_str()) == 0) return Status();
  return ErrnoStatus(errno, "mount the snapshot on " + root);
}

}  // namespace

OverlayPlace PlaceOf(const std::vector<std::string>& roots, const std::string& run_folder,
                     const std::string& upper_folder) {
  const std::string id = blocks::Sha256Of(fmt::format("{}", fmt::join(roots, "\n"))).Hex().substr(0, 16);
  return {roots, run_folder + "/" + id, upper_folder + "/" + id};
}

Status MountOverRoots(const OverlayPlace& place, const std::string& layer_folder) {
  for (size_t number = 0; number < place.roots.size(); ++number) {
    const Status mounted = MountOne(place, number, layer_folder);
    if (mounted.ok()) continue;
    while (number > 0) ::umount2(place.roots[--number].c_str(), MNT_DETACH);
    return mounted;
  }
  return Status();
}

Status UnmountRoots(const OverlayPlace& place, DetachMode mode) {
  bool has_found = false;
  for (const std::string& root : place.roots) {
    ASSIGN_OR_RETURN(const std::string table, MountTable());
    if (!HasOverlay(table, root)) continue;
    has_found = true;
    if (::umount2(root.c_str(), UMOUNT_NOFOLLOW | (mode == DetachMode::kAlways ? MNT_DETACH : 0)) == 0) continue;
    if (errno == EBUSY) return AbortedError(root + " is in use; --force takes it away all the same");
    return ErrnoStatus(errno, "unmount " + root);
  }
  if (!has_found) return NotFoundError("no snapshot is mounted on " + fmt::format("{}", fmt::join(place.roots, ", ")));
  std::error_code ignored;  // costs space, and the next restore removes it as well
  std::filesystem::remove_all(place.upper, ignored);
  return Status();
}

std::string FindErofs(std::string_view mountinfo, const std::string& folder) {
  std::string found;
  for (const MountLine& line : Lines(mountinfo)) {
    if (line.type == "erofs" && line.point.starts_with(folder + "/")) found = line.point;
  }
  return found;
}

Result<std::string> FindLayer(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::string table, MountTable());
  std::string found = FindErofs(table, folder);
  if (found.empty()) return NotFoundError("no layer is mounted below " + folder);
  return found;
}

bool HasOverlay(std::string_view mountinfo, const std::string& root) {
  for (const MountLine& line : Lines(mountinfo)) {
    if (line.type == "overlay" && line.source == kSource && line.point == root) return true;
  }
  return false;
}

}  // namespace paceline::deps
