#include "lib/blocks/image/chunk_pipeline.h"

#include "lib/blocks/format/zstd_codec.h"

namespace paceline::blocks {

ChunkPipeline::ChunkPipeline(int threads, int zstd_level, Writer writer, const KnownChunks* known)
    : zstd_level_(zstd_level), window_(static_cast<size_t>(threads) * 16), writer_(std::move(writer)), known_(known) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { Run(stop); });
  }
}

ChunkPipeline::~ChunkPipeline() {
  {
    MutexLock lock(mutex_);
    is_stopping_ = true;
  }
  has_work_.NotifyAll();
}

void ChunkPipeline::Run(const std::stop_token&) {
  ZstdEncoder encoder(zstd_level_);
  for (;;) {
    Job* job = nullptr;
    {
      MutexLock lock(mutex_);
      while (waiting_.empty() && !is_stopping_) has_work_.Wait(lock);
      if (is_stopping_) return;
      job = waiting_.front();
      waiting_.pop_front();
    }
    job->blocks = static_cast<uint32_t>(job->content.size() / kBlockBytes);
    job->digest = Sha256Of(job->content);
    if (known_ != nullptr) {
      const auto found = known_->chunks.find(job->digest);
      if (found != known_->chunks.end() && found->second.blocks == job->blocks) job->known = &found->second;
    }
    if (job->known == nullptr) {
      encoder.AppendFrame(job->content, &job->stored);
      // What does not shrink is stored as it is; equal lengths say so to the reader.
      if (job->stored.size() >= job->content.size()) job->stored = std::move(job->content);
    }
    job->content.clear();
    {
      MutexLock lock(mutex_);
      job->state = Job::State::kDone;
    }
    has_done_.NotifyOne();
  }
}

Status ChunkPipeline::WriteFront() {
  std::unique_ptr<Job> job;
  {
    MutexLock lock(mutex_);
    while (jobs_.front()->state != Job::State::kDone) has_done_.Wait(lock);
    job = std::move(jobs_.front());
    jobs_.pop_front();
  }
  Chunk chunk;
  chunk.blocks = job->blocks;
  chunk.digest = job->digest;
  const auto number = static_cast<uint32_t>(chunks_.size());
  if (number == kMaxChunks) return ResourceExhaustedError("a layer of more chunks than the format holds");
  const auto [first, is_new] = first_of_.try_emplace(job->digest, number);
  if (is_new && job->known != nullptr) {
    chunk.blob = kKnownBlobs + job->known->blob;
    chunk.offset_bytes = job->known->offset_bytes;
    chunk.stored_bytes = job->known->stored_bytes;
  } else if (is_new) {
    chunk.offset_bytes = stored_bytes_;
    chunk.stored_bytes = static_cast<uint32_t>(job->stored.size());
    RETURN_IF_ERROR(writer_(job->stored));
    stored_bytes_ += job->stored.size();
  } else {
    chunk.blob = chunks_[first->second].blob;
    chunk.offset_bytes = chunks_[first->second].offset_bytes;
    chunk.stored_bytes = chunks_[first->second].stored_bytes;
  }
  chunks_.push_back(chunk);
  return Status();
}

Status ChunkPipeline::Push(std::string content) {
  size_t held = 0;
  {
    MutexLock lock(mutex_);
    jobs_.push_back(std::make_unique<Job>());
    jobs_.back()->content = std::move(content);
    waiting_.push_back(jobs_.back().get());
    held = jobs_.size();
  }
  has_work_.NotifyOne();
  return held > window_ ? WriteFront() : Status();
}

Status ChunkPipeline::Finish() {
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (jobs_.empty()) return Status();
    }
    RETURN_IF_ERROR(WriteFront());
  }
}

}  // namespace paceline::blocks
