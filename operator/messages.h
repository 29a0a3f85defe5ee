// What the operator says to people, in events and conditions: one row for each reason (docs/messages.md is written from
// these). The rows are constants; thread-safe.
#pragma once

#include <string_view>
#include <vector>

#include "lib/api/advice.h"
#include "lib/base/status.h"

namespace paceline::operator_ {

// Why a pod does not start, by Kubernetes' reason; a general row for reasons that are not known.
const api::Advice& PodHeldAdvice(std::string_view reason);
// Why a pod or a job failed, likewise.
const api::Advice& FailureAdvice(std::string_view reason);
// Why a TrainingJob cannot be carried out, likewise.
const api::Advice& RefusalAdvice(std::string_view reason);
// Why the conversion of an image failed, likewise; and the reason for what pacectl reports.
const api::Advice& ConversionAdvice(std::string_view reason);
std::string_view ConversionReason(StatusCode code);

inline constexpr api::Advice kInvalidAnnotation{
    "job, event; TrainingRun, condition ConfigurationValid (InvalidSettings)", "InvalidAnnotation",
    "an annotation of the job cannot be understood, or asks for what is not possible",
    "the job runs without what these ask for", "correct the annotation; the next start of the job takes it up"};
inline constexpr api::Advice kDependenciesNotCacheable{
    "job, event", "DependenciesNotCacheable", "no snapshot can be made or used of a job's dependencies",
    "every pod runs the install command", "remove what the message names, or leave it so"};
inline constexpr api::Advice kDependenciesNotInstalled{
    "job, event", "DependenciesNotInstalled", "the install command could not be put before a pod's program",
    "the program runs without its dependencies", "do what the message says, then create the job anew"};
inline constexpr api::Advice kSnapshotRecorded{"DependencySnapshot, event", "DependenciesRecorded",
                                               "what an install left was recorded", "", ""};
inline constexpr api::Advice kSnapshotNotRecorded{
    "DependencySnapshot, event and condition Ready", "NotRecorded", "no worker could record its install",
    "every pod installs until one can", "do what the message says; the next start tries again"};
inline constexpr std::string_view kSetAside =
    "it is put aside: pods install, and the next install is recorded in its place";
inline constexpr api::Advice kSnapshotDamaged{
    "DependencySnapshot, event and condition Ready", "Damaged", "the store does not hold what was recorded", kSetAside,
    "look at the store: `pacectl deps verify`; `pacectl deps lift` offers the snapshot again"};
inline constexpr api::Advice kSnapshotNotTrusted{
    "DependencySnapshot, event and condition Ready", "NotTrusted",
    "the snapshot is not signed by a key that its node trusts, or its signature is wrong", kSetAside,
    "see who may write to the store, and whether all nodes have the same keys: `pacectl deps verify --key`"};
inline constexpr api::Advice kSnapshotQuarantined{"DependencySnapshot, event and condition Ready", "Quarantined",
                                                  "the snapshot was put aside before", kSetAside,
                                                  "`pacectl deps show` says why; `pacectl deps lift` offers it again"};
inline constexpr api::Advice kSnapshotRecorderGone{"DependencySnapshot, event and condition Ready", "RecorderGone",
                                                   "whoever installed and recorded is gone, with its agent",
                                                   "nothing was stored, and pods install",
                                                   "nothing is to be done: the next start records it"};
inline constexpr api::Advice kCheckpointMountLost{
    "job, event", "CheckpointMountLost", "the process behind a checkpoint volume of a pod died",
    "the trainer saw I/O errors, and what it had not synced is lost",
    "see whether the trainer goes on; `kubectl logs` of the holder on that node says why the mount ended"};
inline constexpr api::Advice kMountRestarted{
    "TrainingRun, condition CheckpointsMounted", "MountRestarted",
    "the process behind a checkpoint volume died and was started again under the running container",
    "requests of that moment failed, and what was not synced is lost",
    "see whether the last checkpoint is whole; the holder's log on that node says why"};
inline constexpr api::Advice kMountLost{"TrainingRun, condition CheckpointsMounted", "MountLost",
                                        "a checkpoint volume of a pod is not served",
                                        "the pod can neither load nor save there",
                                        "look at the holder and at HDFS; the mount comes back under the running "
                                        "container when they do"};
inline constexpr api::Advice kFirstStepNotVisible{
    "TrainingRun, condition FirstStepSeen", "NotVisible", "nobody can see the first step of a pod",
    "the run has no startup time, so its stages after ContainerStart stay open",
    "let the webhook and an agent on every node be there when pods start: `pacectl doctor`"};
inline constexpr api::Advice kNoMarker{
    "TrainingRun, condition FirstStepSeen", "NoMarker", "no worker told its first step",
    "the run has no startup time, so its stages after ContainerStart stay open",
    "trace the job (paceline.dev/trace: \"true\"), or let the code write `first_step` to /run/paceline/stage"};
inline constexpr api::Advice kSomeMarkers{
    "TrainingRun, condition FirstStepSeen", "SomeWorkers", "some workers told their first step, others did not",
    "the startup counts as open until all have", "see whether the others hang: `pacectl run explain`"};
inline constexpr api::Advice kNotReported{
    "TrainingRun, condition StageTimesKnown", "NotReported", "nobody reported when a stage of a worker ended",
    "its time is shown in the stage after it", "nothing is wrong with the job; events of that pod expired or got lost"};
inline constexpr api::Advice kTrainingStalled{
    "job, event; Incident", "TrainingStalled", "a traced run stands still or lost a process; the cause is named",
    "all of the run's GPUs wait", "it goes by the cause: see Incidents below"};
inline constexpr api::Advice kTrainingSlow{
    "job, event; Incident", "TrainingSlow", "a traced run became slower than it was; the cause is named",
    "every step waits for the slowest rank", "it goes by the cause: see Incidents below"};
inline constexpr api::Advice kRestarting{
    "TrainingJob, event and condition Restarting", "Restarting", "a worker failed, so the whole gang starts again",
    "all workers start again from their last checkpoint", "if it happens again, read the failed worker's log first"};
inline constexpr api::Advice kRestartRequested{"TrainingJob, event and condition Restarting", "RestartRequested",
                                               "the annotation paceline.dev/restart asks for a new start",
                                               "all workers start again from their last checkpoint",
                                               "nothing is to be done; the message says who has asked, and why"};
inline constexpr api::Advice kFailed{"TrainingJob, event", "Failed", "the job failed for good",
                                     "nothing of it runs any more",
                                     "mend the cause, then create the job anew; its checkpoints are untouched"};
inline constexpr api::Advice kSuspended{"TrainingJob, event", "Suspended",
                                        "the job was suspended and its workers are gone", "",
                                        "set spec.suspend to false to start it again"};
inline constexpr api::Advice kComplete{"TrainingJob, event", "Complete", "all workers succeeded", "", ""};

// Of StragglerPolicies (docs/stragglers.md).
inline constexpr api::Advice kSlowNode{"job and Node, event; Incident", "SlowNode",
                                       "a StragglerPolicy blames a node for a slow job",
                                       "every step of the job waits for that node",
                                       "look at the node; the Incident has the numbers and what the policy does"};
inline constexpr api::Advice kStragglerTakenOut{"Node, event", "StragglerTakenOut",
                                                "a StragglerPolicy has tainted or cordoned a slow node",
                                                "no new pods come there; those that run stay",
                                                "mend the node; uncordon it, or take the taint away, to put it back"};
inline constexpr api::Advice kRestartAdvised{
    "job, event; Incident, condition RestartAdvised", "RestartAdvised",
    "the job still runs on a node that a StragglerPolicy has taken out, and Paceline cannot restart jobs of this kind",
    "every step goes on waiting for that node", "restart the job when it has saved a checkpoint"};
inline constexpr api::Advice kStragglerPutBack{"Node, event", "StragglerPutBack",
                                               "a StragglerPolicy has put a node back that it had out", "", ""};
inline constexpr api::Advice kStragglerVetoed{
    "Node, event", "StragglerVetoed", "a person has put a node back that a StragglerPolicy had out", "",
    "wait or set the annotation paceline.dev/straggler-exclude: the policy leaves it alone for its vetoPeriod"};
inline constexpr api::Advice kProbeFailed{
    "Node, event; Incident", "ProbeFailed",
    "the probe of a node that a StragglerPolicy has out is slower than those of like nodes", "the node stays out",
    "mend what the figures show; the next probe that passes can put it back"};
inline constexpr api::Advice kProbePassed{
    "Node, event; Incident", "ProbePassed",
    "the probe of a node that a StragglerPolicy has out is as fast as those of like nodes", "", ""};
inline constexpr api::Advice kProbeUnknown{
    "Node, event; Incident", "ProbeUnknown",
    "the probe of a node that a StragglerPolicy has out can be compared with nothing", "the node stays out",
    "see the message: more idle nodes of the kind are needed, or something could not be measured"};

// Of images on nodes with Paceline's snapshotter (docs/block-images.md).
inline constexpr api::Advice kImageNotConverted{
    "job, event", "ImageNotConverted", "an image has not been converted, so a node pulled it whole",
    "the start waited for all of it", "set spec.startup.image.convert to Auto, or run pacectl image convert"};
inline constexpr api::Advice kImagePulledWhole{
    "job, event", "ImagePulledWhole", "a node could not open an image lazily and pulled it whole",
    "the start waited for all of it", "mend what the message names; the snapshotter's log on that node tells more"};

// Of conversions (docs/block-images.md).
inline constexpr std::string_view kConversionPlaces = "job, event; ImageProfile, condition Converted";
inline constexpr api::Advice kImageConverting{kConversionPlaces, "Converting",
                                              "an image is being converted in the background", "", ""};
inline constexpr api::Advice kImageConverted{
    kConversionPlaces, "Converted",
    "the image has been converted: nodes with Paceline's snapshotter open it lazily from now on", "", ""};
inline constexpr api::Advice kConversionQueued{
    "ImageProfile, condition Converted", "Queued", "the image waits for other conversions to end",
    "until then it is pulled whole", "raise conversion.atOnce if the queue stays long"};
inline constexpr api::Advice kConversionNotNeeded{"ImageProfile, condition Converted", "NotNeeded",
                                                  "no job runs the image any more, so it is not converted", "", ""};
inline constexpr std::string_view kPulledWhole = "every node pulls the image whole";
inline constexpr api::Advice kConversionOff{
    "job, event", "ConversionOff", "a job asks for its images to be converted, and the operator does not convert",
    kPulledWhole, "set conversion.store of the chart, or set spec.startup.image.convert to Off"};
inline constexpr api::Advice kImageNotAllowed{"job, event", "ImageNotAllowed",
                                              "an image is in none of the repositories that may be converted",
                                              kPulledWhole, "add its repository to conversion.images of the chart"};
inline constexpr api::Advice kImageWithoutDigest{
    "job, event", "ImageWithoutDigest", "an image was put on its node without a registry, so nobody can fetch it",
    "it is not converted", "push it to a registry and let the job pull it from there"};

// Every row, in the order of docs/messages.md.
std::vector<api::Advice> AllMessages();

}  // namespace paceline::operator_
