// Real mounts in tests: the test program moves into a mount namespace of its own before it starts any thread, so
// nothing it mounts is seen outside, and all of it ends with the process.
#pragma once

#include <string>

namespace paceline::agent {

// Empty when this program may mount in a namespace of its own; otherwise why not, for GTEST_SKIP.
const std::string& WhyNoMounts();

}  // namespace paceline::agent
