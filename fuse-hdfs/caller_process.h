// What /proc tells of the processes that use a mount: the kernel names threads in its requests, and says neither who
// else holds a descriptor nor whether a close was the last one. Reads /proc; nothing is kept.
#pragma once

#include <cstdint>
#include <string>

namespace paceline::fuse_hdfs {

// The process of a thread; 0 when it is not to be seen from here.
int32_t ProcessOf(int32_t thread);

// Whether `process` holds a descriptor for writing of the file with this inode and this last part of its path. False
// when that is not to be seen from here.
bool HoldsForWriting(int32_t process, uint64_t inode, const std::string& name);

}  // namespace paceline::fuse_hdfs
