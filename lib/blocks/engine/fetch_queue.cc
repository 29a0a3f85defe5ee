#include "lib/blocks/engine/fetch_queue.h"

#include <algorithm>

namespace paceline::blocks {
namespace {

size_t At(FetchPriority priority) { return static_cast<size_t>(priority); }

}  // namespace

bool FetchQueue::Add(ChunkId id, FetchPriority priority) {
  const auto [entry, is_new] = waiting_.try_emplace(id, priority);
  if (!is_new) {
    if (entry->second == FetchPriority::kForOthers && priority == FetchPriority::kDemand) {
      lines_[At(FetchPriority::kForOthers)].push_front(id);
      return false;
    }
    if (entry->second <= priority) return false;
    entry->second = priority;
  }
  lines_[At(priority)].push_back(id);
  return true;
}

void FetchQueue::RemoveLayer(uint32_t layer) {
  waiting_.erase(waiting_.lower_bound({layer, 0}), waiting_.lower_bound({layer + 1, 0}));
}

size_t FetchQueue::waiting(FetchPriority priority) const {
  return static_cast<size_t>(std::count_if(waiting_.begin(), waiting_.end(),
                                           [priority](const auto& entry) { return entry.second == priority; }));
}

void FetchQueue::Done(FetchPriority priority) { --running_[At(priority)]; }

bool FetchQueue::MayStart(FetchPriority priority) const {
  if (priority == FetchPriority::kForOthers) return running_[0] < limits_.others_threads;
  if (running() >= limits_.threads) return false;
  const int lower = running_[2] + running_[3];
  switch (priority) {
    case FetchPriority::kForOthers:
    case FetchPriority::kDemand: return true;
    case FetchPriority::kPrefetch: return lower < limits_.prefetch_threads;
    case FetchPriority::kBackground:
      // Only when nobody waits for anything better.
      return lines_[2].empty() && running_[1] == 0 && running_[2] == 0 && lower < limits_.background_threads;
  }
  return false;
}

std::optional<FetchQueue::First> FetchQueue::TakeFirst() {
  for (const FetchPriority priority :
       {FetchPriority::kForOthers, FetchPriority::kDemand, FetchPriority::kPrefetch, FetchPriority::kBackground}) {
    std::deque<ChunkId>& line = lines_[At(priority)];
    while (!line.empty()) {
      const auto entry = waiting_.find(line.front());
      if (entry != waiting_.end() && entry->second == priority) break;
      line.pop_front();  // moved up, removed, or taken along by another batch
    }
    if (line.empty() || !MayStart(priority)) continue;
    const ChunkId id = line.front();
    line.pop_front();
    waiting_.erase(id);
    ++running_[At(priority)];
    return First{id, priority};
  }
  return std::nullopt;
}

FetchBatch FetchQueue::Widen(const LayerIndex& index, const First& first) {
  const Chunk chunk = index.chunk(first.id.chunk);
  FetchBatch batch;
  batch.priority = first.priority;
  batch.layer = first.id.layer;
  batch.blob = chunk.blob;
  batch.offset_bytes = chunk.offset_bytes;
  batch.length_bytes = chunk.stored_bytes;
  batch.chunks.push_back(first.id.chunk);
  WidenTo(index, 1, &batch);
  WidenTo(index, -1, &batch);
  return batch;
}

void FetchQueue::WidenTo(const LayerIndex& index, int step, FetchBatch* batch) {
  const uint64_t longest = batch->priority == FetchPriority::kDemand ? limits_.demand_range_bytes : limits_.range_bytes;
  int64_t number = step > 0 ? batch->chunks.back() : batch->chunks.front();
  while (true) {
    number += step;
    if (number < 0 || number >= index.chunk_count()) return;
    const Chunk next = index.chunk(static_cast<uint32_t>(number));
    const uint64_t end = batch->offset_bytes + batch->length_bytes;
    const uint64_t next_end = next.offset_bytes + next.stored_bytes;
    // Stored in the order of their numbers, as converters do; anything else is fetched by itself.
    const bool is_after = step > 0 && next.offset_bytes >= end;
    const bool is_before = step < 0 && next_end <= batch->offset_bytes;
    if (next.blob != batch->blob || (!is_after && !is_before)) return;
    const uint64_t gap = is_after ? next.offset_bytes - end : batch->offset_bytes - next_end;
    const uint64_t whole = is_after ? next_end - batch->offset_bytes : end - next.offset_bytes;
    if (gap > limits_.max_gap_bytes || whole > longest) return;
    const uint64_t stretch = limits_.stretch_bytes;
    if (stretch > 0 && next.offset_bytes / stretch != batch->offset_bytes / stretch) return;
    const ChunkId id{batch->layer, static_cast<uint32_t>(number)};
    const auto entry = waiting_.find(id);
    // Nobody's read waits for bytes that somebody may want later.
    if (entry == waiting_.end() || entry->second > batch->priority) continue;
    // And nobody's other node for what we may ask of it.
    if (entry->second == FetchPriority::kForOthers && batch->priority != FetchPriority::kForOthers) continue;
    waiting_.erase(entry);
    batch->chunks.insert(step > 0 ? batch->chunks.end() : batch->chunks.begin(), id.chunk);
    batch->length_bytes = whole;
    if (is_before) batch->offset_bytes = next.offset_bytes;
  }
}

}  // namespace paceline::blocks
