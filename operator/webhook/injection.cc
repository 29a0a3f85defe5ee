#include "operator/webhook/injection.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "lib/api/names.h"
#include "operator/checkpoint_volumes.h"

namespace paceline::operator_ {
namespace {

using Json = nlohmann::json;

// A key as one step of a JSON pointer.
std::string Escape(std::string_view key) {
  std::string out;
  for (const char c : key) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

void Add(Json& patch, const std::string& path, Json value) {
  patch.push_back({{"op", "add"}, {"path", path}, {"value", std::move(value)}});
}

const Json* Field(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

// Adds what is missing to the map at `path`, whose present value is `map` (null: not there).
void AddToMap(Json& patch, const std::string& path, const Json* map, const Json& additions) {
  if (map != nullptr && !map->is_object()) return;
  if (map == nullptr) {
    Add(patch, path, additions);
    return;
  }
  for (const auto& [key, value] : additions.items()) {
    if (!map->contains(key)) Add(patch, path + "/" + Escape(key), value);
  }
}

bool HasEntry(const Json& list, const char* key, std::string_view value) {
  return std::any_of(list.begin(), list.end(), [&](const Json& entry) {
    const Json* field = Field(entry, key);
    return field != nullptr && field->is_string() && field->get_ref<const std::string&>() == value;
  });
}

// Appends to the list at `path` the entries whose `key` is not in it yet.
void AddToList(Json& patch, const std::string& path, const Json* list, const char* key,
               const std::vector<Json>& additions) {
  if (list != nullptr && !list->is_array()) return;
  std::vector<Json> missing;
  for (const Json& addition : additions) {
    if (list == nullptr || !HasEntry(*list, key, addition[key].get_ref<const std::string&>()))
      missing.push_back(addition);
  }
  if (missing.empty()) return;
  if (list == nullptr) {
    Add(patch, path, Json(missing));
    return;
  }
  for (Json& entry : missing) Add(patch, path + "/-", std::move(entry));
}

// What a container gets, and the pod for it.
struct Additions {
  std::vector<Json> env, mounts, volumes;
  std::string mark = "identity";  // says what was decided, for later calls and for the operator

  void AddVolume(std::string_view name, std::string_view mount_path, Json attributes) {
    mounts.push_back({{"name", name}, {"mountPath", mount_path}});
    volumes.push_back(
        {{"name", name}, {"csi", {{"driver", api::kCsiDriver}, {"volumeAttributes", std::move(attributes)}}}});
  }
};

void AddStageVolume(Additions& additions) {
  additions.mark += ",stage";
  additions.env.push_back(EnvValue("PACELINE_STAGE_FILE", std::string(kStageMountPath) + "/stage"));
  // In memory: a line now and then, gone with the pod, and never in the way of the disk.
  additions.AddVolume(kStageVolumeName, kStageMountPath, {{"type", "scratch"}, {"medium", "Memory"}, {"size", "1Mi"}});
}

void AddTraceVolume(Additions& additions) {
  additions.mark += ",trace";
  const std::string folder(api::kTraceMountPath);
  additions.env.push_back(EnvValue("PACELINE_TRACE_DIR", folder));
  // A container that has a plugin of its own keeps it.
  additions.env.push_back(EnvValue("NCCL_PROFILER_PLUGIN", folder + "/" + std::string(api::kTracePluginName)));
  additions.AddVolume(kTraceVolumeName, folder, {{"type", "trace"}});
}

// The first container is the one that trains; others are beside it.
void PatchInstall(Json& patch, const Json& spec, const InjectedInstall& install) {
  const Json* containers = Field(spec, "containers");
  if (containers == nullptr || !containers->is_array() || containers->empty() || !(*containers)[0].is_object()) return;
  Add(patch, "/spec/containers/0/command", install.command);
  Add(patch, "/spec/containers/0/args", install.args);
}

void PatchContainers(Json& patch, const Json& spec, const char* list_name, const std::vector<Json>& env,
                     const std::vector<Json>& mounts, const std::vector<Json>& mounts_of_first = {}) {
  const Json* containers = Field(spec, list_name);
  if (containers == nullptr || !containers->is_array()) return;
  for (size_t i = 0; i < containers->size(); ++i) {
    const Json& container = (*containers)[i];
    if (!container.is_object()) continue;
    const std::string path = std::string("/spec/") + list_name + "/" + std::to_string(i);
    AddToList(patch, path + "/env", Field(container, "env"), "name", env);
    std::vector<Json> all = mounts;
    if (i == 0) all.insert(all.end(), mounts_of_first.begin(), mounts_of_first.end());
    AddToList(patch, path + "/volumeMounts", Field(container, "volumeMounts"), "mountPath", all);
  }
}

// Devices of one container: whole GPUs of any vendor, and MIG slices, each counted as one.
int64_t GpusOfContainer(const Json& container) {
  const Json* resources = Field(container, "resources");
  // Extended resources may not be overcommitted, so limits say it all; requests alone are completed by the API server.
  const Json* amounts = resources == nullptr ? nullptr : Field(*resources, "limits");
  if (amounts == nullptr || !amounts->is_object()) return 0;
  int64_t gpus = 0;
  for (const auto& [name, amount] : amounts->items()) {
    const std::string_view key = name;
    const bool is_gpu = key.size() > 4 && key.substr(key.size() - 4) == "/gpu";
    if (!is_gpu && key.rfind("nvidia.com/mig-", 0) != 0) continue;
    if (amount.is_number_integer()) gpus += amount.get<int64_t>();
    if (!amount.is_string()) continue;
    const auto& text = amount.get_ref<const std::string&>();
    int64_t value = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), value).ptr == text.data() + text.size()) gpus += value;
  }
  return gpus;
}

int64_t GpusOfPod(const Json& spec) {
  const Json* containers = Field(spec, "containers");
  int64_t gpus = 0;
  if (containers == nullptr || !containers->is_array()) return 0;
  for (const Json& container : *containers) gpus += GpusOfContainer(container);
  return gpus;
}

}  // namespace

