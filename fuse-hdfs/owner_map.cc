#include "fuse-hdfs/owner_map.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>

#include <charconv>

namespace paceline::fuse_hdfs {
namespace {

// A cluster has some thousands of users; more means that something is wrong, and forgetting is cheap.
constexpr size_t kMaxRemembered = 10000;
constexpr size_t kEntryBytes = 16 << 10;

std::optional<uint32_t> AsNumber(const std::string& name) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return number;
}

// "alice" of "alice/host@REALM".
std::string ShortName(const std::string& name) { return name.substr(0, name.find_first_of("/@")); }

std::optional<uint32_t> LookUpUid(const std::string& user) {
  char text[kEntryBytes];
  passwd entry;
  passwd* found = nullptr;
  if (getpwnam_r(user.c_str(), &entry, text, sizeof text, &found) == 0 && found != nullptr) return found->pw_uid;
  return AsNumber(user);
}

std::optional<uint32_t> LookUpGid(const std::string& name) {
  char text[kEntryBytes];
  group entry;
  group* found = nullptr;
  if (getgrnam_r(name.c_str(), &entry, text, sizeof text, &found) == 0 && found != nullptr) return found->gr_gid;
  return AsNumber(name);
}

}  // namespace

uint32_t OwnerMap::UidOf(const std::string& user) {
  if (rules_.uid.has_value()) return *rules_.uid;
  {
    MutexLock lock(mutex_);
    const auto known = uids_.find(user);
    if (known != uids_.end()) return known->second;
  }
  // The user database may be a network away.
  const uint32_t uid = LookUpUid(ShortName(user)).value_or(rules_.unknown_uid);
  MutexLock lock(mutex_);
  if (uids_.size() >= kMaxRemembered) uids_.clear();
  return uids_[user] = uid;
}

uint32_t OwnerMap::GidOf(const std::string& group) {
  if (rules_.gid.has_value()) return *rules_.gid;
  {
    MutexLock lock(mutex_);
    const auto known = gids_.find(group);
    if (known != gids_.end()) return known->second;
  }
  const uint32_t gid = LookUpGid(group).value_or(rules_.unknown_gid);
  MutexLock lock(mutex_);
  if (gids_.size() >= kMaxRemembered) gids_.clear();
  return gids_[group] = gid;
}

Result<std::string> OwnerMap::UserOf(uint32_t uid) const {
  if (rules_.uid.has_value() && *rules_.uid == uid) return std::string();
  char text[kEntryBytes];
  passwd entry;
  passwd* found = nullptr;
  if (getpwuid_r(uid, &entry, text, sizeof text, &found) == 0 && found != nullptr) return std::string(found->pw_name);
  return InvalidArgumentError(fmt::format("user {} has no name on this machine", uid));
}

Result<std::string> OwnerMap::GroupOf(uint32_t gid) const {
  if (rules_.gid.has_value() && *rules_.gid == gid) return std::string();
  char text[kEntryBytes];
  struct group entry;
  struct group* found = nullptr;
  if (getgrgid_r(gid, &entry, text, sizeof text, &found) == 0 && found != nullptr) return std::string(found->gr_name);
  return InvalidArgumentError(fmt::format("group {} has no name on this machine", gid));
}

}  // namespace paceline::fuse_hdfs
