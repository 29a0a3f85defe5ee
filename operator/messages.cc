#include "operator/messages.h"

#include <iterator>

namespace paceline::operator_ {
namespace {

using api::Advice;

constexpr std::string_view kProgressing = "TrainingRun, condition Progressing";
constexpr std::string_view kGangWaits = "the whole gang waits for this pod";
constexpr std::string_view kFailures = "TrainingRun and TrainingJob, condition Failed; job, event";
constexpr std::string_view kRunEnds = "this start is over for the whole gang";
constexpr std::string_view kRefusals = "TrainingJob, event and condition ConfigurationValid";
constexpr std::string_view kNothingStarts = "no worker starts";

// The last row of each table is for reasons that are not in it.
constexpr Advice kPodHeld[] = {
    {kProgressing, "Unschedulable", "no node has room for a pod", kGangWaits,
     "free or add nodes that fit, or ask for less"},
    {kProgressing, "SchedulingGated", "a pod has not been admitted to scheduling", kGangWaits,
     "a queue or controller has to admit the pod: look at its quota"},
    {kProgressing, "ErrImagePull", "an image of a pod cannot be pulled", kGangWaits,
     "check the image's name and the pull secret"},
    {kProgressing, "ImagePullBackOff", "an image of a pod cannot be pulled and is tried again more and more seldom",
     kGangWaits, "check the image's name and the pull secret"},
    {kProgressing, "InvalidImageName", "the name of an image is none", kGangWaits, "correct the image's name"},
    {kProgressing, "CreateContainerConfigError", "a container cannot be configured", kGangWaits,
     "check the ConfigMaps and Secrets that the container names"},
    {kProgressing, "CrashLoopBackOff", "a container keeps ending right after its start", kGangWaits,
     "see the container's log"},
    {kProgressing, "FailedMount", "a volume of a pod cannot be mounted", kGangWaits,
     "the message names the volume; for one of csi.paceline.dev look at the agent's log on that node"},
    {kProgressing, "FailedAttachVolume", "a volume of a pod cannot be attached to its node", kGangWaits,
     "look at the volume's driver: is the volume still attached to another node?"},
    {kProgressing, "FailedMapVolume", "a block volume of a pod cannot be mapped", kGangWaits,
     "look at the volume's driver on that node"},
    {kProgressing, "FailedCreatePodSandBox", "the network or sandbox of a pod cannot be made", kGangWaits,
     "look at the network plugin and containerd on that node"},
    {kProgressing, "", "a pod is held up by what the message says", kGangWaits, "`kubectl describe pod` tells more"},
};

constexpr Advice kFailureRows[] = {
    {kFailures, "OOMKilled", "a container was killed for using more memory than its limit", kRunEnds,
     "raise the container's memory limit or use less"},
    {kFailures, "ContainerFailed", "a container ended with an error", kRunEnds, "see the container's log"},
    {kFailures, "PodFailed", "a pod failed and Kubernetes does not say why", kRunEnds,
     "`kubectl describe pod` and the log of its container"},
    {kFailures, "PreemptionByScheduler", "a pod had to make room for one of higher priority", kRunEnds,
     "raise the job's priority, or let it restart (spec.restartPolicy)"},
    {kFailures, "EvictionByEvictionAPI", "a pod was evicted, as when its node is drained", kRunEnds,
     "see who drains the node, or let the job restart (spec.restartPolicy)"},
    {kFailures, "DeletionByTaintManager", "a pod's node got a taint that it does not tolerate", kRunEnds,
     "look at that node: is it not ready or unreachable?"},
    {kFailures, "TerminationByKubelet", "kubelet ended a pod: node pressure or shutdown", kRunEnds,
     "look at memory and disk of that node"},
    {kFailures, "DeletionByPodGC", "a pod's node is gone", kRunEnds, "look for the node: was it scaled down?"},
    {kFailures, "WorkerLost", "the node of a worker does not answer", kRunEnds,
     "look at that node; the job starts again elsewhere where its restart policy lets it"},
    {kFailures, "WorkerFailed", "a worker failed", kRunEnds, "see the log of the worker's pod"},
    {kFailures, "JobDeleted", "somebody deleted the Job that held the workers", kRunEnds,
     "suspend the TrainingJob instead (spec.suspend) to stop it"},
    {kFailures, "JobFailed", "the job failed and its kind does not say why", kRunEnds,
     "see the status of the job and the logs of its pods"},
    {kFailures, "", "the job or a pod failed with a reason of Kubernetes or of the job's kind", kRunEnds,
     "the message is theirs; `kubectl describe` of the job tells more"},
};

constexpr Advice kRefusalRows[] = {
    {kRefusals, "InvalidSpec", "the spec of a TrainingJob contradicts itself", kNothingStarts,
     "correct the fields that the message names"},
    {kRefusals, "JobRejected", "the API server does not accept the Job that a TrainingJob needs", kNothingStarts,
     "correct spec.template"},
    {kRefusals, "ServiceRejected", "the API server does not accept the Service that a TrainingJob needs",
     kNothingStarts, "correct the job's name: the Service is called after it"},
    {kRefusals, "NotAllowed", "a Job or Service of a TrainingJob may not be made", kNothingStarts,
     "check quotas, policies and the operator's role"},
    {kRefusals, "NameConflict", "an object of the name that a TrainingJob needs belongs to somebody else",
     kNothingStarts, "remove it or give the job another name"},
    {kRefusals, "", "a TrainingJob cannot be carried out", kNothingStarts, "do what the message says"},
};

constexpr Advice kConversions[] = {
    {kConversionPlaces, "ConversionDenied", "the converter may not read an image, or not write to the store",
     kPulledWhole, "give the Secret in conversion.registrySecret the right to read it and to write to the store"},
    {kConversionPlaces, "ImageNotFound", "the registry does not have the image that pods run", kPulledWhole,
     "push it again, or let the job run one that is there"},
    {kConversionPlaces, "RegistryUnreachable", "the converter cannot reach the image's registry or the store",
     kPulledWhole, "it is tried again; see whether pods of Paceline's namespace reach both"},
    {kConversionPlaces, "ImageNotConvertible", "an image holds what a block image cannot", kPulledWhole,
     "build the image without what the message names, or leave it so"},
    {kConversionPlaces, "ImageDamaged", "what the registry has of an image is not what its digests say", kPulledWhole,
     "push the image anew"},
    {kConversionPlaces, "StoreFull", "the store takes no more", kPulledWhole, "make room there, or raise its quota"},
    {kConversionPlaces, "ConversionTooLong", "a conversion took longer than it may", kPulledWhole,
     "the next try goes on with the layer that it was at; raise conversion.timeLimit if that is not enough"},
    {kConversionPlaces, "ConversionOutOfMemory", "the converter was killed for using more memory than its limit",
     kPulledWhole, "raise conversion.resources.limits.memory"},
    {kConversionPlaces, "ConversionJobRejected", "the API server does not accept the Job that converts an image",
     kPulledWhole, "correct what the message names in conversion of the chart, or the quota of Paceline's namespace"},
    {kConversionPlaces, "ConversionFailed", "a conversion failed, or its pod was removed", kPulledWhole,
     "it is tried again; the message is the converter's own"},
};

constexpr std::string_view kLeftAlone = "Incident of a StragglerPolicy, action Refused";
constexpr std::string_view kStaysSlow = "the job stays as slow as its slowest node";

// Why a StragglerPolicy leaves a slow node alone, and its conditions.
constexpr Advice kStragglers[] = {
    {kLeftAlone, "ObserveOnly", "the policy only observes", kStaysSlow,
     "set spec.action of the policy to Taint or Cordon when you trust what it says"},
    {kLeftAlone, "Paused", "the policy is paused", kStaysSlow, "take the texts out of spec.pauseRequests"},
    {kLeftAlone, "Excluded", "the node is not for policies: a label, an annotation, or the control plane", kStaysSlow,
     "look at the node yourself"},
    {kLeftAlone, "OtherWriter", "another controller takes care of the node, or it announces maintenance", kStaysSlow,
     "let that controller see to it"},
    {kLeftAlone, "OtherPolicy", "another StragglerPolicy has the node out", "",
     "give the policies selectors that do not overlap"},
    {kLeftAlone, "AlreadyCordoned", "somebody else has cordoned the node", "", ""},
    {kLeftAlone, "Vetoed", "a person has put the node back", kStaysSlow, "cordon it by hand, or wait for vetoPeriod"},
    {kLeftAlone, "CoolDown", "there was an action on the node a short time ago", kStaysSlow, "wait for coolDown"},
    {kLeftAlone, "BreakerTripped", "the breaker has tripped", kStaysSlow, "see condition BreakerTripped of the policy"},
    {kLeftAlone, "Budget", "as many nodes are out as may be", kStaysSlow,
     "mend those that are out and put them back, or raise budget.maxNodes"},
    {kLeftAlone, "Rate", "as many actions were taken as may be in a while", kStaysSlow,
     "wait for budget.actionPeriod, or raise budget.maxActions"},
    {kLeftAlone, "WaitingForApproval", "a person is to approve", kStaysSlow,
     "set the annotation paceline.dev/approve of the Incident to \"true\""},
    {kLeftAlone, "ApprovalExpired", "nobody approved within approvalPeriod", kStaysSlow,
     "approve the next Incident, which asks anew"},
    {"StragglerPolicy, condition BreakerTripped", "TooManyBlamed",
     "more nodes were blamed at a time than budget.breakerNodes", "the policy does nothing until it is reset",
     "look at the network and the job; then set the policy's annotation paceline.dev/reset-breaker to \"true\""},
    {"StragglerPolicy, condition Paused", "Requested", "there are texts in spec.pauseRequests",
     "the policy does nothing to nodes", "take them out when their reason is gone"},
    {"StragglerPolicy, condition Ready", "DetectionTooLong", "windows times window is longer than what agents remember",
     "no node is ever blamed", "set fewer or shorter windows: 15 min in all"},
};

// Reasons of conditions that ask nothing of anybody.
constexpr Advice kQuiet[] = {
    {kProgressing, "Pending, Starting, Running, Succeeded, Failed, Unknown", "the run's phase; nothing holds it up", "",
     ""},
    {"TrainingRun, condition ConfigurationValid", "Valid", "all annotations of the job are understood", "", ""},
    {"TrainingRun, condition FirstStepSeen", "AllWorkers", "all workers have taken their first step", "", ""},
    {"TrainingRun, condition FirstStepSeen", "Waiting", "the startup goes on", "", ""},
    {"TrainingRun, condition StageTimesKnown", "AllReported", "every stage of every worker is known", "", ""},
    {"TrainingRun, condition CheckpointsMounted", "Mounted", "all checkpoint volumes are served", "", ""},
    {"TrainingRun, condition Complete", "Succeeded", "all workers succeeded", "", ""},
    {"TrainingJob, condition ConfigurationValid", "Valid", "the spec can be carried out", "", ""},
    {"TrainingJob, condition Running", "AllWorkersRun", "all workers run", "", ""},
    {"TrainingJob, conditions Running and Restarting", "Starting", "not all workers run yet", "", ""},
    {"TrainingJob, condition Restarting", "Running", "the new start runs", "", ""},
    {"TrainingJob, condition Running", "EndingWorkers", "the workers of this start are being ended", "", ""},
    {"TrainingJob, conditions Running and Restarting", "Suspended, Complete, Failed", "the job is in that state", "",
     ""},
    {"TrainingJob, condition Suspended", "Suspended, EndingWorkers, NotSuspended",
     "the workers are gone, are being ended, or may run", "", ""},
    {"TrainingJob, condition Complete", "AllWorkersSucceeded", "all workers succeeded", "", ""},
    {"DependencySnapshot, condition Ready", "Recording", "a pod installs, and is to be recorded", "", ""},
    {"DependencySnapshot, condition Ready", "Recorded", "pods restore it from now on", "", ""},
    {"DependencySnapshot, condition Ready", "Expired", "its time is over; the next install is recorded anew", "", ""},
    {"StragglerPolicy, condition Ready", "Watching", "the policy looks at its nodes", "", ""},
    {"StragglerPolicy, condition Paused", "NoRequest", "nobody has asked for a pause", "", ""},
    {"StragglerPolicy, condition BreakerTripped", "WithinLimit, Reset",
     "few enough nodes were blamed at a time, or a person has reset it", "", ""},
};

template <size_t kCount>
const Advice& Find(const Advice (&rows)[kCount], std::string_view reason) {
  for (const Advice& row : rows) {
    if (row.reason == reason) return row;
  }
  return rows[kCount - 1];
}

}  // namespace

const Advice& PodHeldAdvice(std::string_view reason) { return Find(kPodHeld, reason); }
const Advice& FailureAdvice(std::string_view reason) { return Find(kFailureRows, reason); }
const Advice& RefusalAdvice(std::string_view reason) { return Find(kRefusalRows, reason); }

const Advice& ConversionAdvice(std::string_view reason) { return Find(kConversions, reason); }

std::string_view ConversionReason(StatusCode code) {
  switch (code) {
    case StatusCode::kPermissionDenied: return "ConversionDenied";
    case StatusCode::kNotFound: return "ImageNotFound";
    case StatusCode::kUnavailable:
    case StatusCode::kDeadlineExceeded: return "RegistryUnreachable";
    case StatusCode::kUnimplemented:
    case StatusCode::kInvalidArgument: return "ImageNotConvertible";
    case StatusCode::kDataLoss: return "ImageDamaged";
    case StatusCode::kResourceExhausted: return "StoreFull";
    default: return "ConversionFailed";
  }
}

std::vector<Advice> AllMessages() {
  std::vector<Advice> all(std::begin(kPodHeld), std::end(kPodHeld));
  all.insert(all.end(), std::begin(kFailureRows), std::end(kFailureRows));
  all.insert(all.end(), std::begin(kRefusalRows), std::end(kRefusalRows));
  all.insert(all.end(), {kInvalidAnnotation,
                         kDependenciesNotCacheable,
                         kDependenciesNotInstalled,
                         kSnapshotRecorded,
                         kSnapshotNotRecorded,
                         kSnapshotDamaged,
                         kSnapshotNotTrusted,
                         kSnapshotQuarantined,
                         kSnapshotRecorderGone,
                         kCheckpointMountLost,
                         kMountRestarted,
                         kMountLost,
                         kFirstStepNotVisible,
                         kNoMarker,
                         kSomeMarkers,
                         kNotReported,
                         kTrainingStalled,
                         kTrainingSlow,
                         kRestarting,
                         kRestartRequested,
                         kFailed,
                         kSuspended,
                         kComplete,
                         kSlowNode,
                         kStragglerTakenOut,
                         kRestartAdvised,
                         kStragglerPutBack,
                         kStragglerVetoed,
                         kProbeFailed,
                         kProbePassed,
                         kProbeUnknown,
                         kImageNotConverted,
                         kImagePulledWhole,
                         kConversionOff,
                         kImageNotAllowed,
                         kImageWithoutDigest,
                         kImageConverting,
                         kImageConverted,
                         kConversionQueued,
                         kConversionNotNeeded});
  all.insert(all.end(), std::begin(kConversions), std::end(kConversions));
  all.insert(all.end(), std::begin(kStragglers), std::end(kStragglers));
  all.insert(all.end(), std::begin(kQuiet), std::end(kQuiet));
  return all;
}

}  // namespace paceline::operator_
