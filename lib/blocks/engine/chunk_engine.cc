#include "lib/blocks/engine/chunk_engine.h"

#include <fmt/format.h>

#include <algorithm>

namespace paceline::blocks {
namespace {

// The store has answered, and does not have what the image names: asking again would give the same.
bool IsLost(const Status& status) {
  return status.code() == StatusCode::kDataLoss || status.code() == StatusCode::kNotFound;
}

}  // namespace

ImageReader::ImageReader(ChunkEngine& engine, std::vector<uint32_t> layers,
                         std::vector<std::shared_ptr<LayerCache>> caches, std::shared_ptr<BlobStore> origin,
                         const Clock& clock)
    : engine_(engine),
      layers_(std::move(layers)),
      caches_(std::move(caches)),
      origin_(std::move(origin)),
      counters_(std::make_shared<ImageCounters>()),
      accesses_(
          [this] {
            std::vector<uint32_t> counts;
            for (const auto& cache : caches_) counts.push_back(cache->index().chunk_count());
            return counts;
          }(),
          clock) {}

ImageReader::~ImageReader() { engine_.Close(*this); }

const LayerIndex& ImageReader::index(size_t layer) const { return caches_[layer]->index(); }

uint64_t ImageReader::KeptBytes(size_t layer) const {
  const LayerCache& cache = *caches_[layer];
  uint64_t bytes = 0;
  for (uint32_t chunk = 0; chunk < cache.index().chunk_count(); ++chunk) {
    if (cache.IsPresent(chunk)) bytes += cache.index().chunk(chunk).content_bytes();
  }
  return bytes;
}

void ImageReader::Prefetch(const std::vector<ChunkId>& chunks, FetchPriority priority) {
  engine_.Prefetch(*this, chunks, priority);
}

Status ImageReader::Read(size_t layer, uint64_t offset_bytes, std::span<char> out) {
  LayerCache& cache = *caches_[layer];
  const LayerIndexHeader& header = cache.index().header();
  if (offset_bytes > header.image_bytes() || out.size() > header.image_bytes() - offset_bytes) {
    return InvalidArgumentError("a read beyond the end of the layer");
  }
  ++counters_->reads;
  const Deadline deadline = Deadline::After(engine_.clock_, engine_.options_.read_limit);
  const uint64_t data_begin = kBlockBytes, data_end = uint64_t{header.first_meta_block()} * kBlockBytes;
  const uint64_t end = offset_bytes + out.size();
  if (offset_bytes < data_end && end > data_begin && data_end > data_begin) {
    const uint64_t first = std::max(offset_bytes, data_begin), last = std::min(end, data_end) - 1;
    engine_.Announce(*this, layer, cache.index().FindChunk(static_cast<uint32_t>(first / kBlockBytes)),
                     cache.index().FindChunk(static_cast<uint32_t>(last / kBlockBytes)));
  }
  for (uint64_t at = offset_bytes; at < end;) {
    const std::span<char> rest = out.subspan(at - offset_bytes);
    if (at < data_begin || at >= data_end) {
      const uint64_t part = std::min<uint64_t>(rest.size(), at < data_begin ? data_begin - at : rest.size());
      RETURN_IF_ERROR(cache.ReadMetadata(at, rest.first(part)));
      at += part;
      continue;
    }
    const uint32_t number = cache.index().FindChunk(static_cast<uint32_t>(at / kBlockBytes));
    const Chunk chunk = cache.index().chunk(number);
    accesses_.Note(static_cast<uint32_t>(layer), number);
    Result<ChunkEngine::Content> content = engine_.Get(*this, layer, number, deadline);
    if (!content.ok()) {
      ++counters_->failed_reads;
      return content.status().Annotate(fmt::format("layer {} chunk {}", layer, number));
    }
    const uint64_t inside = at - uint64_t{chunk.first_block} * kBlockBytes;
    const size_t part = std::min<size_t>(rest.size(), (*content)->size() - inside);
    std::copy_n((*content)->begin() + static_cast<std::ptrdiff_t>(inside), part, rest.begin());
    at += part;
  }
  counters_->read_bytes += out.size();
  return Status();
}

ChunkEngine::ChunkEngine(const EngineOptions& options, ChunkCache& cache, ChunkPeers* peers, const Clock& clock)
    : options_(options), cache_(cache), peers_(peers), clock_(clock), memory_(options.memory_bytes), queue_([&] {
        FetchLimits limits = options.fetch;
        if (peers != nullptr) limits.stretch_bytes = kStretchBytes;
        return limits;
      }()) {
  for (int i = 0; i < options_.fetch.threads + options_.fetch.others_threads; ++i) {
    threads_.emplace_back([this](std::stop_token stop) { Work(std::move(stop)); });
  }
}

ChunkEngine::~ChunkEngine() {
  for (std::jthread& thread : threads_) thread.request_stop();
  threads_.clear();
}

Result<std::unique_ptr<ImageReader>> ChunkEngine::Open(const std::vector<LayerSource>& layers,
                                                       std::shared_ptr<BlobStore> origin) {
  std::vector<std::shared_ptr<LayerCache>> caches;
  for (const LayerSource& source : layers) {
    ASSIGN_OR_RETURN(std::shared_ptr<LayerCache> cache, cache_.OpenLayer(source.index_digest, source.index));
    caches.push_back(std::move(cache));
  }
  std::vector<uint32_t> numbers;
  {
    MutexLock lock(mutex_);
    for (const std::shared_ptr<LayerCache>& cache : caches) {
      const auto [number, is_new] = numbers_.try_emplace(cache->index_digest(), next_number_);
      if (is_new) ++next_number_;
      Layer& layer = layers_[number->second];
      layer.cache = cache;
      layer.origins.push_back(origin);
      numbers.push_back(number->second);
    }
  }
  std::unique_ptr<ImageReader> image(
      new ImageReader(*this, std::move(numbers), std::move(caches), std::move(origin), clock_));
  MutexLock lock(mutex_);
  for (const uint32_t number : image->layers_) {
    std::shared_ptr<ImageCounters>& counters = layers_.at(number).prefetches_for;
    if (counters == nullptr) counters = image->counters_;
  }
  return image;
}

void ChunkEngine::Close(ImageReader& image) {
  std::vector<uint32_t> gone;
  {
    MutexLock lock(mutex_);
    for (const uint32_t number : image.layers_) {
      const auto found = layers_.find(number);
      if (found == layers_.end()) continue;
      std::vector<std::shared_ptr<BlobStore>>& origins = found->second.origins;
      if (const auto own = std::find(origins.begin(), origins.end(), image.origin_); own != origins.end()) {
        origins.erase(own);
      }
      if (!origins.empty()) continue;
      queue_.RemoveLayer(number);
      const ChunkId begin{number, 0}, end{number + 1, 0};
      for (auto flight = flights_.lower_bound(begin); flight != flights_.lower_bound(end);) {
        const ChunkId id = (flight++)->first;
        Finish(id, CancelledError("nobody has this layer open any more"), nullptr);  // another node may wait for it
      }
      for_others_.erase(for_others_.lower_bound(begin), for_others_.lower_bound(end));
      numbers_.erase(found->second.cache->index_digest());
      layers_.erase(found);
      gone.push_back(number);
    }
    if (running_.empty() && queue_.waiting() == 0) idle_.NotifyAll();
  }
  for (const uint32_t number : gone) memory_.ForgetLayer(number);
}

bool ChunkEngine::IsLocal(LayerCache& cache, ChunkId id) {
  return cache.IsPresent(id.chunk) || memory_.Find(id) != nullptr;
}

Result<ChunkEngine::Content> ChunkEngine::LoadLocal(ImageReader& image, size_t layer, ChunkId id) {
  if (Content content = memory_.Find(id)) {
    image.counters_->memory_bytes += content->size();
    return content;
  }
  ASSIGN_OR_RETURN(std::string loaded, cache_.Load(*image.caches_[layer], id.chunk));
  auto content = std::make_shared<const std::string>(std::move(loaded));
  image.counters_->disk_bytes += content->size();
  memory_.Put(id, content);
  return Content(content);
}

Result<ChunkEngine::Content> ChunkEngine::Get(ImageReader& image, size_t layer, uint32_t chunk, Deadline deadline) {
  const ChunkId id{image.layers_[layer], chunk};
  LayerCache& cache = *image.caches_[layer];
  while (true) {
    Result<Content> local = LoadLocal(image, layer, id);
    if (local.ok()) {
      ++image.counters_->chunk_hits;
      return local;
    }
    std::shared_ptr<Flight> flight;
    {
      MutexLock lock(mutex_);
      std::shared_ptr<Flight>& known = flights_[id];
      const bool is_running = running_.contains(id);
      // It may have come between the look above and the lock.
      if (known == nullptr && !is_running && IsLocal(cache, id)) {
        flights_.erase(id);
        continue;
      }
      if (known == nullptr) {
        known = std::make_shared<Flight>();
        known->counters = image.counters_;
      }
      flight = known;
      if (!is_running && queue_.Add(id, FetchPriority::kDemand)) work_.NotifyAll();
    }
    ++image.counters_->chunk_misses;
    return AwaitFlight(id, flight, deadline);
  }
}

Result<ChunkEngine::Content> ChunkEngine::AwaitFlight(ChunkId id, const std::shared_ptr<Flight>& flight,
                                                      Deadline deadline) {
  MutexLock lock(mutex_);
  while (!flight->is_done) {
    if (deadline.Expired(clock_)) {
      return DeadlineExceededError(fmt::format("no source gave chunk {} in time", id.chunk));
    }
    flight->changed.WaitUntil(lock, clock_, deadline.when());
  }
  if (!flight->status.ok()) return flight->status;
  return flight->content;
}

void ChunkEngine::Announce(ImageReader& image, size_t layer, uint32_t first, uint32_t last) {
  if (first == last) return;
  LayerCache& cache = *image.caches_[layer];
  MutexLock lock(mutex_);
  bool has_more = false;
  for (uint32_t chunk = first; chunk <= last; ++chunk) {
    const ChunkId id{image.layers_[layer], chunk};
    if (running_.contains(id) || IsLocal(cache, id)) continue;
    std::shared_ptr<Flight>& flight = flights_[id];
    if (flight == nullptr) {
      flight = std::make_shared<Flight>();
      flight->counters = image.counters_;
    }
    has_more = queue_.Add(id, FetchPriority::kDemand) || has_more;
  }
  if (has_more) work_.NotifyAll();
}

void ChunkEngine::Prefetch(ImageReader& image, const std::vector<ChunkId>& chunks, FetchPriority priority) {
  MutexLock lock(mutex_);
  for (const ChunkId& wanted : chunks) {
    if (wanted.layer >= image.layers_.size()) continue;
    LayerCache& cache = *image.caches_[wanted.layer];
    const ChunkId id{image.layers_[wanted.layer], wanted.chunk};
    if (wanted.chunk >= cache.index().chunk_count() || cache.IsPresent(wanted.chunk) || running_.contains(id)) continue;
    layers_[id.layer].prefetches_for = image.counters_;
    queue_.Add(id, priority);
  }
  work_.NotifyAll();
}

bool ChunkEngine::AwaitIdle(Deadline deadline) {
  MutexLock lock(mutex_);
  while (!running_.empty() || queue_.waiting() > 0) {
    if (deadline.Expired(clock_)) return false;
    idle_.WaitUntil(lock, clock_, deadline.when());
  }
  return true;
}

std::optional<ChunkEngine::Job> ChunkEngine::TakeJob(std::stop_token stop) {
  MutexLock lock(mutex_);
  while (!stop.stop_requested()) {
    if (const std::optional<FetchQueue::First> first = queue_.TakeFirst()) {
      Job job;
      job.layer = layers_.at(first->id.layer);
      job.batch = queue_.Widen(job.layer.cache->index(), *first);
      for (const uint32_t chunk : job.batch.chunks) {
        const ChunkId id{job.batch.layer, chunk};
        running_.insert(id);
        if (peers_ != nullptr && !for_others_.contains(id)) job.at_peers.push_back(chunk);
        if (const auto flight = flights_.find(id); flight != flights_.end() && job.counters == nullptr) {
          job.counters = flight->second->counters;
        }
      }
      if (job.counters == nullptr) job.counters = job.layer.prefetches_for;
      CHECK(job.counters != nullptr);  // every chunk waits for a reader or by a prefetch
      return job;
    }
    work_.WaitUntil(lock, clock_, TimePoint::max(), stop);
  }
  return std::nullopt;
}

void ChunkEngine::Work(std::stop_token stop) {
  while (std::optional<Job> job = TakeJob(stop)) Run(*std::move(job));
}

void ChunkEngine::Run(Job job) {
  const FetchPriority priority = job.batch.priority;
  if (!job.at_peers.empty()) AskPeers(job);
  AskOrigins(job);
  MutexLock lock(mutex_);
  queue_.Done(priority);
  work_.NotifyAll();
  if (running_.empty() && queue_.waiting() == 0) idle_.NotifyAll();
}

void ChunkEngine::AskPeers(Job& job) {
  const LayerIndex& index = job.layer.cache->index();
  std::set<uint32_t> given;
  const auto take = [&](size_t place, std::string content) {
    const uint32_t number = job.at_peers[place];
    const Chunk chunk = index.chunk(number);
    if (content.size() != chunk.content_bytes() || Sha256Of(content) != chunk.digest) {
      ++job.counters->damaged_chunks;
      return false;
    }
    job.counters->peer_bytes += content.size();
    if (given.insert(number).second) Deliver(job, number, std::move(content));
    return true;
  };
  peers_->Fetch({job.layer.cache->index_digest(), index, job.at_peers, job.batch.priority}, take,
                Deadline::After(clock_, options_.fetch_limit));
  std::erase_if(job.batch.chunks, [&](uint32_t number) { return given.contains(number); });
}

void ChunkEngine::AskOrigins(const Job& job) {
  const LayerIndex& index = job.layer.cache->index();
  const std::span<const uint32_t> numbers = job.batch.chunks;
  const Deadline deadline = Deadline::After(clock_, options_.fetch_limit);
  // What peers gave may lie between the rest, and is not worth fetching again.
  for (size_t begin = 0; begin < numbers.size();) {
    size_t end = begin + 1;
    for (; end < numbers.size(); ++end) {
      const Chunk last = index.chunk(numbers[end - 1]);
      if (index.chunk(numbers[end]).offset_bytes - (last.offset_bytes + last.stored_bytes) >
          options_.fetch.max_gap_bytes) {
        break;
      }
    }
    AskOriginsFor(job, numbers.subspan(begin, end - begin), deadline);
    begin = end;
  }
}

void ChunkEngine::AskOriginsFor(const Job& job, std::span<const uint32_t> numbers, Deadline deadline) {
  const LayerIndex& index = job.layer.cache->index();
  const Chunk first = index.chunk(numbers.front()), last = index.chunk(numbers.back());
  std::string stored(last.offset_bytes + last.stored_bytes - first.offset_bytes, '\0');
  const TimePoint began = clock_.Now();
  const Status read = ReadRange(job, first.offset_bytes, stored, deadline);
  uint64_t content_bytes = 0;
  ChunkDecoder decoder;
  for (const uint32_t number : numbers) {
    const Chunk chunk = index.chunk(number);
    if (!read.ok()) {
      if (IsLost(read)) ++job.counters->lost_chunks;
      Deliver(job, number, read);
      continue;
    }
    std::string decoded;
    const std::string_view bytes =
        std::string_view(stored).substr(chunk.offset_bytes - first.offset_bytes, chunk.stored_bytes);
    if (decoder.Decode(chunk, bytes, &decoded).ok()) {
      content_bytes += decoded.size();
      Deliver(job, number, std::move(decoded));
      continue;
    }
    ++job.counters->damaged_chunks;
    Result<std::string> again = FetchAgain(job, number, deadline);
    if (IsLost(again.status())) ++job.counters->lost_chunks;
    Deliver(job, number, std::move(again));
  }
  // With the time for unpacking, which what peers give does not need.
  if (peers_ != nullptr && content_bytes > 0) peers_->NoteOrigin(content_bytes, clock_.Now() - began);
}

Status ChunkEngine::ReadRange(const Job& job, uint64_t offset_bytes, std::span<char> out, Deadline deadline) {
  const Digest& blob = job.layer.cache->index().blobs()[job.batch.blob].digest;
  Status status = UnavailableError("no image has this layer open any more");
  for (const std::shared_ptr<BlobStore>& origin : job.layer.origins) {
    ++job.counters->origin_requests;
    status = origin->ReadBlob(blob, offset_bytes, out, deadline);
    if (!status.ok()) continue;
    job.counters->origin_bytes += out.size();
    if (job.batch.priority != FetchPriority::kDemand) job.counters->prefetched_bytes += out.size();
    return status;
  }
  return status;
}

Result<std::string> ChunkEngine::FetchAgain(const Job& job, uint32_t number, Deadline deadline) {
  const Chunk chunk = job.layer.cache->index().chunk(number);
  const Digest& blob = job.layer.cache->index().blobs()[chunk.blob].digest;
  ChunkDecoder decoder;
  Status status = DataLossError("the origin gave other bytes");
  // The last origin first: the one that gave wrong bytes was tried first.
  for (auto origin = job.layer.origins.rbegin(); origin != job.layer.origins.rend(); ++origin) {
    std::string stored(chunk.stored_bytes, '\0'), content;
    ++job.counters->origin_requests;
    status = (*origin)->ReadBlob(blob, chunk.offset_bytes, stored, deadline);
    if (!status.ok()) continue;
    job.counters->origin_bytes += stored.size();
    status = decoder.Decode(chunk, stored, &content);
    if (status.ok()) return content;
    ++job.counters->damaged_chunks;
  }
  return status;
}

void ChunkEngine::Finish(ChunkId id, const Status& status, const Content& content) {
  const auto found = flights_.find(id);
  if (found == flights_.end()) return;
  const std::shared_ptr<Flight> flight = found->second;
  flights_.erase(found);
  flight->is_done = true;
  flight->status = status;
  flight->content = content;
  flight->changed.NotifyAll();
}

void ChunkEngine::Deliver(const Job& job, uint32_t number, Result<std::string> content) {
  const ChunkId id{job.batch.layer, number};
  const Status status = content.status();
  Content bytes;
  if (content.ok()) {
    bytes = std::make_shared<const std::string>(*std::move(content));
    memory_.Put(id, bytes);
    {
      // Readers go on before the disk has it.
      MutexLock lock(mutex_);
      Finish(id, status, bytes);
    }
    cache_.Store(*job.layer.cache, number, *bytes);
  }
  MutexLock lock(mutex_);
  Finish(id, status, bytes);  // those who came meanwhile, or all in case of a failure
  running_.erase(id);
  for_others_.erase(id);
}

}  // namespace paceline::blocks
