#include "lib/deps/elf_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string_view>

namespace paceline::deps {
namespace {

using testing::Contains;
using testing::Gt;
using testing::HasSubstr;

std::string OwnProgram() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The program is large: views of it are taken, not copies.
ElfSource SourceOf(std::string_view bytes) {
  return [bytes](uint64_t offset, size_t size) -> Result<std::string> {
    return offset < bytes.size() ? std::string(bytes.substr(offset, size)) : std::string();
  };
}

TEST(ElfFile, SaysWhatAProgramNeeds) {
  const std::string program = OwnProgram();
  const Result<ElfFacts> elf = ReadElf(SourceOf(program));
  ASSERT_TRUE(elf.ok()) << elf.status().ToString();
  EXPECT_EQ(elf->machine, ThisElfMachine());
  EXPECT_TRUE(elf->is_readable);
  EXPECT_THAT(elf->interpreter, HasSubstr("ld-linux"));
  EXPECT_THAT(elf->needed, Contains(HasSubstr("libc.so")));
  EXPECT_THAT(NeededGlibc(*elf), Gt(std::pair(2, 0)));
}

TEST(ElfFile, OtherFilesAreNone) {
  for (const std::string& text : {std::string(), std::string("#!/bin/sh\n"), std::string("\177ELF")}) {
    EXPECT_EQ(ReadElf(SourceOf(text)).status().code(), StatusCode::kNotFound);
  }
}

TEST(ElfFile, ReadsDamagedFilesWithoutHarm) {
  std::string program = OwnProgram();
  // Tables of symbols and their versions lie at its beginning, the dynamic section far behind.
  for (size_t size = 0; size < 4096; size += 7) {
    EXPECT_FALSE(ReadElf(SourceOf(std::string_view(program).substr(0, size))).ok()) << size;
  }
  for (size_t i = 0; i < 1024; ++i) {
    program[i] = static_cast<char>(program[i] ^ 0xff);
    ReadElf(SourceOf(program)).status().IgnoreError();  // any answer but a crash
    program[i] = static_cast<char>(program[i] ^ 0xff);
  }
}

TEST(ElfFile, VersionsAreComparedAsNumbers) {
  ElfFacts elf;
  elf.versions["libc.so.6"] = {"GLIBC_2.2.5", "GLIBC_2.34", "GLIBC_2.9", "GLIBC_PRIVATE", "OTHER_9.9"};
  EXPECT_EQ(NeededGlibc(elf), (std::pair{2, 34}));
  EXPECT_EQ(NeededGlibc(ElfFacts()), (std::pair{0, 0}));
}

}  // namespace
}  // namespace paceline::deps
