#include "lib/deps/elf_file.h"

#include <elf.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace paceline::deps {
namespace {

constexpr size_t kMaxHeaders = 512;
constexpr size_t kMaxDynamicBytes = 1U << 16;
constexpr size_t kMaxStringBytes = 64U << 20;
constexpr size_t kMaxNameBytes = 4096;
constexpr size_t kMaxVersionEntries = 4096;

Status Broken(const char* what) { return DataLossError(std::string("ELF: ") + what); }

class ElfReader {
 public:
  explicit ElfReader(const ElfSource& source) : source_(source) {}

  Result<ElfFacts> Read();

 private:
  template <typename T>
  Result<T> At(uint64_t offset) {
    ASSIGN_OR_RETURN(const std::string bytes, source_(offset, sizeof(T)));
    if (bytes.size() != sizeof(T)) return Broken("a structure is cut short");
    T value;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  Status ReadSegments(const Elf64_Ehdr& header);
  Status ReadDynamic(const Elf64_Phdr& segment, ElfFacts* facts);
  Status ReadNeeds(ElfFacts* facts);
  Status ReadNeed(const Elf64_Verneed& need, uint64_t at, ElfFacts* facts);
  // Of an address in memory; kDataLoss when no segment holds it.
  Result<uint64_t> OffsetOf(uint64_t address) const;
  Result<std::string> Name(uint64_t index);

  const ElfSource& source_;
  std::vector<Elf64_Phdr> segments_;
  uint64_t strings_ = 0, strings_bytes_ = 0;  // offset of the string table
  uint64_t needs_ = 0;                        // offset of the table of needed versions; 0 for none
};

Result<uint64_t> ElfReader::OffsetOf(uint64_t address) const {
  for (const Elf64_Phdr& segment : segments_) {
    const bool holds =
        segment.p_type == PT_LOAD && address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz;
    if (holds) return segment.p_offset + (address - segment.p_vaddr);
  }
  return Broken("an address outside of the file");
}

Result<std::string> ElfReader::Name(uint64_t index) {
  if (index >= strings_bytes_) return Broken("a name outside of the string table");
  const uint64_t left = std::min<uint64_t>(strings_bytes_ - index, kMaxNameBytes);
  ASSIGN_OR_RETURN(std::string text, source_(strings_ + index, static_cast<size_t>(left)));
  const size_t end = text.find('\0');
  if (end == std::string::npos) return Broken("a name without an end");
  text.resize(end);
  return text;
}

Status ElfReader::ReadSegments(const Elf64_Ehdr& header) {
  if (header.e_phentsize != sizeof(Elf64_Phdr) && header.e_phnum != 0) return Broken("program headers of an odd size");
  if (header.e_phnum > kMaxHeaders) return Broken("too many program headers");
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    ASSIGN_OR_RETURN(const Elf64_Phdr segment, At<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr)));
    segments_.push_back(segment);
  }
  return Status();
}

Status ElfReader::ReadDynamic(const Elf64_Phdr& segment, ElfFacts* facts) {
  if (segment.p_filesz > kMaxDynamicBytes) return Broken("a dynamic section that is too large");
  ASSIGN_OR_RETURN(const std::string bytes, source_(segment.p_offset, static_cast<size_t>(segment.p_filesz)));
  if (bytes.size() != segment.p_filesz) return Broken("the dynamic section is cut short");
  std::vector<uint64_t> needed;
  uint64_t path = 0;
  for (size_t at = 0; at + sizeof(Elf64_Dyn) <= bytes.size(); at += sizeof(Elf64_Dyn)) {
    Elf64_Dyn entry;
    std::memcpy(&entry, bytes.data() + at, sizeof entry);
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_NEEDED) needed.push_back(entry.d_un.d_val);
    if (entry.d_tag == DT_RUNPATH || (entry.d_tag == DT_RPATH && path == 0)) path = entry.d_un.d_val;
    if (entry.d_tag == DT_STRSZ) strings_bytes_ = std::min<uint64_t>(entry.d_un.d_val, kMaxStringBytes);
    if (entry.d_tag == DT_STRTAB) {
      ASSIGN_OR_RETURN(strings_, OffsetOf(entry.d_un.d_ptr));
    }
    if (entry.d_tag == DT_VERNEED) {
      ASSIGN_OR_RETURN(needs_, OffsetOf(entry.d_un.d_ptr));
    }
  }
  for (const uint64_t index : needed) {
    ASSIGN_OR_RETURN(facts->needed.emplace_back(), Name(index));
  }
  if (path == 0) return Status();
  ASSIGN_OR_RETURN(const std::string list, Name(path));
  for (size_t start = 0; start <= list.size();) {
    const size_t end = std::min(list.find(':', start), list.size());
    if (end > start) facts->search_path.push_back(list.substr(start, end - start));
    start = end + 1;
  }
  return Status();
}

