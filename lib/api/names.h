// Every name that Paceline puts into Kubernetes objects: group, kinds, annotations, labels, condition types. Constants,
// in one place, because operator, agent, CLI and chart have to agree on them without including each other.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace paceline::api {

inline constexpr std::string_view kGroup = "paceline.dev";
inline constexpr std::string_view kVersion = "v1alpha1";
inline constexpr std::string_view kApiVersion = "paceline.dev/v1alpha1";
inline constexpr std::string_view kCsiDriver = "csi.paceline.dev";

// Where the pods of a traced job have their trace volume, and the plugin's file in it.
inline constexpr std::string_view kTraceMountPath = "/run/paceline/trace";
inline constexpr std::string_view kTracePluginName = "libnccl-profiler-paceline.so";

enum class Scope { kNamespaced, kCluster };

// What a client needs to build URLs for one of our kinds.
struct KindInfo {
  std::string_view kind;
  std::string_view plural;
  std::string_view singular;
  std::string_view short_name;  // empty: none
  Scope scope;
};

inline constexpr KindInfo kTrainingJobKind{"TrainingJob", "trainingjobs", "trainingjob", "tj", Scope::kNamespaced};
inline constexpr KindInfo kTrainingRunKind{"TrainingRun", "trainingruns", "trainingrun", "run", Scope::kNamespaced};
inline constexpr KindInfo kNodePlanKind{"NodePlan", "nodeplans", "nodeplan", "", Scope::kCluster};
inline constexpr KindInfo kImageProfileKind{"ImageProfile", "imageprofiles", "imageprofile", "", Scope::kCluster};
inline constexpr KindInfo kDependencySnapshotKind{"DependencySnapshot", "dependencysnapshots", "dependencysnapshot", "",
                                                  Scope::kNamespaced};
inline constexpr KindInfo kStragglerPolicyKind{"StragglerPolicy", "stragglerpolicies", "stragglerpolicy", "",
                                               Scope::kCluster};
inline constexpr KindInfo kIncidentKind{"Incident", "incidents", "incident", "", Scope::kNamespaced};

inline constexpr std::array<KindInfo, 7> kAllKinds = {kTrainingJobKind,  kTrainingRunKind,        kNodePlanKind,
                                                      kImageProfileKind, kDependencySnapshotKind, kStragglerPolicyKind,
                                                      kIncidentKind};

// Annotations that users write, on the job or on its pod template; annotations.h reads them.
inline constexpr std::string_view kPrefix = "paceline.dev/";
inline constexpr std::string_view kEnabledAnnotation = "paceline.dev/enabled";
inline constexpr std::string_view kImagePrefetchAnnotation = "paceline.dev/image-prefetch";
inline constexpr std::string_view kImageConvertAnnotation = "paceline.dev/image-convert";
inline constexpr std::string_view kDependenciesInstallAnnotation = "paceline.dev/dependencies-install";
inline constexpr std::string_view kDependenciesInputsAnnotation = "paceline.dev/dependencies-inputs";
inline constexpr std::string_view kDependenciesCaptureAnnotation = "paceline.dev/dependencies-capture";
inline constexpr std::string_view kCheckpointsAnnotation = "paceline.dev/checkpoints";
inline constexpr std::string_view kTraceAnnotation = "paceline.dev/trace";
inline constexpr std::string_view kStragglerPolicyAnnotation = "paceline.dev/straggler-policy";

// On a TrainingJob, by a person, `pacectl job restart` or a StragglerPolicy: the number of the start that is to end, so
// that the next one begins. Any other number asks for nothing. Why, in words, for people.
inline constexpr std::string_view kRestartAnnotation = "paceline.dev/restart";
inline constexpr std::string_view kRestartReasonAnnotation = "paceline.dev/restart-reason";

// Labels and annotations that Paceline itself writes, on the pods it makes or admits and on its own objects.
inline constexpr std::string_view kJobKindLabel = "paceline.dev/job-kind";  // "TrainingJob", "JobSet", ...
inline constexpr std::string_view kJobNameLabel = "paceline.dev/job-name";  // only when it is a legal label value
inline constexpr std::string_view kJobUidLabel = "paceline.dev/job-uid";
inline constexpr std::string_view kGenerationLabel = "paceline.dev/generation";  // which start of the job: 0, 1, ...
inline constexpr std::string_view kRankLabel = "paceline.dev/rank";              // place of the pod in its gang
inline constexpr std::string_view kRunLabel = "paceline.dev/run";                // name of the pod's TrainingRun
inline constexpr std::string_view kInjectedAnnotation =
    "paceline.dev/injected";  // set by the webhook: idempotency mark

// Condition types of TrainingJob.
inline constexpr std::string_view kSuspendedCondition = "Suspended";
inline constexpr std::string_view kRunningCondition = "Running";
inline constexpr std::string_view kRestartingCondition = "Restarting";
inline constexpr std::string_view kCompleteCondition = "Complete";
inline constexpr std::string_view kFailedCondition = "Failed";
// Condition type of TrainingRun (and of TrainingJob): False when the settings or annotations could not be used.
inline constexpr std::string_view kConfigurationValidCondition = "ConfigurationValid";

}  // namespace paceline::api
