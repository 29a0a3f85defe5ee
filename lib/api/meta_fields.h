// The fields of the shared parts: metadata, owner references, conditions. Internal to lib/api; see fields.h.
#pragma once

#include "lib/api/fields.h"
#include "lib/api/meta.h"

namespace paceline::api {

template <>
struct EnumTable<ConditionStatus> {
  static constexpr std::pair<ConditionStatus, std::string_view> kEntries[] = {
      {ConditionStatus::kTrue, "True"}, {ConditionStatus::kFalse, "False"}, {ConditionStatus::kUnknown, "Unknown"}};
};

template <typename V>
void Fields(V& v, const OwnerReference*) {
  using T = OwnerReference;
  v.Field("apiVersion", &T::api_version, {.doc = "Group and version of the owner.", .required = true});
  v.Field("kind", &T::kind, {.doc = "Kind of the owner.", .required = true});
  v.Field("name", &T::name, {.doc = "Name of the owner.", .required = true});
  v.Field("uid", &T::uid, {.doc = "UID of the owner.", .required = true});
  v.Field("controller", &T::controller, {.doc = "Whether the owner manages this object."});
  v.Field("blockOwnerDeletion", &T::block_owner_deletion,
          {.doc = "Whether foreground deletion of the owner waits for this object."});
}

template <typename V>
void Fields(V& v, const ObjectMeta*) {
  using T = ObjectMeta;
  v.Field("name", &T::name, {.doc = "Name of the object."});
  v.Field("generateName", &T::generate_name, {.doc = "Prefix from which the server makes a name."});
  v.Field("namespace", &T::ns, {.doc = "Namespace of the object."});
  v.Field("uid", &T::uid, {.doc = "Identity of the object over all time."});
  v.Field("resourceVersion", &T::resource_version, {.doc = "Version of the stored object."});
  v.Field("generation", &T::generation, {.doc = "Counts changes of the spec.", .omit_zero = true});
  v.Field("creationTimestamp", &T::creation_timestamp, {.doc = "When the object was made."});
  v.Field("deletionTimestamp", &T::deletion_timestamp, {.doc = "Set while the object waits for its finalizers."});
  v.Field("labels", &T::labels, {.doc = "Labels."});
  v.Field("annotations", &T::annotations, {.doc = "Annotations."});
  v.Field("ownerReferences", &T::owner_references, {.doc = "Objects that this one belongs to."});
  v.Field("finalizers", &T::finalizers, {.doc = "What has to happen before the object goes."});
}

template <typename V>
void Fields(V& v, const Condition*) {
  using T = Condition;
  v.Field("type", &T::type,
          {.doc = "What the condition is about, one CamelCase word.", .required = true, .max_length = 316});
  v.Field("status", &T::status, {.doc = "Whether it holds.", .required = true});
  v.Field("observedGeneration", &T::observed_generation,
          {.doc = "The metadata.generation that the condition was computed from.", .omit_zero = true, .minimum = 0});
  v.Field("lastTransitionTime", &T::last_transition_time, {.doc = "When the status last changed.", .required = true});
  v.Field("reason", &T::reason,
          {.doc = "Why, as one CamelCase word for programs.",
           .required = true,
           .max_length = 1024,
           .pattern = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
           .pattern_words = "must be one CamelCase word"});
  v.Field("message", &T::message, {.doc = "Why, and what to do, in a sentence for people.", .max_length = 32768});
}

inline constexpr FieldSpec kConditionsField = {.doc = "The state of the object in the standard form.",
                                               .max_items = 32,
                                               .list = ListType::kMap,
                                               .list_key = "type"};

inline constexpr std::string_view kDnsLabelPattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
inline constexpr std::string_view kDnsLabelWords =
    "must consist of lower-case letters, digits and '-', and begin and end with a letter or digit";
inline constexpr std::string_view kDnsNamePattern = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$";
inline constexpr std::string_view kDnsNameWords =
    "must consist of lower-case letters, digits, '-' and '.', and begin and end with a letter or digit";
inline constexpr std::string_view kDigestPattern = "^sha256:[0-9a-f]{64}$";
inline constexpr std::string_view kDigestWords = "must be sha256: and 64 hexadecimal digits";
inline constexpr std::string_view kAbsolutePathPattern = "^/[^:]*$";
inline constexpr std::string_view kAbsolutePathWords = "must be an absolute path without ':'";

}  // namespace paceline::api
