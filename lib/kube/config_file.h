// The files of a kubeconfig. Internal to lib/kube. Thread-safe.
#pragma once

#include <string>

#include "lib/base/result.h"

namespace paceline::kube {

// All of a file, which may be a pipe, as with --kubeconfig <(command). Blocks for as long as it does. kNotFound,
// kPermissionDenied and so on when it cannot be opened.
Result<std::string> ReadConfigFile(const std::string& path);

}  // namespace paceline::kube
