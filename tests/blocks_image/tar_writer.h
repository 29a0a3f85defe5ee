// Writes tar streams by hand, right or wrong, for the tests of the tar reader and the converter.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::blocks {

struct TarItem {
  char type = '0';
  std::string name;
  std::string content;
  std::string link;
  uint32_t mode = 0644;
  uint32_t uid = 0, gid = 0;
  int64_t mtime = 1700000000;
  uint32_t major = 0, minor = 0;
  std::vector<std::pair<std::string, std::string>> pax;
};

class TarWriter {
 public:
  TarWriter& Add(const TarItem& item);
  TarWriter& File(std::string name, std::string content) {
    return Add({.name = std::move(name), .content = std::move(content)});
  }
  TarWriter& Directory(std::string name, uint32_t mode = 0755) {
    return Add({.type = '5', .name = std::move(name), .mode = mode});
  }
  TarWriter& Symlink(std::string name, std::string target) {
    return Add({.type = '2', .name = std::move(name), .link = std::move(target), .mode = 0777});
  }
  TarWriter& HardLink(std::string name, std::string target) {
    return Add({.type = '1', .name = std::move(name), .link = std::move(target)});
  }
  TarWriter& Raw(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  // The stream so far, with the two blocks of zeros at its end.
  std::string Finish() const { return bytes_ + std::string(1024, '\0'); }
  const std::string& bytes() const { return bytes_; }

  // "<length> <key>=<value>\n"
  static std::string PaxRecord(std::string_view key, std::string_view value);
  // A header block with the right checksum; fields that do not fit are cut.
  static std::string Header(const TarItem& item, uint64_t size);
  // Puts the right checksum into a block that was changed by hand.
  static void FixChecksum(std::string* block);
  // The content filled up to a whole number of blocks.
  static std::string Padded(std::string_view content);

 private:
  std::string bytes_;
};

}  // namespace paceline::blocks
