// What a directory tree holds, file by file, in lines that two trees can be compared by.
#pragma once

#include <string>
#include <vector>

namespace paceline::blocks {

// For each file below `root`, sorted by path: path, type and mode, owner, modification time in nanoseconds, size,
// device number, link count, link target, extended attributes, digest of the content, and for hard links the first path
// with the same inode. What cannot be read says so in its line.
std::vector<std::string> TreeFacts(const std::string& root);

}  // namespace paceline::blocks
