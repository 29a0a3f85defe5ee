// What the webhook adds to a pod of a training job, as JSON patch operations: labels and environment that name its run,
// the stage volume, the trace volume of a traced job, the checkpoint directories that an annotated job asks for, and
// what the pod itself says of its GPUs.
// Only ever adds: nothing that the pod has is changed but the command of a container that is to install first, which
// stands behind the wrapper then; and a pod that has everything gets no patch, so that running
// twice, or after another webhook, does no harm. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/api/job_settings.h"
#include "operator/dependencies/injected_install.h"
#include "operator/run_identity.h"

namespace paceline::operator_ {

// The volume through which the code inside tells its stages: docs/formats/stage-marker.md. The agent knows it by this
// name.
inline constexpr std::string_view kStageVolumeName = "paceline-stage";
inline constexpr std::string_view kStageMountPath = "/run/paceline";

// The volume where NCCL finds the profiler plugin, which writes its trace rings there.
inline constexpr std::string_view kTraceVolumeName = "paceline-trace";

// How many GPUs the pod's containers ask for: pods in our caches do not carry their resources.
inline constexpr std::string_view kGpusAnnotation = "paceline.dev/gpus";

struct InjectedVolumes {
  bool stage = false;
  bool trace = false;
  std::vector<api::Checkpoint> checkpoints;
  std::optional<InjectedInstall> install;  // of the first container
};

// Whether an earlier call has put an install there.
bool HasInstall(const nlohmann::json& pod);

// The operations (an array, empty when there is nothing to add) that bring `pod` to where it should be. A container
// that mounts something at one of our paths already keeps it. `pod` may be malformed: what is not an object or a list
// where Kubernetes has one is left alone.
nlohmann::json InjectionPatch(const nlohmann::json& pod, const RunIdentity& identity, InjectedVolumes volumes);

}  // namespace paceline::operator_
