// Parts of an absolute path. Internal to lib/hdfs. Pure functions.
#pragma once

#include <string>

namespace paceline::hdfs {

// "name" of "/folder/name".
inline std::string NameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// "/folder/" of "/folder/name".
inline std::string ParentOf(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

// "/folder/other" of "/folder/name".
inline std::string SiblingOf(const std::string& path, const std::string& other) { return ParentOf(path) + other; }

}  // namespace paceline::hdfs
