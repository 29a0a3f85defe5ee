#include "tests/hdfs/wire_capture.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace paceline::hdfs {
namespace {

const char* const kFolder = PACELINE_SOURCE_DIR "/tests/data/hdfs-wire";

int HexDigit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

}  // namespace

std::vector<CapturePart> LoadCapture(const std::string& name) {
  std::ifstream file(std::string(kFolder) + "/" + name + ".txt");
  std::vector<CapturePart> parts;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("#   ", 0) == 0) {
      if (!parts.empty() && line.find("only the first") != std::string::npos) parts.back().is_whole = false;
    } else if (line.rfind("# ", 0) == 0) {
      parts.push_back({.title = line.substr(2)});
      if (line.find("only the first") != std::string::npos) parts.back().is_whole = false;
    } else if (!line.empty() && HexDigit(line[0]) >= 0 && !parts.empty()) {
      for (size_t i = 0; i + 1 < line.size(); i += 2) {
        parts.back().bytes.push_back(static_cast<char>(HexDigit(line[i]) * 16 + HexDigit(line[i + 1])));
      }
    }
  }
  return parts;
}

std::vector<std::string> CaptureNames(const std::string& prefix) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    const std::string name = entry.path().stem().string();
    if (name.rfind(prefix, 0) == 0) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace paceline::hdfs
