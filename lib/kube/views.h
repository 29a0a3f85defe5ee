// What Paceline uses of Kubernetes objects, as plain structs: the caches keep these instead of whole objects, which for
// pods is a tenth of the memory, and the decoders skip everything else on the wire.
//
// One description of fields (views*.cc) serves both encodings, so protobuf and JSON give equal views:
// docs/formats/kube-protobuf.md. Absent and empty are the same, as on the wire; times are zero (kNoTime) when absent or
// outside the years 1678 to 2261.
// Views are values; in caches they are shared as shared_ptr<const View> and never changed.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/kube/resource.h"
#include "lib/kube/wire_string.h"

namespace paceline::kube {

inline constexpr WallTime kNoTime{};

// Labels, annotations, resource quantities: sorted by key.
class StringMap {
 public:
  using Entry = std::pair<SharedString, SharedString>;

  StringMap() = default;
  StringMap(std::initializer_list<Entry> entries);

  // The value, or "" when absent.
  std::string_view Get(std::string_view key) const;
  bool Contains(std::string_view key) const { return Find(key) != nullptr; }
  // Null when absent; valid while the map is.
  const SharedString* Find(std::string_view key) const;
  void Set(SharedString key, SharedString value);

  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  bool operator==(const StringMap&) const = default;

 private:
  std::vector<Entry> entries_;
};

struct OwnerReference {
  SharedString api_version;
  SharedString kind;
  SharedString name;
  SharedString uid;
  bool is_controller = false;
  bool operator==(const OwnerReference&) const = default;
};

// managedFields and the annotation kubectl.kubernetes.io/last-applied-configuration are left out: large, and never
// read.
struct ObjectMeta {
  SharedString ns;
  SharedString name;
  SharedString uid;
  SharedString resource_version;  // opaque: compare for equality only
  int64_t generation = 0;
  WallTime creation_time;
  WallTime deletion_time;  // kNoTime unless the object is being deleted
  StringMap labels;
  StringMap annotations;
  std::vector<OwnerReference> owners;
  std::vector<SharedString> finalizers;

  ObjectKey Key() const { return {ns.str(), name.str()}; }
  bool IsBeingDeleted() const { return deletion_time != kNoTime; }
  // The owner with controller: true, or null.
  const OwnerReference* Controller() const;
  bool operator==(const ObjectMeta&) const = default;
};

// A condition of a pod, node, job or custom resource.
struct Condition {
  SharedString type;
  SharedString status;  // "True", "False", "Unknown"
  SharedString reason;
  SharedString message;
  WallTime last_transition_time;
  bool operator==(const Condition&) const = default;
};

// The condition of that type, or null.
const Condition* FindCondition(const std::vector<Condition>& conditions, std::string_view type);
// True when the condition is there with status "True".
bool IsConditionTrue(const std::vector<Condition>& conditions, std::string_view type);

struct ContainerSpec {
  SharedString name;
  SharedString image;
  SharedString restart_policy;  // "Always" marks an init container as a sidecar
  bool operator==(const ContainerSpec&) const = default;
};

struct ContainerWaiting {
  SharedString reason;
  SharedString message;
  bool operator==(const ContainerWaiting&) const = default;
};
struct ContainerRunning {
  WallTime started_at;
  bool operator==(const ContainerRunning&) const = default;
};
struct ContainerTerminated {
  int32_t exit_code = 0;
  int32_t signal = 0;
  SharedString reason;
  SharedString message;
  WallTime started_at;
  WallTime finished_at;
  bool operator==(const ContainerTerminated&) const = default;
};
// At most one of the three is set.
struct ContainerState {
  std::optional<ContainerWaiting> waiting;
  std::optional<ContainerRunning> running;
  std::optional<ContainerTerminated> terminated;
  bool operator==(const ContainerState&) const = default;
};
struct ContainerStatus {
  SharedString name;
  ContainerState state;
  ContainerState last_state;
  bool is_ready = false;
  int32_t restart_count = 0;
  SharedString image;
  SharedString image_id;
  SharedString container_id;
  bool operator==(const ContainerStatus&) const = default;
};

struct PodView {
  struct Spec {
    SharedString node_name;
    SharedString restart_policy;
    SharedString scheduler_name;
    std::vector<ContainerSpec> containers;
    std::vector<ContainerSpec> init_containers;
    std::vector<SharedString> scheduling_gates;
    bool operator==(const Spec&) const = default;
  };
  struct Status {
    SharedString phase;
    SharedString reason;
    SharedString message;
    SharedString pod_ip;
    SharedString host_ip;
    WallTime start_time;
    std::vector<Condition> conditions;
    std::vector<ContainerStatus> init_containers;
    std::vector<ContainerStatus> containers;
    bool operator==(const Status&) const = default;
  };
  ObjectMeta meta;
  Spec spec;
  Status status;
  static const Resource& DefaultResource() { return kPods; }
  bool operator==(const PodView&) const = default;
};

struct Taint {
  SharedString key;
  SharedString value;
  SharedString effect;
  WallTime time_added;
  bool operator==(const Taint&) const = default;
};
struct NodeAddress {
  SharedString type;
  SharedString address;
  bool operator==(const NodeAddress&) const = default;
};
struct NodeInfo {
  SharedString kernel_version;
  SharedString os_image;
  SharedString container_runtime_version;
  SharedString kubelet_version;
  SharedString operating_system;
  SharedString architecture;
  SharedString boot_id;
  bool operator==(const NodeInfo&) const = default;
};

struct NodeView {
  struct Spec {
    bool is_unschedulable = false;
    SharedString provider_id;
    std::vector<Taint> taints;
    bool operator==(const Spec&) const = default;
  };
  struct Status {
    StringMap capacity;  // quantities as text: "cpu" -> "8", "memory" -> "16Gi"
    StringMap allocatable;
    std::vector<Condition> conditions;
    std::vector<NodeAddress> addresses;
    NodeInfo info;
    bool operator==(const Status&) const = default;
  };
  ObjectMeta meta;
  Spec spec;
  Status status;
  static const Resource& DefaultResource() { return kNodes; }
  bool operator==(const NodeView&) const = default;
};

// core/v1 Event. events.k8s.io/v1 shows the same objects under other field names.
struct EventView {
  struct InvolvedObject {
    SharedString api_version;
    SharedString kind;
    SharedString ns;
    SharedString name;
    SharedString uid;
    SharedString field_path;  // "spec.containers{main}"
    bool operator==(const InvolvedObject&) const = default;
  };
  ObjectMeta meta;
  InvolvedObject involved_object;
  SharedString reason;
  SharedString message;
  SharedString type;                 // "Normal", "Warning"
  SharedString source_component;     // older writers fill this one,
  SharedString reporting_component;  // newer ones this; Component() gives whichever is set
  WallTime first_time;
  WallTime last_time;
  WallTime event_time;  // microseconds, newer writers only
  int32_t count = 0;

