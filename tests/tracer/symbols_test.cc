// What the plugin asks of the system that it is loaded into: training images are older than our build machine.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>
#include <regex>
#include <set>
#include <string>

#include "tests/tracer/nccl_driver.h"

namespace paceline::tracer {
namespace {

std::string Output(const std::string& command) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::string text;
  std::array<char, 4096> buffer;
  while (const size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe.get()))
    text.append(buffer.data(), count);
  return text;
}

std::set<std::string> Matches(const std::string& text, const std::string& pattern) {
  std::set<std::string> found;
  const std::regex regex(pattern);
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at) found.insert((*at)[1]);
  return found;
}

TEST(Symbols, NothingNewerThanGlibc228) {
  const std::string text = Output("LC_ALL=C readelf --version-info --wide " PACELINE_TRACER);
  const std::set<std::string> versions = Matches(text, R"(Name: ([A-Za-z0-9_.]+)\s+Flags)");
  ASSERT_FALSE(versions.empty());
  for (const std::string& version : versions) {
    int minor = 0;
    ASSERT_EQ(std::sscanf(version.c_str(), "GLIBC_2.%d", &minor), 1) << version;
    EXPECT_LE(minor, 28) << version;
  }
}

TEST(Symbols, NoLibraryButTheCLibrary) {
  const std::string text = Output("LC_ALL=C readelf --dynamic --wide " PACELINE_TRACER);
  const std::set<std::string> allowed = {"libc.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2",
                                         "ld-linux-aarch64.so.1"};
  for (const std::string& library : Matches(text, R"(Shared library: \[([^\]]+)\])")) {
    EXPECT_TRUE(allowed.count(library)) << library;
  }
  EXPECT_NE(text.find("NODELETE"), std::string::npos);
}

TEST(Symbols, NothingIsExportedButTheInterfaces) {
  // Names with two underscores in front belong to the compiler and its sanitizers.
  const std::string text = Output("nm --dynamic --defined-only " PACELINE_TRACER);
  const std::set<std::string> names = Matches(text, R"( [A-Z] (?!__)(\w+))");
  const std::set<std::string> expected = {"ncclProfiler_v1", "ncclProfiler_v2", "ncclProfiler_v3",
                                          "ncclProfiler_v4", "ncclProfiler_v5", "ncclProfiler_v6"};
  EXPECT_EQ(names, expected);
}

}  // namespace
}  // namespace paceline::tracer
