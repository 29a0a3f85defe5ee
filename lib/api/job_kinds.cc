#include "lib/api/job_kinds.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace paceline::api {

namespace {

// The value at a JSON pointer made of object keys, or null. Pointers come from the table and hold no escapes.
const Json* FieldAt(const Json& object, std::string_view pointer) {
  const Json* at = &object;
  while (!pointer.empty()) {
    const size_t end = std::min(pointer.find('/', 1), pointer.size());
    if (!at->is_object()) return nullptr;
    const auto found = at->find(pointer.substr(1, end - 1));
    if (found == at->end() || found->is_null()) return nullptr;
    at = &*found;
    pointer.remove_prefix(end);
  }
  return at;
}

std::string TextAt(const Json& object, std::string_view pointer) {
  const Json* value = FieldAt(object, pointer);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

bool IsTrueAt(const Json& object, std::string_view pointer) {
  if (pointer.empty()) return false;
  const Json* value = FieldAt(object, pointer);
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

// Numbers of jobs and pods are counts; what does not fit 31 bits is not one.
std::optional<int64_t> CountOfText(std::string_view text) {
  if (text.empty() || text.size() > 9) return std::nullopt;
  int64_t value = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

std::optional<int64_t> CountOf(const Json& value) {
  if (value.is_string()) return CountOfText(value.get_ref<const std::string&>());
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<uint64_t>() > 0x7fffffff) return std::nullopt;
  const int64_t number = value.get<int64_t>();
  return number < 0 || number > 0x7fffffff ? std::nullopt : std::optional<int64_t>(number);
}

std::optional<int64_t> Number(const Factor& factor, const Json& object) {
  for (std::string_view pointer : factor.pointers) {
    const Json* value = FieldAt(object, pointer);
    const std::optional<int64_t> number = value == nullptr ? std::nullopt : CountOf(*value);
    if (number) return number;
  }
  return factor.fallback;
}

// Counts multiply and add without overflow or not at all.
std::optional<int64_t> Product(std::optional<int64_t> a, std::optional<int64_t> b) {
  int64_t product = 0;
  if (!a || !b || __builtin_mul_overflow(*a, *b, &product)) return std::nullopt;
  return product;
}

std::optional<int64_t> Sum(std::optional<int64_t> a, std::optional<int64_t> b) {
  int64_t sum = 0;
  if (!a || !b || __builtin_add_overflow(*a, *b, &sum)) return std::nullopt;
  return sum;
}

std::optional<std::string> Find(const std::map<std::string, std::string>& map, std::string_view key) {
  const auto found = map.find(std::string(key));
  return found == map.end() ? std::nullopt : std::optional<std::string>(found->second);
}

// `pod` may be null: then only the job's own fields are looked at.
std::optional<std::string> Value(const ValueSource& source, const PodView* pod, const Json& job) {
  if (source.from == ValueFrom::kJobField) {
    const Json* value = FieldAt(job, source.key);
    if (value == nullptr) return std::nullopt;
    return value->is_string() ? value->get<std::string>() : value->dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  if (pod == nullptr || source.key.empty()) return std::nullopt;
  switch (source.from) {
    case ValueFrom::kLabel: return Find(pod->labels, source.key);
    case ValueFrom::kAnnotation: return Find(pod->annotations, source.key);
    case ValueFrom::kEnv: return Find(pod->env, source.key);
    case ValueFrom::kJobField: break;
  }
  return std::nullopt;
}

std::optional<int64_t> FirstNumber(const std::vector<ValueSource>& sources, const PodView* pod, const Json& job) {
  for (const ValueSource& source : sources) {
    const std::optional<std::string> value = Value(source, pod, job);
    const std::optional<int64_t> number = value ? CountOfText(*value) : std::nullopt;
    if (number) return number;
  }
  return std::nullopt;
}

bool EqualWithoutCase(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

// One group of the job's pods as the job says it.
struct Group {
  std::string name;
  const Json* item = nullptr;
  std::optional<int64_t> pods;
};

std::optional<int64_t> GroupPods(const PodGroups& groups, const Json& item) {
  std::optional<int64_t> pods = 1;
  for (const Factor& factor : groups.pods) pods = Product(pods, Number(factor, item));
  return pods;
}

std::vector<Group> ListGroups(const PodGroups& groups, const Json& job) {
  std::vector<Group> found;
  if (groups.shape == GroupShape::kSingle) return {{std::string(), &job, GroupPods(groups, job)}};
  const Json* all = FieldAt(job, groups.pointer);
  if (all == nullptr) return found;
  if (groups.shape == GroupShape::kMap) {
    for (std::string_view name : groups.names) {
      if (!all->is_object()) break;
      const auto item = all->find(name);
      if (item != all->end() && item->is_object())
        found.push_back({std::string(name), &*item, GroupPods(groups, *item)});
    }
    return found;
  }
  if (!all->is_array()) return found;
  for (const Json& item : *all) {
    if (item.is_object()) found.push_back({TextAt(item, groups.name_pointer), &item, GroupPods(groups, item)});
  }
  return found;
}

std::optional<int64_t> CountPods(const JobKind& kind, const std::vector<Group>& groups, const Json& job) {
  if (groups.empty()) return std::nullopt;
  std::optional<int64_t> total = IsTrueAt(job, kind.groups.extra_pod_if) ? 1 : 0;
  for (const Group& group : groups) total = Sum(total, group.pods);
  return total;
}

bool CarriesRank(const PodFilter& filter, const PodView& pod, const Json& job) {
  if (filter.label.empty() || IsTrueAt(job, filter.include_all_if)) return true;
  const std::optional<std::string> value = Find(pod.labels, filter.label);
  if (!value) return !filter.is_required;
  return std::none_of(filter.excluded.begin(), filter.excluded.end(),
                      [&](std::string_view excluded) { return EqualWithoutCase(*value, excluded); });
}

// The rank from the index within the pod's group: what the groups before it hold, whole blocks, and the index.
std::optional<int64_t> RankFromIndex(const JobKind& kind, const std::vector<Group>& groups, const PodView& pod,
                                     const Json& job) {
  std::optional<int64_t> rank = FirstNumber(kind.index, &pod, job);
  if (!rank) return std::nullopt;
  const std::optional<std::string> name = Find(pod.labels, kind.groups.label);
  std::optional<int64_t> before = 0;
  for (const Group& group : groups) {
    if (kind.groups.shape != GroupShape::kSingle && (!name || !EqualWithoutCase(*name, group.name))) {
      before = Sum(before, group.pods);
      continue;
    }
    if (!kind.block.key.empty()) {
      const std::optional<int64_t> block = FirstNumber({kind.block}, &pod, job);
      rank = Sum(rank, Product(block, Number(kind.block_size, *group.item)));
    }
    return Sum(before, rank);
  }
  return std::nullopt;  // the pod's group is not in the job
}

Result<JobIdentity> Identify(const PodView* pod, const Json& job) {
  JobIdentity identity;
  identity.api_version = TextAt(job, "/apiVersion");
  identity.kind = FindJobKind(identity.api_version, TextAt(job, "/kind"));
  if (identity.kind == nullptr) {
    return InvalidArgumentError(identity.api_version + " " + TextAt(job, "/kind") + " is no training job that we know");
  }
  identity.name = TextAt(job, "/metadata/name");
  identity.ns = TextAt(job, "/metadata/namespace");
  identity.uid = TextAt(job, "/metadata/uid");
  if (identity.name.empty()) return InvalidArgumentError("the job has no metadata.name");
  const JobKind& kind = *identity.kind;
  const std::vector<Group> groups = ListGroups(kind.groups, job);
  identity.workers = CountPods(kind, groups, job);
  identity.world_size = Product(identity.workers, Number(kind.procs_per_pod, job));
  identity.generation = FirstNumber(kind.generation, pod, job).value_or(0);
  if (pod == nullptr) return identity;
  if (identity.ns.empty()) identity.ns = pod->ns;
  identity.gang = Value(kind.gang, pod, job).value_or("");
  identity.carries_rank = CarriesRank(kind.filter, *pod, job);
  if (!identity.carries_rank) return identity;
  identity.rank = FirstNumber(kind.rank, pod, job);
  if (!identity.rank) identity.rank = RankFromIndex(kind, groups, *pod, job);
  return identity;
}

std::string_view GroupOf(std::string_view api_version) {
  const size_t slash = api_version.find('/');
  return slash == std::string_view::npos ? std::string_view() : api_version.substr(0, slash);
}

std::map<std::string, std::string> TextMapAt(const Json& object, std::string_view pointer) {
  std::map<std::string, std::string> map;
  const Json* found = FieldAt(object, pointer);
  if (found == nullptr || !found->is_object()) return map;
  for (auto it = found->begin(); it != found->end(); ++it) {
    if (it.value().is_string()) map[it.key()] = it.value().get<std::string>();
  }
  return map;
}

const Json& ArrayAt(const Json& object, std::string_view pointer) {
  static const Json empty = Json::array();
  const Json* found = FieldAt(object, pointer);
  return found != nullptr && found->is_array() ? *found : empty;
}

}  // namespace

const JobKind* FindJobKind(std::string_view api_version, std::string_view kind) {
  for (const JobKind& known : JobKinds()) {
    if (known.kind == kind && known.group == GroupOf(api_version)) return &known;
  }
  return nullptr;
}

bool IsIntermediateOwner(std::string_view api_version, std::string_view kind) {
  struct GroupKind {
    std::string_view group;
    std::string_view kind;
  };
  constexpr GroupKind kIntermediate[] = {
      {"batch", "Job"}, {"jobset.x-k8s.io", "JobSet"}, {"ray.io", "RayCluster"}, {"apps", "StatefulSet"}, {"", "Pod"}};
  return std::any_of(std::begin(kIntermediate), std::end(kIntermediate),
                     [&](const GroupKind& g) { return g.group == GroupOf(api_version) && g.kind == kind; });
}

const OwnerReference* ControllerOf(const std::vector<OwnerReference>& owners) {
  const auto found = std::find_if(owners.begin(), owners.end(), [](const OwnerReference& o) { return o.controller; });
  return found == owners.end() ? nullptr : &*found;
}

PodView MakePodView(const Json& pod) {
  PodView view;
  view.ns = TextAt(pod, "/metadata/namespace");
  view.name = TextAt(pod, "/metadata/name");
  view.uid = TextAt(pod, "/metadata/uid");
  view.labels = TextMapAt(pod, "/metadata/labels");
  view.annotations = TextMapAt(pod, "/metadata/annotations");
  for (const Json& container : ArrayAt(pod, "/spec/containers")) {
    for (const Json& variable : ArrayAt(container, "/env")) {
      const Json* value = FieldAt(variable, "/value");
      const std::string name = TextAt(variable, "/name");
      if (!name.empty() && value != nullptr && value->is_string()) view.env.emplace(name, value->get<std::string>());
    }
  }
  for (const Json& owner : ArrayAt(pod, "/metadata/ownerReferences")) {
    view.owners.push_back({.api_version = TextAt(owner, "/apiVersion"),
                           .kind = TextAt(owner, "/kind"),
                           .name = TextAt(owner, "/name"),
                           .uid = TextAt(owner, "/uid"),
                           .controller = IsTrueAt(owner, "/controller"),
                           .block_owner_deletion = IsTrueAt(owner, "/blockOwnerDeletion")});
  }
  return view;
}

Result<JobIdentity> IdentifyPod(const PodView& pod, const Json& job) { return Identify(&pod, job); }

Result<JobIdentity> IdentifyJob(const Json& job) { return Identify(nullptr, job); }

Result<std::string> PodSelector(const Json& job) {
  const JobKind* kind = FindJobKind(TextAt(job, "/apiVersion"), TextAt(job, "/kind"));
  if (kind == nullptr) return InvalidArgumentError("the object is no training job that we know");
  const std::string value = TextAt(job, kind->pod_label_value);
  if (value.empty()) return NotFoundError("the job does not say " + std::string(kind->pod_label_value) + " yet");
  return std::string(kind->pod_label) + "=" + value;
}

}  // namespace paceline::api
