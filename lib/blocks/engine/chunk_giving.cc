// What the engine gives to other nodes.
#include <fmt/format.h>

#include "lib/blocks/engine/chunk_engine.h"

namespace paceline::blocks {
std::shared_ptr<LayerCache> ChunkEngine::FindLayer(const Digest& index_digest, std::optional<uint32_t>* number) {
  {
    MutexLock lock(mutex_);
    if (const auto found = numbers_.find(index_digest); found != numbers_.end()) {
      *number = found->second;
      return layers_.at(found->second).cache;
    }
  }
  return cache_.FindLayer(index_digest);
}

ChunkEngine::Content ChunkEngine::Held(LayerCache& cache, std::optional<uint32_t> number, uint32_t chunk) {
  if (number) {
    if (Content content = memory_.Find({*number, chunk})) return content;
  }
  Result<std::string> loaded = cache_.Load(cache, chunk);
  // Not put into memory: what this node reads itself has its place there.
  return loaded.ok() ? std::make_shared<const std::string>(*std::move(loaded)) : nullptr;
}

Result<ChunkEngine::Given> ChunkEngine::Give(const Digest& index_digest, const std::vector<uint32_t>& chunks,
                                             const GiveTerms& terms) {
  std::optional<uint32_t> number;
  const std::shared_ptr<LayerCache> cache = FindLayer(index_digest, &number);
  if (cache == nullptr) return NotFoundError("the layer is not on this node");
  uint64_t bytes = 0;
  for (const uint32_t chunk : chunks) {
    if (chunk >= cache->index().chunk_count()) return InvalidArgumentError(fmt::format("no chunk {}", chunk));
    bytes += cache->index().chunk(chunk).content_bytes();
  }
  if (chunks.size() > 1 && bytes > terms.max_bytes) return InvalidArgumentError("more than is given at once");
  Given given;
  bool is_complete = true;
  for (const uint32_t chunk : chunks) {
    given.contents.push_back(Held(*cache, number, chunk));
    is_complete = is_complete && given.contents.back() != nullptr;
  }
  if (is_complete || !terms.may_fetch || !number) return given;
  const TimePoint began = clock_.Now();
  for (const Awaited& awaited : FetchForOthers(*number, chunks, given.contents)) {
    given.contents[awaited.place] = awaited.flight != nullptr ? AwaitForOthers(*awaited.flight, terms.origin_deadline)
                                                              : Held(*cache, number, chunks[awaited.place]);
  }
  given.waited = clock_.Now() - began;
  return given;
}

std::vector<ChunkEngine::Awaited> ChunkEngine::FetchForOthers(uint32_t number, const std::vector<uint32_t>& chunks,
                                                              const std::vector<Content>& held) {
  std::vector<Awaited> awaited;
  MutexLock lock(mutex_);
  const auto layer = layers_.find(number);
  if (layer == layers_.end() || layer->second.prefetches_for == nullptr) return awaited;  // closed, or not open yet
  bool has_more = false;
  for (size_t place = 0; place < chunks.size(); ++place) {
    if (held[place] != nullptr) continue;
    const ChunkId id{number, chunks[place]};
    std::shared_ptr<Flight>& flight = flights_[id];
    const bool is_running = running_.contains(id);
    // It may have come between the look and the lock.
    if (flight == nullptr && !is_running && IsLocal(*layer->second.cache, id)) {
      flights_.erase(id);
      awaited.push_back({place, nullptr});
      continue;
    }
    if (flight == nullptr) {
      flight = std::make_shared<Flight>();
      flight->counters = layer->second.prefetches_for;
    }
    awaited.push_back({place, flight});
    if (is_running) continue;
    for_others_.insert(id);
    has_more = queue_.Add(id, FetchPriority::kForOthers) || has_more;
  }
  if (has_more) work_.NotifyAll();
  return awaited;
}

ChunkEngine::Content ChunkEngine::AwaitForOthers(const Flight& flight, Deadline deadline) {
  MutexLock lock(mutex_);
  while (!flight.is_done) {
    if (deadline.Expired(clock_)) return nullptr;
    flight.changed.WaitUntil(lock, clock_, deadline.when());
  }
  return flight.content;
}

}  // namespace paceline::blocks