Status ElfReader::ReadNeed(const Elf64_Verneed& need, uint64_t at, ElfFacts* facts) {
  ASSIGN_OR_RETURN(const std::string library, Name(need.vn_file));
  at += need.vn_aux;
  for (size_t i = 0; i < need.vn_cnt; ++i) {
    ASSIGN_OR_RETURN(const Elf64_Vernaux version, At<Elf64_Vernaux>(at));
    ASSIGN_OR_RETURN(std::string name, Name(version.vna_name));
    facts->versions[library].insert(std::move(name));
    if (version.vna_next == 0) break;
    at += version.vna_next;
  }
  return Status();
}

Status ElfReader::ReadNeeds(ElfFacts* facts) {
  uint64_t at = needs_;
  for (size_t i = 0; at != 0 && i < kMaxVersionEntries; ++i) {
    ASSIGN_OR_RETURN(const Elf64_Verneed need, At<Elf64_Verneed>(at));
    if (need.vn_cnt > kMaxVersionEntries) return Broken("too many versions");
    RETURN_IF_ERROR(ReadNeed(need, at, facts));
    if (need.vn_next == 0) return Status();
    at += need.vn_next;
  }
  return Status();
}

Result<ElfFacts> ElfReader::Read() {
  ASSIGN_OR_RETURN(const std::string start, source_(0, sizeof(Elf64_Ehdr)));
  if (start.size() < EI_NIDENT + 4 || start.compare(0, SELFMAG, ELFMAG) != 0) return NotFoundError("no ELF file");
  ElfFacts facts;
  const bool is_little = start[EI_DATA] == ELFDATA2LSB;
  const auto low = static_cast<uint8_t>(start[EI_NIDENT + (is_little ? 2 : 3)]);
  const auto high = static_cast<uint8_t>(start[EI_NIDENT + (is_little ? 3 : 2)]);
  facts.machine = static_cast<uint16_t>(low | high << 8);
  if (!is_little || start[EI_CLASS] != ELFCLASS64) return facts;
  facts.is_readable = true;
  ASSIGN_OR_RETURN(const auto header, At<Elf64_Ehdr>(0));
  RETURN_IF_ERROR(ReadSegments(header));
  for (const Elf64_Phdr& segment : segments_) {
    if (segment.p_type == PT_INTERP) {
      ASSIGN_OR_RETURN(std::string name, source_(segment.p_offset, std::min<uint64_t>(segment.p_filesz, 4096)));
      facts.interpreter = name.substr(0, name.find('\0'));
    }
    if (segment.p_type == PT_DYNAMIC) RETURN_IF_ERROR(ReadDynamic(segment, &facts));
  }
  RETURN_IF_ERROR(ReadNeeds(&facts));
  return facts;
}

}  // namespace

Result<ElfFacts> ReadElf(const ElfSource& source) { return ElfReader(source).Read(); }

std::pair<int, int> NeededGlibc(const ElfFacts& elf) {
  constexpr std::string_view kPrefix = "GLIBC_";
  std::pair<int, int> highest{0, 0};
  for (const auto& [library, versions] : elf.versions) {
    for (const std::string& version : versions) {
      if (!version.starts_with(kPrefix)) continue;
      std::pair<int, int> numbers{0, 0};
      const char* end = version.data() + version.size();
      const auto [dot, error] = std::from_chars(version.data() + kPrefix.size(), end, numbers.first);
      if (error != std::errc() || dot == end) continue;  // GLIBC_PRIVATE
      std::from_chars(dot + 1, end, numbers.second);
      highest = std::max(highest, numbers);
    }
  }
  return highest;
}

uint16_t ThisElfMachine() {
#if defined(__x86_64__)
  return EM_X86_64;
#elif defined(__aarch64__)
  return EM_AARCH64;
#else
  return EM_NONE;
#endif
}

}  // namespace paceline::deps
