#include "snapshotter/commands.h"

#include "lib/base/local_socket.h"
#include "snapshotter/image_mount.h"

namespace paceline::snapshotter {
namespace {

constexpr size_t kMaxAnswerBytes = 256 << 20;
constexpr std::chrono::minutes kAnswerLimit{3};

Result<std::string> AskPlace(const MountPlace& place, const std::string& line, const Clock& clock) {
  ASSIGN_OR_RETURN(std::string answer,
                   AskLocal(place.socket(), line, kMaxAnswerBytes, clock, Deadline::After(clock, kAnswerLimit)));
  constexpr std::string_view kError = "error: ";
  if (answer.starts_with(kError)) return AbortedError(answer.substr(kError.size()));
  return answer;
}

}  // namespace

Status UnmountImage(const std::string& state_folder, const std::string& directory, Detach detach, const Clock& clock) {
  ASSIGN_OR_RETURN(const MountPlace place, FindMountPlace(state_folder, directory));
  ASSIGN_OR_RETURN(const std::vector<std::string> below, MountsBelow(place.folder));
  if (below.empty()) return NotFoundError("no image is mounted on " + place.directory);
  const Result<std::string> answer = AskPlace(place, detach == Detach::kLazily ? "unmount force" : "unmount", clock);
  if (answer.ok()) return Status();
  if (answer.status().code() == StatusCode::kAborted) return answer.status();
  return TakeDownPlace(place, detach);
}

Result<std::string> AskMount(const std::string& state_folder, const std::string& directory, const std::string& line,
                             const Clock& clock) {
  ASSIGN_OR_RETURN(const MountPlace place, FindMountPlace(state_folder, directory));
  return AskPlace(place, line, clock).Annotate("the image mounted on " + place.directory);
}

}  // namespace paceline::snapshotter
