// What an ELF file asks of the machine that loads it: processor, program interpreter, libraries, versions of their
// symbols. For the question whether a snapshot's binaries can run where they are restored.
//
// Reads through a callback, since such files have gigabytes and their tables are small; every offset is checked, since
// they come from anywhere. 64-bit little-endian files only; others are told apart, not read. Pure but for the callback.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace paceline::deps {

struct ElfFacts {
  uint16_t machine = 0;      // EM_X86_64, ...
  bool is_readable = false;  // 64-bit and little-endian: what follows was looked at
  std::string interpreter;   // "/lib64/ld-linux-x86-64.so.2"; "" for libraries
  std::vector<std::string> needed;
  std::vector<std::string> search_path;                   // DT_RUNPATH or DT_RPATH, split at colons
  std::map<std::string, std::set<std::string>> versions;  // library to the symbol versions that are needed of it
};

// The bytes from `offset_bytes` on: as many as there are, at most `size_bytes`.
using ElfSource = std::function<Result<std::string>(uint64_t offset_bytes, size_t size_bytes)>;

// kNotFound for what is no ELF file; kDataLoss for one that makes no sense.
Result<ElfFacts> ReadElf(const ElfSource& source);

// The highest "GLIBC_2.34" among the needed versions, as {2, 34}; {0, 0} when none is needed.
std::pair<int, int> NeededGlibc(const ElfFacts& elf);

// EM_* of this program.
uint16_t ThisElfMachine();

}  // namespace paceline::deps
