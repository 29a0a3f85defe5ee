#include "lib/blocks/engine/cache_map.h"

#include <algorithm>
#include <tuple>

#include "lib/blocks/format/little_endian.h"

namespace paceline::blocks {
namespace {

constexpr std::string_view kMagic = "PCLCMAP\n";
constexpr uint32_t kVersion = 1;
constexpr int64_t kEpochSeconds = 1577836800;  // 2020-01-01T00:00:00Z
constexpr uint32_t kFirstUseTime = 2;

}  // namespace

uint32_t UseTime(WallTime now) {
  const int64_t seconds =
      std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count() - kEpochSeconds;
  return static_cast<uint32_t>(std::clamp<int64_t>(seconds, kFirstUseTime, UINT32_MAX));
}

CacheMap::CacheMap(uint32_t chunk_count)
    : size_(chunk_count), entries_(std::make_unique<std::atomic<uint32_t>[]>(chunk_count)) {}

bool CacheMap::BeginDrop(uint32_t chunk) {
  uint32_t now = Load(chunk);
  while (now > kBusy) {
    if (entries_[chunk].compare_exchange_weak(now, kBusy)) return true;
  }
  return false;
}

void CacheMap::Touch(uint32_t chunk, uint32_t use_time) {
  uint32_t now = Load(chunk);
  while (now > kBusy && now < use_time) {
    if (entries_[chunk].compare_exchange_weak(now, use_time)) return;
  }
}

std::string EncodeMapHeader(const Digest& index, uint32_t chunk_count) {
  std::string header(kMagic);
  AppendLe<uint32_t>(&header, kVersion);
  AppendLe<uint32_t>(&header, chunk_count);
  header += index.View();
  header.resize(kMapHeaderBytes - sizeof(uint32_t), '\0');
  AppendLe<uint32_t>(&header, Crc32c(header));
  return header;
}

std::string EncodeMapEntry(uint32_t use_time) {
  std::string entry;
  AppendLe<uint32_t>(&entry, use_time);
  return entry;
}

std::unique_ptr<CacheMap> DecodeMap(std::string_view bytes, const Digest& index, uint32_t chunk_count) {
  if (bytes.size() != kMapHeaderBytes + size_t{chunk_count} * kMapEntryBytes) return nullptr;
  if (bytes.substr(0, kMapHeaderBytes) != EncodeMapHeader(index, chunk_count)) return nullptr;
  auto map = std::make_unique<CacheMap>(chunk_count);
  for (uint32_t chunk = 0; chunk < chunk_count; ++chunk) {
    const auto entry = LoadLe<uint32_t>(bytes.data() + kMapHeaderBytes + size_t{chunk} * kMapEntryBytes);
    if (entry >= kFirstUseTime) map->FinishPresent(chunk, entry);
  }
  return map;
}

std::vector<EvictionCandidate> ChooseVictims(std::vector<EvictionCandidate> candidates, uint64_t bytes) {
  std::sort(candidates.begin(), candidates.end(), [](const EvictionCandidate& a, const EvictionCandidate& b) {
    return std::tie(a.is_in_use, a.last_use, a.layer, a.chunk) < std::tie(b.is_in_use, b.last_use, b.layer, b.chunk);
  });
  size_t count = 0;
  uint64_t freed = 0;
  while (count < candidates.size() && freed < bytes) freed += candidates[count++].bytes;
  candidates.resize(count);
  return candidates;
}

}  // namespace paceline::blocks
