#include "lib/deps/bytecode.h"

#include <gtest/gtest.h>

namespace paceline::deps {
namespace {

std::string Header(char flags, const std::string& time, const std::string& size) {
  return std::string("\xa7\x0d\r\n", 4) + std::string(1, flags) + std::string(3, '\0') + time + size;
}

const std::string kTime("\x01\x02\x03\x04", 4);  // 0x04030201
const std::string kSize("\x10\x00\x00\x00", 4);

TEST(Bytecode, IsCheckedAgainstItsSource) {
  EXPECT_EQ(CheckBytecode(Header(0, kTime, kSize), 0x04030201, 16), Bytecode::kByTime);
  EXPECT_EQ(CheckBytecode(Header(0, kTime, kSize), 0x104030201, 16), Bytecode::kByTime);  // it keeps 32 bits
  EXPECT_EQ(CheckBytecode(Header(0, kTime, kSize), 0x04030202, 16), Bytecode::kStale);
  EXPECT_EQ(CheckBytecode(Header(0, kTime, kSize), 0x04030201, 17), Bytecode::kStale);
  EXPECT_EQ(CheckBytecode(Header(1, kTime, kSize), 0, 0), Bytecode::kByHash);
  EXPECT_EQ(CheckBytecode(Header(3, kTime, kSize), 0, 0), Bytecode::kByHash);
  EXPECT_EQ(CheckBytecode(Header(4, kTime, kSize), 0, 0), Bytecode::kUnknown);
  EXPECT_EQ(CheckBytecode("short", 0, 0), Bytecode::kUnknown);
  EXPECT_EQ(CheckBytecode(std::string(16, 'x'), 0, 0), Bytecode::kUnknown);
}

TEST(Bytecode, GetsAnotherTime) {
  std::string header = Header(0, kTime, kSize);
  SetBytecodeTime(315532800, header.data());
  EXPECT_EQ(CheckBytecode(header, 315532800, 16), Bytecode::kByTime);
}

TEST(Bytecode, BelongsToASource) {
  const std::pair<const char*, const char*> cases[] = {
      {"/a/__pycache__/m.cpython-311.pyc", "/a/m.py"},
      {"/a/__pycache__/m.cpython-311.opt-1.pyc", "/a/m.py"},
      {"/a/__pycache__/m.pyc", ""},
      {"/a/__pycache__/.pyc", ""},
      {"/a/m.pyc", ""},
      {"/a/__pycache__/b/m.cpython-311.pyc", ""},
      {"/a/__pycache__/m.cpython-311.so", ""},
  };
  for (const auto& [path, source] : cases) EXPECT_EQ(BytecodeSource(path), source) << path;
}

}  // namespace
}  // namespace paceline::deps
