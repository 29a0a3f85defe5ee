// Which training jobs Paceline understands, as data: for each kind how to find its pods, the rank of a pod, the size of
// the gang and the number of the start. The operator walks owners and lists pods; these pure functions turn what it
// found into an identity. A new kind is a new row in job_kinds_table.cc and a row in the tests.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/api/meta.h"
#include "lib/base/result.h"

namespace paceline::api {

using Json = nlohmann::json;

// Where a value is found; `key` is a label, an annotation, a literal environment variable of any container, or a JSON
// pointer into the job object.
enum class ValueFrom { kLabel, kAnnotation, kEnv, kJobField };

struct ValueSource {
  ValueFrom from = ValueFrom::kLabel;
  std::string_view key;
};

// A number of the job object: the first of the pointers that is there, else `fallback`, else unknown.
struct Factor {
  std::vector<std::string_view> pointers;
  std::optional<int64_t> fallback;
};

// The pods of a job come in groups (replicatedJobs, tasks, Master and Worker), in rank order.
enum class GroupShape { kSingle, kMap, kList };

struct PodGroups {
  GroupShape shape = GroupShape::kSingle;
  std::string_view pointer;             // to the map or list; unused with kSingle
  std::vector<std::string_view> names;  // kMap: keys in rank order. kList: the only groups that count; empty: all
  std::string_view name_pointer;        // kList: within an item
  std::string_view label;               // pod label that names the group; compared without case
  std::vector<Factor> pods;             // product = pods of one group; pointers are within the item (kSingle: the job)
  std::string_view extra_pod_if;        // JSON pointer to a boolean of the job that adds one pod, before all others
};

// A pod belongs to the gang unless the label (or its absence) says otherwise.
struct PodFilter {
  std::string_view label;
  std::vector<std::string_view> excluded;  // values of pods that carry no rank: launcher, head, initializers
  bool is_required = false;                // pods without the label carry no rank either
  std::string_view include_all_if;         // JSON pointer to a boolean of the job that switches the filter off
};

struct JobKind {
  std::string_view group;
  std::vector<std::string_view> versions;  // served versions that we can read, preferred first
  std::string_view kind;
  std::string_view plural;
  // Label selector that finds all pods: label = value at the pointer in the job.
  std::string_view pod_label;
  std::string_view pod_label_value;
  // Pod labels that name the object of this kind without walking the owners up to it; the walk goes on from there (a
  // JobSet may belong to a TrainJob). Empty where there are none, or where the same labels mean something else.
  std::string_view name_label;
  std::string_view uid_label;
  PodGroups groups;
  PodFilter filter;
  std::vector<ValueSource> rank;   // complete rank, first that is there wins
  std::vector<ValueSource> index;  // else: index within the group, from which the rank is computed
  ValueSource block;               // index is within a block, number of the block (JobSet's job-index); key empty: none
  Factor block_size;               // pointers are within the group's item
  std::vector<ValueSource> generation;
  ValueSource gang;  // key empty: the job is one gang
  Factor procs_per_pod;
  std::string_view suspend_pointer;  // boolean; empty: none
};

// All kinds, TrainingJob first. Never changes; valid for the life of the process.
const std::vector<JobKind>& JobKinds();

// By apiVersion (any version of the group) and kind; null when unknown. batch.volcano.sh Job is not batch Job.
const JobKind* FindJobKind(std::string_view api_version, std::string_view kind);

// True for kinds that stand between a pod and its job: a walk up the owners goes on through them, and stops elsewhere.
bool IsIntermediateOwner(std::string_view api_version, std::string_view kind);
inline constexpr int kMaxOwnerDepth = 6;

// The one owner with controller=true, or null.
const OwnerReference* ControllerOf(const std::vector<OwnerReference>& owners);

// What the functions below need of a pod.
struct PodView {
  std::string ns;
  std::string name;
  std::string uid;
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  std::map<std::string, std::string> env;  // literal values of all containers, first one wins
  std::vector<OwnerReference> owners;
};

// Reads what is there and skips what is malformed: pods come from admission requests too.
PodView MakePodView(const Json& pod);

struct JobIdentity {
  const JobKind* kind = nullptr;
  std::string api_version;
  std::string ns;
  std::string name;
  std::string uid;
  int64_t generation = 0;             // which start of the job, as the kind counts them; 0 for kinds that do not count
  std::string gang;                   // of several in one job; usually empty
  bool carries_rank = true;           // false for launchers, heads, initializers
  std::optional<int64_t> rank;        // place of the pod in its gang
  std::optional<int64_t> workers;     // pods with a rank in the gang
  std::optional<int64_t> world_size;  // processes: workers * processes per pod
};

// Who `pod` is within `job`, the top object of its owner chain. kInvalidArgument when `job` is of no known kind or has
// no name. Numbers that the objects do not say are absent, never guessed.
Result<JobIdentity> IdentifyPod(const PodView& pod, const Json& job);

// The same for the job alone: no rank, and generation 0 unless the job itself counts.
Result<JobIdentity> IdentifyJob(const Json& job);

// "label=value" that selects the pods of the job; kNotFound while the job does not say it yet (RayJob without a
// cluster).
Result<std::string> PodSelector(const Json& job);

}  // namespace paceline::api
