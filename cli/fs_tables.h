// What `pacectl fs` prints of files and blocks. Pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/output.h"
#include "lib/hdfs/file_system.h"

namespace paceline::cli {

// A file and the path that the user is to see.
struct ListedFile {
  std::string path;
  hdfs::FileStatus status;
};

// "drwxr-xr-x", "-rw-r--r-T".
std::string ModeText(const hdfs::FileStatus& status);
// "812 B", "1.5 MiB".
std::string SizeText(uint64_t bytes);

Table FileTable(const std::vector<ListedFile>& files);
nlohmann::json FileValue(const ListedFile& file);

Table BlockTable(const std::vector<hdfs::BlockLocation>& blocks);
nlohmann::json BlockValue(const hdfs::BlockLocation& block);

struct Usage {
  std::string path;
  uint64_t files = 0, directories = 0, bytes = 0, raw_bytes = 0;  // raw: with all replicas
};
Table UsageTable(const std::vector<Usage>& usages);
nlohmann::json UsageValue(const Usage& usage);

}  // namespace paceline::cli
