// A page of docs/ that is written from the code: compares, and leaves the right text in the temporary folder.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

namespace paceline::pages {

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline const std::string kRoot = PACELINE_SOURCE_DIR;

// `name` is below the source folder, as "docs/metrics.md".
inline void ExpectPage(const std::string& name, const std::string& text) {
  const std::string written = testing::TempDir() + name.substr(name.rfind('/') + 1);
  std::ofstream(written, std::ios::binary) << text;
  EXPECT_TRUE(ReadFile(kRoot + "/" + name) == text) << name << " is stale. Run: cp " << written << " " << name;
}

// A table cell: no line ends, and bars do not end it.
inline std::string Cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

}  // namespace paceline::pages
