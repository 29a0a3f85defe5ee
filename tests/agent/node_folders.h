// The folders of one node below a temporary folder: kubelet's and ours, with as many pods as a test wants.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "lib/base/check.h"

namespace paceline::agent {

inline std::string MakeTemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "paceline-agent-XXXXXX").string();
  CHECK(mkdtemp(pattern.data()) != nullptr);
  return pattern;
}

class NodeFolders {
 public:
  NodeFolders() : root_(MakeTemporaryFolder()) {
    std::filesystem::create_directories(kubelet_dir() + "/pods");
    std::filesystem::create_directories(state_dir());
  }
  ~NodeFolders() {
    std::error_code ignored;  // a test that failed may leave a mount behind; its namespace ends with the process
    std::filesystem::remove_all(root_, ignored);
  }
  NodeFolders(const NodeFolders&) = delete;
  NodeFolders& operator=(const NodeFolders&) = delete;

  const std::string& root() const { return root_; }
  std::string kubelet_dir() const { return root_ + "/kubelet"; }
  std::string state_dir() const { return root_ + "/state"; }

  // Makes what kubelet makes before it calls the plugin, and returns the target path.
  std::string AddVolume(const std::string& pod_uid, const std::string& volume_name) const {
    const std::string parent = kubelet_dir() + "/pods/" + pod_uid + "/volumes/kubernetes.io~csi/" + volume_name;
    std::filesystem::create_directories(parent);
    return parent + "/mount";
  }
  void RemovePod(const std::string& pod_uid) const { std::filesystem::remove_all(kubelet_dir() + "/pods/" + pod_uid); }

  // Every file and folder that the agent keeps for volumes, relative to the state folder; empty when all is clean.
  std::string LeftInState() const {
    std::string left;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(state_dir())) {
      const std::string name = entry.path().lexically_relative(state_dir()).string();
      const bool is_fixed = name == "volumes" || name == "scratch" || name == "scratch-trash" ||
                            name == "scratch-new" || name == "deps" || name == "deps-new" || name == "deps-trash" ||
                            name == "deps-state";
      if (!is_fixed) left += name + "\n";
    }
    return left;
  }

 private:
  const std::string root_;
};

inline void WriteTextFile(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string ReadTextFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace paceline::agent
