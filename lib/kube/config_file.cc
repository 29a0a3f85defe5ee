#include "lib/kube/config_file.h"

#include <cerrno>
#include <fstream>
#include <sstream>

namespace paceline::kube {

Result<std::string> ReadConfigFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return ErrnoStatus(errno, path);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

}  // namespace paceline::kube
