#include "snapshotter/hot_set.h"

#include <map>
#include <nlohmann/json.hpp>

#include "lib/base/json.h"

namespace paceline::snapshotter {
namespace {

constexpr size_t kMaxAccesses = 4U << 20;
constexpr size_t kMaxLayers = 4096;

int64_t Milliseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

Result<blocks::Access> ReadAccess(const Json& json, size_t layers) {
  const bool is_triple = json.is_array() && json.size() == 3 && json[0].is_number_unsigned() &&
                         json[1].is_number_unsigned() && json[2].is_number_unsigned();
  if (!is_triple) return InvalidArgumentError("hot set: an access is [layer, chunk, milliseconds]");
  const auto layer = json[0].get<uint64_t>(), chunk = json[1].get<uint64_t>(), after_ms = json[2].get<uint64_t>();
  if (layer >= layers || chunk > UINT32_MAX || after_ms > UINT32_MAX) {
    return InvalidArgumentError("hot set: an access of a chunk that cannot be");
  }
  return blocks::Access{static_cast<uint32_t>(layer), static_cast<uint32_t>(chunk),
                        std::chrono::milliseconds(after_ms)};
}

}  // namespace

std::string EncodeHotSet(const HotSet& set) {
  Json layers = Json::array(), accesses = Json::array();
  for (const blocks::Digest& layer : set.layers) layers.push_back(layer.ToString());
  for (const blocks::Access& access : set.accesses) {
    accesses.push_back({access.layer, access.chunk, Milliseconds(access.after)});
  }
  return DumpJson({{"version", 1}, {"layers", std::move(layers)}, {"accesses", std::move(accesses)}});
}

Result<HotSet> ParseHotSet(std::string_view json) {
  ASSIGN_OR_RETURN(const Json document, ParseJson(json));
  ASSIGN_OR_RETURN(const int64_t version, JsonInt(document, "version"));
  if (version != 1) return InvalidArgumentError("hot set: unknown version");
  ASSIGN_OR_RETURN(const std::vector<std::string> layers, JsonStrings(document, "layers"));
  const Json* accesses = FindJson(document, "accesses");
  if (accesses == nullptr || !accesses->is_array()) return InvalidArgumentError("hot set: accesses must be a list");
  if (layers.size() > kMaxLayers || accesses->size() > kMaxAccesses) return InvalidArgumentError("hot set: too large");
  HotSet set;
  for (const std::string& layer : layers) {
    ASSIGN_OR_RETURN(set.layers.emplace_back(), blocks::ParseDigest(layer));
  }
  for (const Json& entry : *accesses) {
    ASSIGN_OR_RETURN(set.accesses.emplace_back(), ReadAccess(entry, layers.size()));
  }
  return set;
}

std::vector<blocks::ChunkId> ChunksFor(const HotSet& set, const std::vector<blocks::Digest>& layers) {
  std::map<blocks::Digest, uint32_t> numbers;
  for (uint32_t number = 0; number < layers.size(); ++number) numbers.emplace(layers[number], number);
  std::vector<blocks::ChunkId> chunks;
  for (const blocks::Access& access : set.accesses) {
    const auto found = numbers.find(set.layers[access.layer]);
    if (found != numbers.end()) chunks.push_back({found->second, access.chunk});
  }
  return chunks;
}

}  // namespace paceline::snapshotter
