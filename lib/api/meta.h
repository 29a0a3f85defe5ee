// The parts that every API object shares: metadata, conditions, and the errors that name a field. Plain values without
// locks; lib/api as a whole does no I/O and never blocks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"

namespace paceline::api {

// One thing wrong with an object, in words that a user can act on.
struct FieldError {
  std::string path;     // "spec.checkpoints[1].uri", or an annotation's name
  std::string message;  // "must start with hdfs://"

  std::string ToString() const { return path.empty() ? message : path + ": " + message; }
  friend bool operator==(const FieldError&, const FieldError&) = default;
};

// "a: x; b: y", at most `limit` of them, then "and N more". Empty for no errors.
std::string JoinErrors(const std::vector<FieldError>& errors, size_t limit = 8);

struct OwnerReference {
  std::string api_version;
  std::string kind;
  std::string name;
  std::string uid;
  bool controller = false;
  bool block_owner_deletion = false;

  friend bool operator==(const OwnerReference&, const OwnerReference&) = default;
};

// The fields of metav1.ObjectMeta that we read or write; others are dropped when an object is written back, so objects
// are changed by patches and server-side apply and never by replacing the whole.
struct ObjectMeta {
  std::string name;
  std::string generate_name;
  std::string ns;
  std::string uid;
  std::string resource_version;
  int64_t generation = 0;
  std::optional<WallTime> creation_timestamp;
  std::optional<WallTime> deletion_timestamp;
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  std::vector<OwnerReference> owner_references;
  std::vector<std::string> finalizers;

  friend bool operator==(const ObjectMeta&, const ObjectMeta&) = default;
};

enum class ConditionStatus { kTrue, kFalse, kUnknown };

// metav1.Condition.
struct Condition {
  std::string type;
  ConditionStatus status = ConditionStatus::kUnknown;
  int64_t observed_generation = 0;
  std::optional<WallTime> last_transition_time;
  std::string reason;  // one CamelCase word
  std::string message;

  friend bool operator==(const Condition&, const Condition&) = default;
};

// The condition of `type`, or null. The pointer lives as long as the vector stays unchanged.
const Condition* FindCondition(const std::vector<Condition>& conditions, std::string_view type);
// True when the condition is there with status True.
bool IsConditionTrue(const std::vector<Condition>& conditions, std::string_view type);
// Puts `condition` in place of the one of its type, or appends it. last_transition_time becomes `now` only when the
// status differs from before, whatever the caller put there; the message is cut to the API's limit. True when anything
// but nothing changed, so that callers can skip the write.
bool SetCondition(std::vector<Condition>& conditions, Condition condition, WallTime now);

}  // namespace paceline::api
