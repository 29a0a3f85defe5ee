#include "tests/blocks_image/tar_writer.h"

#include <fmt/format.h>

#include <algorithm>

namespace paceline::blocks {
namespace {

void Put(std::string* block, size_t at, size_t size, std::string_view text) {
  block->replace(at, std::min(size, text.size()), text.substr(0, size));
}

}  // namespace

std::string TarWriter::PaxRecord(std::string_view key, std::string_view value) {
  size_t length = key.size() + value.size() + 3;
  for (size_t digits = 1;; ++digits) {
    const std::string record = fmt::format("{} {}={}\n", length + digits, key, value);
    if (record.size() == length + digits) return record;
  }
}

void TarWriter::FixChecksum(std::string* block) {
  Put(block, 148, 8, "        ");
  unsigned sum = 0;
  for (const char byte : block->substr(0, 512)) sum += static_cast<unsigned char>(byte);
  Put(block, 148, 8, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
}

std::string TarWriter::Padded(std::string_view content) {
  return std::string(content) + std::string((512 - content.size() % 512) % 512, '\0');
}

std::string TarWriter::Header(const TarItem& item, uint64_t size) {
  std::string block(512, '\0');
  Put(&block, 0, 100, item.name);
  Put(&block, 100, 8, fmt::format("{:07o}", item.mode));
  Put(&block, 108, 8, fmt::format("{:07o}", item.uid & 07777777));
  Put(&block, 116, 8, fmt::format("{:07o}", item.gid & 07777777));
  Put(&block, 124, 12, fmt::format("{:011o}", size));
  Put(&block, 136, 12, fmt::format("{:011o}", item.mtime < 0 ? 0 : item.mtime));
  block[156] = item.type;
  Put(&block, 157, 100, item.link);
  Put(&block, 257, 8, std::string_view("ustar\00000", 8));
  Put(&block, 329, 8, fmt::format("{:07o}", item.major));
  Put(&block, 337, 8, fmt::format("{:07o}", item.minor));
  FixChecksum(&block);
  return block;
}

TarWriter& TarWriter::Add(const TarItem& item) {
  std::string records;
  for (const auto& [key, value] : item.pax) records += PaxRecord(key, value);
  if (item.name.size() > 100) records += PaxRecord("path", item.name);
  if (item.link.size() > 100) records += PaxRecord("linkpath", item.link);
  if (!records.empty()) {
    bytes_ += Header({.type = 'x', .name = "PaxHeaders/x"}, records.size());
    bytes_ += Padded(records);
  }
  bytes_ += Header(item, item.content.size());
  bytes_ += Padded(item.content);
  return *this;
}

}  // namespace paceline::blocks
