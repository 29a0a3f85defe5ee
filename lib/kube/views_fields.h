// The field tables of the views, for views.cc. Numbers are those of the generated.proto files of k8s.io/api and
// k8s.io/apimachinery: docs/formats/kube-protobuf.md section 4.
#pragma once

#include <string>
#include <string_view>

#include "lib/kube/wire_decode.h"

namespace paceline::kube {

// Annotations but for kubectl's copy of the whole object.
bool AnnotationsFromProto(const ProtoField& field, ObjectMeta* out, StringPool* pool);
bool AnnotationsFromJson(JsonReader& reader, ObjectMeta* out, StringPool* pool);
// map<string, Quantity>: the quantity's text is one message further down.
bool QuantityFromProto(const ProtoField& field, StringMap* out, StringPool* pool);
// Reads metadata from its JSON text; `managed` becomes the text of the member managedFields, if there is one.
bool MetaFromJson(std::string_view text, ObjectMeta* out, std::string_view* managed, StringPool* pool);
// `text` without the object member whose value is `value`, a part of it; all of `text` when `value` is empty.
std::string WithoutMember(std::string_view text, std::string_view value);

template <auto Member, typename Message = typename MemberOf<Member>::Message>
constexpr FieldSpec<Message> QuantityField(uint32_t number, std::string_view name) {
  return {number, name,
          [](const ProtoField& field, Message* out, StringPool* pool) {
            return QuantityFromProto(field, &(out->*Member), pool);
          },
          [](JsonReader& reader, Message* out, StringPool* pool) { return FromJson(reader, &(out->*Member), pool); }};
}

template <>
struct Fields<OwnerReference> {
  static constexpr FieldSpec<OwnerReference> kList[] = {
      Field<&OwnerReference::kind>(1, "kind"), Field<&OwnerReference::name>(3, "name"),
      Field<&OwnerReference::uid>(4, "uid"), Field<&OwnerReference::api_version>(5, "apiVersion"),
      Field<&OwnerReference::is_controller>(6, "controller")};
};

template <>
struct Fields<ObjectMeta> {
  static constexpr FieldSpec<ObjectMeta> kList[] = {UniqueField<&ObjectMeta::name>(1, "name"),
                                                    Field<&ObjectMeta::ns>(3, "namespace"),
                                                    UniqueField<&ObjectMeta::uid>(5, "uid"),
                                                    UniqueField<&ObjectMeta::resource_version>(6, "resourceVersion"),
                                                    Field<&ObjectMeta::generation>(7, "generation"),
                                                    Field<&ObjectMeta::creation_time>(8, "creationTimestamp"),
                                                    Field<&ObjectMeta::deletion_time>(9, "deletionTimestamp"),
                                                    Field<&ObjectMeta::labels>(11, "labels"),
                                                    {12, "annotations", AnnotationsFromProto, AnnotationsFromJson},
                                                    Field<&ObjectMeta::owners>(13, "ownerReferences"),
                                                    Field<&ObjectMeta::finalizers>(14, "finalizers")};
};

// Pods, nodes and jobs number the fields that we read alike.
template <>
struct Fields<Condition> {
  static constexpr FieldSpec<Condition> kList[] = {
      Field<&Condition::type>(1, "type"), Field<&Condition::status>(2, "status"),
      Field<&Condition::last_transition_time>(4, "lastTransitionTime"), Field<&Condition::reason>(5, "reason"),
      Field<&Condition::message>(6, "message")};
};
template <>
struct Fields<ContainerSpec> {
  static constexpr FieldSpec<ContainerSpec> kList[] = {Field<&ContainerSpec::name>(1, "name"),
                                                       Field<&ContainerSpec::image>(2, "image"),
                                                       Field<&ContainerSpec::restart_policy>(24, "restartPolicy")};
};

template <>
struct Fields<ContainerWaiting> {
  static constexpr FieldSpec<ContainerWaiting> kList[] = {Field<&ContainerWaiting::reason>(1, "reason"),
                                                          Field<&ContainerWaiting::message>(2, "message")};
};
template <>
struct Fields<ContainerRunning> {
  static constexpr FieldSpec<ContainerRunning> kList[] = {Field<&ContainerRunning::started_at>(1, "startedAt")};
};
template <>
struct Fields<ContainerTerminated> {
  static constexpr FieldSpec<ContainerTerminated> kList[] = {Field<&ContainerTerminated::exit_code>(1, "exitCode"),
                                                             Field<&ContainerTerminated::signal>(2, "signal"),
                                                             Field<&ContainerTerminated::reason>(3, "reason"),
                                                             Field<&ContainerTerminated::message>(4, "message"),
                                                             Field<&ContainerTerminated::started_at>(5, "startedAt"),
                                                             Field<&ContainerTerminated::finished_at>(6, "finishedAt")};
};
template <>
struct Fields<ContainerState> {
  static constexpr FieldSpec<ContainerState> kList[] = {Field<&ContainerState::waiting>(1, "waiting"),
                                                        Field<&ContainerState::running>(2, "running"),
                                                        Field<&ContainerState::terminated>(3, "terminated")};
};
template <>
struct Fields<ContainerStatus> {
  static constexpr FieldSpec<ContainerStatus> kList[] = {Field<&ContainerStatus::name>(1, "name"),
                                                         Field<&ContainerStatus::state>(2, "state"),
                                                         Field<&ContainerStatus::last_state>(3, "lastState"),
                                                         Field<&ContainerStatus::is_ready>(4, "ready"),
                                                         Field<&ContainerStatus::restart_count>(5, "restartCount"),
                                                         Field<&ContainerStatus::image>(6, "image"),
                                                         Field<&ContainerStatus::image_id>(7, "imageID"),
                                                         UniqueField<&ContainerStatus::container_id>(8, "containerID")};
};

// PodSchedulingGate has nothing but a name.
struct GateFields {
  static constexpr FieldSpec<SharedString> kList[] = {
      {1, "name",
       [](const ProtoField& field, SharedString* out, StringPool* pool) { return FromProto(field, out, pool); },
       [](JsonReader& reader, SharedString* out, StringPool* pool) { return FromJson(reader, out, pool); }}};
};

template <>
struct Fields<PodView::Spec> {
  static constexpr FieldSpec<PodView::Spec> kList[] = {
      Field<&PodView::Spec::containers>(2, "containers"),
      Field<&PodView::Spec::restart_policy>(3, "restartPolicy"),
      Field<&PodView::Spec::node_name>(10, "nodeName"),
      Field<&PodView::Spec::scheduler_name>(19, "schedulerName"),
      Field<&PodView::Spec::init_containers>(20, "initContainers"),
      {38, "schedulingGates",
       [](const ProtoField& field, PodView::Spec* out, StringPool* pool) {
         return field.wire_type == kBytesType &&
                MessageFromProto<GateFields>(field.bytes, &out->scheduling_gates.emplace_back(), pool);
       },
       [](JsonReader& reader, PodView::Spec* out, StringPool* pool) {
         for (reader.EnterArray(); reader.NextElement();) {
           if (!MessageFromJson<GateFields>(reader, &out->scheduling_gates.emplace_back(), pool)) return false;
         }
         return reader.ok();
       }}};
};
template <>
struct Fields<PodView::Status> {
  static constexpr FieldSpec<PodView::Status> kList[] = {
      Field<&PodView::Status::phase>(1, "phase"),
      Field<&PodView::Status::conditions>(2, "conditions"),
      Field<&PodView::Status::message>(3, "message"),
      Field<&PodView::Status::reason>(4, "reason"),
      Field<&PodView::Status::host_ip>(5, "hostIP"),
      UniqueField<&PodView::Status::pod_ip>(6, "podIP"),
      Field<&PodView::Status::start_time>(7, "startTime"),
      Field<&PodView::Status::containers>(8, "containerStatuses"),
      Field<&PodView::Status::init_containers>(10, "initContainerStatuses")};
};
template <>
struct Fields<PodView> {
  static constexpr FieldSpec<PodView> kList[] = {Field<&PodView::meta>(1, "metadata"), Field<&PodView::spec>(2, "spec"),
                                                 Field<&PodView::status>(3, "status")};
};

template <>
struct Fields<Taint> {
  static constexpr FieldSpec<Taint> kList[] = {Field<&Taint::key>(1, "key"), Field<&Taint::value>(2, "value"),
                                               Field<&Taint::effect>(3, "effect"),
                                               Field<&Taint::time_added>(4, "timeAdded")};
};
template <>
struct Fields<NodeAddress> {
  static constexpr FieldSpec<NodeAddress> kList[] = {Field<&NodeAddress::type>(1, "type"),
                                                     UniqueField<&NodeAddress::address>(2, "address")};
};
template <>
struct Fields<NodeInfo> {
  static constexpr FieldSpec<NodeInfo> kList[] = {
      UniqueField<&NodeInfo::boot_id>(3, "bootID"),
      Field<&NodeInfo::kernel_version>(4, "kernelVersion"),
      Field<&NodeInfo::os_image>(5, "osImage"),
      Field<&NodeInfo::container_runtime_version>(6, "containerRuntimeVersion"),
      Field<&NodeInfo::kubelet_version>(7, "kubeletVersion"),
      Field<&NodeInfo::operating_system>(9, "operatingSystem"),
      Field<&NodeInfo::architecture>(10, "architecture")};
};
template <>
struct Fields<NodeView::Spec> {
  static constexpr FieldSpec<NodeView::Spec> kList[] = {UniqueField<&NodeView::Spec::provider_id>(3, "providerID"),
                                                        Field<&NodeView::Spec::is_unschedulable>(4, "unschedulable"),
                                                        Field<&NodeView::Spec::taints>(5, "taints")};
};
template <>
struct Fields<NodeView::Status> {
  static constexpr FieldSpec<NodeView::Status> kList[] = {
      QuantityField<&NodeView::Status::capacity>(1, "capacity"),
      QuantityField<&NodeView::Status::allocatable>(2, "allocatable"),
      Field<&NodeView::Status::conditions>(4, "conditions"), Field<&NodeView::Status::addresses>(5, "addresses"),
      Field<&NodeView::Status::info>(7, "nodeInfo")};
};
template <>
struct Fields<NodeView> {
  static constexpr FieldSpec<NodeView> kList[] = {
      Field<&NodeView::meta>(1, "metadata"), Field<&NodeView::spec>(2, "spec"), Field<&NodeView::status>(3, "status")};
};

template <>
struct Fields<EventView::InvolvedObject> {
  using Object = EventView::InvolvedObject;
  static constexpr FieldSpec<Object> kList[] = {Field<&Object::kind>(1, "kind"),
                                                Field<&Object::ns>(2, "namespace"),
                                                Field<&Object::name>(3, "name"),
                                                Field<&Object::uid>(4, "uid"),
                                                Field<&Object::api_version>(5, "apiVersion"),
                                                Field<&Object::field_path>(7, "fieldPath")};
};
struct EventSourceFields {
  static constexpr FieldSpec<EventView> kList[] = {Field<&EventView::source_component>(1, "component")};
};
template <>
struct Fields<EventView> {
  static constexpr FieldSpec<EventView> kList[] = {Field<&EventView::meta>(1, "metadata"),
                                                   Field<&EventView::involved_object>(2, "involvedObject"),
                                                   Field<&EventView::reason>(3, "reason"),
                                                   Field<&EventView::message>(4, "message"),
                                                   Flattened<EventView, EventSourceFields>(5, "source"),
                                                   Field<&EventView::first_time>(6, "firstTimestamp"),
                                                   Field<&EventView::last_time>(7, "lastTimestamp"),
                                                   Field<&EventView::count>(8, "count"),
                                                   Field<&EventView::type>(9, "type"),
                                                   Field<&EventView::event_time>(10, "eventTime"),
                                                   Field<&EventView::reporting_component>(14, "reportingComponent")};
};

struct TemplateMetaFields {
  static constexpr FieldSpec<JobView::Spec> kList[] = {Field<&JobView::Spec::template_labels>(11, "labels"),
                                                       Field<&JobView::Spec::template_annotations>(12, "annotations")};
};
struct TemplateFields {
  static constexpr FieldSpec<JobView::Spec> kList[] = {Flattened<JobView::Spec, TemplateMetaFields>(1, "metadata")};
};
template <>
struct Fields<JobView::Spec> {
  static constexpr FieldSpec<JobView::Spec> kList[] = {Field<&JobView::Spec::parallelism>(1, "parallelism"),
                                                       Field<&JobView::Spec::completions>(2, "completions"),
                                                       Flattened<JobView::Spec, TemplateFields>(6, "template"),
                                                       Field<&JobView::Spec::backoff_limit>(7, "backoffLimit"),
                                                       Field<&JobView::Spec::completion_mode>(9, "completionMode"),
                                                       Field<&JobView::Spec::is_suspended>(10, "suspend"),
                                                       Field<&JobView::Spec::managed_by>(15, "managedBy")};
};
template <>
struct Fields<JobView::Status> {
  static constexpr FieldSpec<JobView::Status> kList[] = {
      Field<&JobView::Status::conditions>(1, "conditions"),
      Field<&JobView::Status::start_time>(2, "startTime"),
      Field<&JobView::Status::completion_time>(3, "completionTime"),
      Field<&JobView::Status::active>(4, "active"),
      Field<&JobView::Status::succeeded>(5, "succeeded"),
      Field<&JobView::Status::failed>(6, "failed"),
      Field<&JobView::Status::completed_indexes>(7, "completedIndexes"),
      Field<&JobView::Status::ready>(9, "ready")};
};
template <>
struct Fields<JobView> {
  static constexpr FieldSpec<JobView> kList[] = {Field<&JobView::meta>(1, "metadata"), Field<&JobView::spec>(2, "spec"),
                                                 Field<&JobView::status>(3, "status")};
};

}  // namespace paceline::kube
