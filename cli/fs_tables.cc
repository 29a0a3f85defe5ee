#include "cli/fs_tables.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace paceline::cli {
namespace {

std::string_view TypeName(hdfs::FileStatus::Type type) {
  switch (type) {
    case hdfs::FileStatus::Type::kDirectory: return "directory";
    case hdfs::FileStatus::Type::kSymlink: return "symlink";
    case hdfs::FileStatus::Type::kFile: break;
  }
  return "file";
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

std::string ModeText(const hdfs::FileStatus& status) {
  std::string text = status.type == hdfs::FileStatus::Type::kDirectory ? "d"
                     : status.type == hdfs::FileStatus::Type::kSymlink ? "l"
                                                                       : "-";
  for (int shift = 6; shift >= 0; shift -= 3) {
    const unsigned bits = status.mode >> shift;
    text += (bits & 4) != 0 ? 'r' : '-';
    text += (bits & 2) != 0 ? 'w' : '-';
    text += (bits & 1) != 0 ? 'x' : '-';
  }
  if ((status.mode & 01000) != 0) text.back() = text.back() == 'x' ? 't' : 'T';
  return text;
}

std::string SizeText(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  static const char* const kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  // 1023.95 would print as 1024.0 of the smaller unit.
  while (value >= 1023.95 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

Table FileTable(const std::vector<ListedFile>& files) {
  Table table{.headers = {"MODE", "REPLICAS", "OWNER", "GROUP", "SIZE", "MODIFIED", "NAME"}, .rows = {}};
  for (const ListedFile& file : files) {
    const hdfs::FileStatus& status = file.status;
    const bool is_file = status.type == hdfs::FileStatus::Type::kFile;
    table.rows.push_back({ModeText(status), is_file ? std::to_string(status.replication) : "", status.owner,
                          status.group, is_file ? SizeText(status.length_bytes) : "", FormatRfc3339(status.modified),
                          file.path});
  }
  return table;
}

nlohmann::json FileValue(const ListedFile& file) {
  const hdfs::FileStatus& status = file.status;
  nlohmann::json value = {
      {"path", file.path},     {"type", TypeName(status.type)}, {"mode", fmt::format("{:04o}", status.mode)},
      {"owner", status.owner}, {"group", status.group},         {"modified", FormatRfc3339(status.modified)}};
  if (status.type == hdfs::FileStatus::Type::kFile) {
    value["lengthBytes"] = status.length_bytes;
    value["replication"] = status.replication;
    value["blockSizeBytes"] = status.block_size_bytes;
    value["isEncrypted"] = status.is_encrypted;
    value["isErasureCoded"] = status.is_erasure_coded;
  }
  if (status.file_id != 0) value["fileId"] = status.file_id;
  if (!status.symlink_target.empty()) value["target"] = status.symlink_target;
  return value;
}

Table BlockTable(const std::vector<hdfs::BlockLocation>& blocks) {
  Table table{.headers = {"OFFSET", "LENGTH", "STATE", "HOSTS"}, .rows = {}};
  for (const hdfs::BlockLocation& block : blocks) {
    table.rows.push_back({std::to_string(block.offset_bytes), std::to_string(block.length_bytes),
                          block.is_corrupt ? "corrupt" : "ok", Joined(block.hosts)});
  }
  return table;
}

nlohmann::json BlockValue(const hdfs::BlockLocation& block) {
  return {{"offsetBytes", block.offset_bytes},
          {"lengthBytes", block.length_bytes},
          {"isCorrupt", block.is_corrupt},
          {"hosts", block.hosts}};
}

Table UsageTable(const std::vector<Usage>& usages) {
  Table table{.headers = {"SIZE", "WITH REPLICAS", "FILES", "DIRECTORIES", "NAME"}, .rows = {}};
  for (const Usage& usage : usages) {
    table.rows.push_back({SizeText(usage.bytes), SizeText(usage.raw_bytes), std::to_string(usage.files),
                          std::to_string(usage.directories), usage.path});
  }
  return table;
}

nlohmann::json UsageValue(const Usage& usage) {
  return {{"path", usage.path},
          {"bytes", usage.bytes},
          {"rawBytes", usage.raw_bytes},
          {"files", usage.files},
          {"directories", usage.directories}};
}

}  // namespace paceline::cli
