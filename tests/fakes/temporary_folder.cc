#include "tests/fakes/temporary_folder.h"

#include <cstdlib>

#include <filesystem>

#include "lib/base/check.h"

namespace paceline::fakes {

TemporaryFolder::TemporaryFolder() {
  path_ = (std::filesystem::temp_directory_path() / "paceline-test-XXXXXX").string();
  CHECK(mkdtemp(path_.data()) != nullptr);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;  // a test that left something undeletable has failed already
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace paceline::fakes