  std::string_view Component() const { return reporting_component.empty() ? source_component : reporting_component; }
  // When it was seen last: the last of the three times that is set.
  WallTime When() const;
  static const Resource& DefaultResource() { return kCoreEvents; }
  bool operator==(const EventView&) const = default;
};

struct JobView {
  struct Spec {
    std::optional<int32_t> parallelism;
    std::optional<int32_t> completions;
    std::optional<int32_t> backoff_limit;
    SharedString completion_mode;  // "Indexed", "NonIndexed"
    SharedString managed_by;
    bool is_suspended = false;
    StringMap template_labels;
    StringMap template_annotations;
    bool operator==(const Spec&) const = default;
  };
  struct Status {
    int32_t active = 0;
    int32_t ready = 0;
    int32_t succeeded = 0;
    int32_t failed = 0;
    WallTime start_time;
    WallTime completion_time;
    SharedString completed_indexes;
    std::vector<Condition> conditions;
    bool operator==(const Status&) const = default;
  };
  ObjectMeta meta;
  Spec spec;
  Status status;
  static const Resource& DefaultResource() { return kJobs; }
  bool operator==(const JobView&) const = default;
};

// Any kind, for custom resources and foreign jobs: the metadata decoded, the whole object kept as JSON text (less than
// a fifth of the memory of a parsed tree) without metadata.managedFields.
struct ObjectView {
  ObjectMeta meta;
  SharedString api_version;
  SharedString kind;
  SharedString json;

  // Parses the whole object. kDataLoss when the text is not valid JSON, which a server never sends.
  Result<nlohmann::json> Body() const;
  bool operator==(const ObjectView&) const = default;
};

// Decodes one object into PodView, NodeView, EventView, JobView or ObjectView. `pool` may be null. kDataLoss for bytes
// that are cut short or malformed, never a crash. ObjectView has no protobuf form: kUnimplemented.
template <typename View>
Result<std::shared_ptr<const View>> DecodeProtobuf(std::string_view message, StringPool* pool);
template <typename View>
Result<std::shared_ptr<const View>> DecodeJson(std::string_view text, StringPool* pool);
// The same from a parsed object, for what Client and the webhook hand over.
template <typename View>
Result<View> ViewFromJson(const nlohmann::json& object);

}  // namespace paceline::kube
