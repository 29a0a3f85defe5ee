// What the operator says to people, in events and conditions: one row for each reason (docs/messages.md is written from
// these). The rows are constants; thread-safe.
#pragma once

#include <string_view>
#include <vector>

#include "lib/api/advice.h"

namespace paceline::operator_ {

// Why a pod does not start, by Kubernetes' reason; a general row for reasons that are not known.
const api::Advice& PodHeldAdvice(std::string_view reason);
// Why a pod or a job failed, likewise.
const api::Advice& FailureAdvice(std::string_view reason);
// Why a TrainingJob cannot be carried out, likewise.
const api::Advice& RefusalAdvice(std::string_view reason);

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
    "all of the run's GPUs wait",
    "do what the Incident says of the cause; restart the job away from a node that is bad"};
inline constexpr api::Advice kTrainingSlow{
    "job, event; Incident", "TrainingSlow", "a traced run became slower than it was; the cause is named",
    "every step waits for the slowest rank", "do what the Incident says of the cause; `pacectl run explain` shows it"};
inline constexpr api::Advice kRestarting{
    "TrainingJob, event and condition Restarting", "Restarting", "a worker failed, so the whole gang starts again",
    "all workers start again from their last checkpoint", "if it happens again, read the failed worker's log first"};
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
inline constexpr api::Advice kStragglerPutBack{"Node, event", "StragglerPutBack",
                                               "a StragglerPolicy has put a node back that it had out", "", ""};
inline constexpr api::Advice kStragglerVetoed{
    "Node, event", "StragglerVetoed", "a person has put a node back that a StragglerPolicy had out", "",
    "wait or set the annotation paceline.dev/straggler-exclude: the policy leaves it alone for its vetoPeriod"};

// Every row, in the order of docs/messages.md.
std::vector<api::Advice> AllMessages();

}  // namespace paceline::operator_
