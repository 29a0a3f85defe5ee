// A folder of its own for a test, removed with everything in it at the end.
#pragma once

#include <string>
#include <string_view>

namespace paceline::fakes {

class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  // The last component of path().
  std::string name() const { return path_.substr(path_.rfind('/') + 1); }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

}  // namespace paceline::fakes
