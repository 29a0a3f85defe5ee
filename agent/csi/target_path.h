// Where kubelet may ask for a volume: a target path taken apart and checked, so that a caller of the socket cannot make
// the agent, which is root, mount or delete anywhere else. Purely textual; symbolic links are dealt with where the path
// is opened (volume_host.h). Safe from any thread.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace paceline::agent {

// KUBELET_DIR/pods/POD_UID/volumes/kubernetes.io~csi/VOLUME_NAME/mount
struct TargetPath {
  std::string path;
  std::string pod_uid;
  std::string volume_name;  // as the pod's spec calls it
};

// kInvalidArgument, naming the form that is expected, for anything else: other folders, "..", doubled slashes, NUL
// bytes. `kubelet_dir` is absolute and has no slash at its end.
Result<TargetPath> ParseTargetPath(std::string_view kubelet_dir, std::string_view path);

// True for a volume id that can be a file's name: letters, digits, '-', '_' and '.', not starting with '.', at most
// 128.
bool IsValidVolumeId(std::string_view volume_id);

}  // namespace paceline::agent