bool HasInstall(const Json& pod) {
  const Json* meta = Field(pod, "metadata");
  const Json* annotations = meta == nullptr ? nullptr : Field(*meta, "annotations");
  const Json* mark =
      annotations == nullptr ? nullptr : Field(*annotations, std::string(api::kInjectedAnnotation).c_str());
  return mark != nullptr && mark->is_string() &&
         mark->get_ref<const std::string&>().find("install") != std::string::npos;
}

Json InjectionPatch(const Json& pod, const RunIdentity& identity, InjectedVolumes volumes) {
  Json patch = Json::array();
  const Json* meta = Field(pod, "metadata");
  const Json* spec = Field(pod, "spec");
  if (meta == nullptr || !meta->is_object() || spec == nullptr || !spec->is_object()) return patch;

  // A second call (reinvocation) keeps to what the first one decided: its annotation tells the operator what is there.
  if (const Json* annotations = Field(*meta, "annotations"); annotations != nullptr && annotations->is_object()) {
    if (const auto mark = annotations->find(std::string(api::kInjectedAnnotation));
        mark != annotations->end() && mark->is_string()) {
      const auto& decided = mark->get_ref<const std::string&>();
      volumes.stage = decided.find("stage") != std::string::npos;
      volumes.trace = decided.find("trace") != std::string::npos;
    }
  }
  Additions additions;
  additions.env = IdentityEnv(identity);
  Additions first;  // of init containers: they train nothing
  first.env = additions.env;
  first.mounts = CheckpointMounts(volumes.checkpoints);
  if (volumes.stage) AddStageVolume(additions);
  if (volumes.trace) AddTraceVolume(additions);
  additions.mounts.insert(additions.mounts.end(), first.mounts.begin(), first.mounts.end());
  for (Json& volume : CheckpointVolumes(volumes.checkpoints)) additions.volumes.push_back(std::move(volume));

  const InjectedInstall* install = volumes.install && !HasInstall(pod) ? &*volumes.install : nullptr;
  if (install != nullptr) {
    additions.mark += ",install";
    if (!install->attributes.empty()) additions.volumes.push_back(VolumeOf(*install));
    PatchInstall(patch, *spec, *install);
  }

  AddToMap(patch, "/metadata/labels", Field(*meta, "labels"), IdentityLabels(identity));
  AddToMap(patch, "/metadata/annotations", Field(*meta, "annotations"),
           {{api::kInjectedAnnotation, additions.mark}, {kGpusAnnotation, std::to_string(GpusOfPod(*spec))}});
  PatchContainers(patch, *spec, "initContainers", first.env, first.mounts);
  PatchContainers(patch, *spec, "containers", additions.env, additions.mounts,
                  install == nullptr ? std::vector<Json>() : MountsOf(*install));
  AddToList(patch, "/spec/volumes", Field(*spec, "volumes"), "name", additions.volumes);
  return patch;
}

}  // namespace paceline::operator_
