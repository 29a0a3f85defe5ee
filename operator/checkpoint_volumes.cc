#include "operator/checkpoint_volumes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <string>

#include "lib/api/names.h"

namespace paceline::operator_ {
namespace {

using Json = nlohmann::json;

std::string VolumeName(const api::Checkpoint& checkpoint) { return "paceline-checkpoint-" + checkpoint.name; }

}  // namespace

std::vector<Json> CheckpointVolumes(const std::vector<api::Checkpoint>& checkpoints) {
  std::vector<Json> volumes;
  for (const api::Checkpoint& checkpoint : checkpoints) {
    Json attributes = {{"type", "hdfs"}, {"uri", checkpoint.uri}};
    attributes["layout"] = checkpoint.layout == api::CheckpointLayout::kStriped ? "striped" : "plain";
    if (!checkpoint.memory_limit.empty()) attributes["memoryLimit"] = checkpoint.memory_limit;
    if (checkpoint.create_directory) attributes["createDirectory"] = "true";
    if (!checkpoint.prefetch.empty()) attributes["prefetch"] = fmt::format("{}", fmt::join(checkpoint.prefetch, ","));
    Json csi = {{"driver", api::kCsiDriver}, {"volumeAttributes", std::move(attributes)}};
    if (checkpoint.read_only) csi["readOnly"] = true;
    if (checkpoint.secret_ref) csi["nodePublishSecretRef"] = {{"name", checkpoint.secret_ref->name}};
    volumes.push_back({{"name", VolumeName(checkpoint)}, {"csi", std::move(csi)}});
  }
  return volumes;
}

std::vector<Json> CheckpointMounts(const std::vector<api::Checkpoint>& checkpoints) {
  std::vector<Json> mounts;
  for (const api::Checkpoint& checkpoint : checkpoints) {
    Json mount = {{"name", VolumeName(checkpoint)},
                  {"mountPath", checkpoint.mount_path},
                  {"mountPropagation", "HostToContainer"}};
    if (checkpoint.read_only) mount["readOnly"] = true;
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

}  // namespace paceline::operator_
