#include "lib/blocks/image/file_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "lib/blocks/format/layer_index.h"
#include "lib/blocks/image/zeros.h"

namespace paceline::blocks {
namespace {

constexpr uint32_t kMinUnitBits = 16, kMaxUnitBits = 26;
constexpr uint64_t kMaxUnits = 32768;

// The file as it would be read, holes as zeros.
class LogicalFile {
 public:
  LogicalFile(const TarEntry& entry, TarReader& tar) : entry_(entry), tar_(tar) {}

  // Whether the next `size` bytes lie in a hole that the archive knows of; then passes over them.
  bool SkipHole(uint64_t size) {
    if (!entry_.is_sparse || NextData() < at_ + size) return false;
    at_ += size;
    return true;
  }

  // Fills `out` with what comes next.
  Status Read(std::span<char> out) {
    while (!out.empty()) {
      size_t size = out.size();
      if (!entry_.is_sparse) {
        RETURN_IF_ERROR(ReadStored(out));
      } else if (const uint64_t data = NextData(); data > at_) {
        size = static_cast<size_t>(std::min<uint64_t>(size, data - at_));
        std::memset(out.data(), 0, size);
      } else {
        const TarEntry::Extent& extent = entry_.extents[extent_];
        size = static_cast<size_t>(std::min<uint64_t>(size, extent.offset_bytes + extent.size_bytes - at_));
        RETURN_IF_ERROR(ReadStored(out.first(size)));
      }
      at_ += size;
      out = out.subspan(size);
    }
    return Status();
  }

 private:
  // Where the next stored byte is: here, further on, or beyond the end.
  uint64_t NextData() {
    while (extent_ < entry_.extents.size() &&
           entry_.extents[extent_].offset_bytes + entry_.extents[extent_].size_bytes <= at_) {
      ++extent_;
    }
    if (extent_ == entry_.extents.size()) return UINT64_MAX;
    return std::max(at_, entry_.extents[extent_].offset_bytes);
  }

  Status ReadStored(std::span<char> out) {
    while (!out.empty()) {
      ASSIGN_OR_RETURN(const size_t got, tar_.Read(out));
      if (got == 0) return DataLossError("tar: a file is cut short");
      out = out.subspan(got);
    }
    return Status();
  }

  const TarEntry& entry_;
  TarReader& tar_;
  uint64_t at_ = 0;
  size_t extent_ = 0;
};

}  // namespace

Result<uint32_t> HoleUnitBits(uint64_t size_bytes) {
  uint32_t bits = kMinUnitBits;
  while (bits <= kMaxUnitBits && (size_bytes >> bits) + 1 > kMaxUnits) ++bits;
  if (bits > kMaxUnitBits) return ResourceExhaustedError(fmt::format("a file of {} bytes is too large", size_bytes));
  return bits;
}

Result<FilePlacement> LayOutFile(const TarEntry& entry, std::string_view directory, TarReader& tar,
                                 ChunkCutter& cutter) {
  FilePlacement placement;
  placement.size_bytes = entry.size_bytes;
  if (entry.size_bytes == 0) return placement;
  ASSIGN_OR_RETURN(placement.unit_bits, HoleUnitBits(entry.size_bytes));
  const uint64_t unit_bytes = uint64_t{1} << placement.unit_bits;
  RETURN_IF_ERROR(cutter.BeginFile(directory, entry.size_bytes));
  LogicalFile file(entry, tar);
  std::string unit;
  bool has_holes = false;
  for (uint64_t at = 0; at < entry.size_bytes; at += unit_bytes) {
    const uint64_t size = std::min(unit_bytes, entry.size_bytes - at);
    // A short last unit is stored even when it is zero: a hole there saves less than the map costs.
    bool is_hole = false;
    if (size == unit_bytes) {
      is_hole = file.SkipHole(size);
      if (!is_hole) {
        unit.resize(size);
        RETURN_IF_ERROR(file.Read(unit));
        is_hole = IsZero(unit);
      }
    } else {
      unit.resize(size);
      RETURN_IF_ERROR(file.Read(unit));
    }
    uint32_t block = FilePlacement::kHole;
    if (!is_hole) {
      ASSIGN_OR_RETURN(block, cutter.Append(unit));
    }
    has_holes = has_holes || is_hole;
    placement.units.push_back(block);
  }
  placement.first_block = placement.units.front();
  if (!has_holes) {
    placement.units.clear();  // contiguous
    placement.unit_bits = 0;
  }
  return placement;
}

}  // namespace paceline::blocks
