// Reads tests/api/cases.json: one valid object per kind, and changes to it that must be accepted or refused. The same
// file is applied to a real API server by tests/chart/crd_test.py, which is what holds the CRDs and the C++ checks
// equal.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

namespace paceline::api {

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline nlohmann::json LoadCases() {
  return nlohmann::json::parse(ReadFile(std::string(PACELINE_SOURCE_DIR) + "/tests/api/cases.json"));
}

// The example of the case's kind with the case's changes; null takes a field away.
inline nlohmann::json CaseObject(const nlohmann::json& file, const nlohmann::json& test_case) {
  nlohmann::json object = file.at("bases").at(test_case.at("kind").get<std::string>());
  for (const auto& [pointer, value] : test_case.at("set").items()) {
    const nlohmann::json::json_pointer where(pointer);
    if (value.is_null()) {
      object.at(where.parent_pointer()).erase(where.back());
    } else {
      object[where] = value;
    }
  }
  return object;
}

}  // namespace paceline::api
