// Real mounts of EROFS images in tests, in a mount namespace that ends with the test program.
#pragma once

#include <string>
#include <vector>

#include "lib/base/result.h"

namespace paceline::blocks {

// Empty when this program may mount EROFS images in a namespace of its own; otherwise why not, for GTEST_SKIP.
const std::string& WhyNoErofs();

// A mount, gone with the object.
class TestMount {
 public:
  // File-backed where the kernel and the file system of `image` can; else by a loop device.
  static Result<TestMount> Erofs(const std::string& image, const std::string& target);
  // Read-only overlay; `lower` top first.
  static Result<TestMount> Overlay(const std::vector<std::string>& lower, const std::string& target);

  TestMount(TestMount&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  TestMount& operator=(TestMount&&) = delete;
  ~TestMount();
  const std::string& path() const { return path_; }

 private:
  explicit TestMount(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace paceline::blocks
