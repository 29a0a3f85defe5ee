// The fields of one tar header block and of PAX records. Internal to the tar reader; pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "lib/blocks/image/tar_reader.h"

namespace paceline::blocks {

// Views of a block of 512 bytes.
class TarHeader {
 public:
  explicit TarHeader(std::string_view block) : block_(block) {}

  // Sum of all bytes with the checksum field as blanks; some old writers summed signed bytes.
  bool HasRightChecksum() const;
  char type() const { return block_[156]; }
  // Prefix and name together.
  std::string Name() const;
  std::string LinkTarget() const { return std::string(Text(157, 100)); }
  // kDataLoss, naming `what`, for a field that is no number.
  Result<int64_t> Number(size_t at, size_t size, const char* what) const;

  Result<int64_t> Mode() const { return Number(100, 8, "mode"); }
  Result<int64_t> Uid() const { return Number(108, 8, "uid"); }
  Result<int64_t> Gid() const { return Number(116, 8, "gid"); }
  Result<int64_t> Size() const { return Number(124, 12, "size"); }
  Result<int64_t> Mtime() const { return Number(136, 12, "mtime"); }
  // 0 in headers that have no such field.
  Result<int64_t> DeviceMajor() const { return HasDevices() ? Number(329, 8, "devmajor") : int64_t{0}; }
  Result<int64_t> DeviceMinor() const { return HasDevices() ? Number(337, 8, "devminor") : int64_t{0}; }

 private:
  std::string_view Text(size_t at, size_t size) const;
  bool HasDevices() const { return block_.substr(257, 5) == "ustar"; }

  std::string_view block_;
};

// "<length> <key>=<value>\n", one after the other. kDataLoss for anything else.
Result<std::vector<std::pair<std::string, std::string>>> ParsePaxRecords(std::string_view text);

// Puts one record into the entry; records that say nothing of a layer's content are passed over. The sparse ones are
// not handled here.
Status ApplyPaxRecord(const std::string& key, const std::string& value, TarEntry* entry);

// A decimal number without sign. kDataLoss, naming `what`.
Result<uint64_t> ParseTarDecimal(std::string_view text, const char* what);

}  // namespace paceline::blocks
