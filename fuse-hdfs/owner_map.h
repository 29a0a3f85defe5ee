// Between HDFS, which knows users and groups by name, and the kernel, which knows numbers. Names come from this
// machine's user database; who is not in it is shown as the fall-back owner. Thread-safe; lookups are remembered.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "lib/base/mutex.h"
#include "lib/base/result.h"

namespace paceline::fuse_hdfs {

struct OwnerRules {
  std::optional<uint32_t> uid, gid;  // everything belongs to these, whatever the names say
  uint32_t unknown_uid = 65534;      // for names that this machine does not have
  uint32_t unknown_gid = 65534;
};

class OwnerMap {
 public:
  explicit OwnerMap(OwnerRules rules) : rules_(rules) {}

  uint32_t UidOf(const std::string& user) EXCLUDES(mutex_);
  uint32_t GidOf(const std::string& group) EXCLUDES(mutex_);

  // For chown. kInvalidArgument for a number that has no name here: HDFS would not know whom it means. Empty when the
  // rules hide the real owner, so that a chown to what is shown anyway does nothing.
  Result<std::string> UserOf(uint32_t uid) const;
  Result<std::string> GroupOf(uint32_t gid) const;

 private:
  const OwnerRules rules_;
  mutable Mutex mutex_;
  std::unordered_map<std::string, uint32_t> uids_ GUARDED_BY(mutex_), gids_ GUARDED_BY(mutex_);
};

}  // namespace paceline::fuse_hdfs
