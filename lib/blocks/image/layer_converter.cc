#include "lib/blocks/image/layer_converter.h"

#include <fmt/format.h>

#include <map>

#include "lib/blocks/format/layer_index.h"
#include "lib/blocks/format/zstd_codec.h"
#include "lib/blocks/image/chunk_cutter.h"
#include "lib/blocks/image/chunk_pipeline.h"
#include "lib/blocks/image/erofs_writer.h"
#include "lib/blocks/image/file_layout.h"
#include "lib/blocks/image/tar_reader.h"

namespace paceline::blocks {
namespace {

// Stored chunks are small; the store gets them in pieces of this size.
constexpr size_t kWriteBytes = 1U << 20;

// Tells progress what comes by, and ends the stream with kCancelled when asked to stop.
class WatchedSource final : public ByteSource {
 public:
  WatchedSource(std::unique_ptr<ByteSource> below, std::atomic<uint64_t>* counter, std::stop_token stop)
      : below_(std::move(below)), counter_(counter), stop_(std::move(stop)) {}

  Result<size_t> Read(std::span<char> out) override {
    if (stop_.stop_requested()) return CancelledError("the conversion was stopped");
    ASSIGN_OR_RETURN(const size_t got, below_->Read(out));
    counter_->fetch_add(got);
    return got;
  }

 private:
  std::unique_ptr<ByteSource> below_;
  std::atomic<uint64_t>* counter_;
  std::stop_token stop_;
};

class LayerConversion {
 public:
  LayerConversion(LowerTree* lower, BlobStore& store, const ConvertOptions& options, const Clock& clock,
                  ConvertProgress* progress)
      : store_(store),
        options_(options),
        clock_(clock),
        progress_(progress),
        tree_(lower),
        pipeline_(
            options.threads, options.zstd_level, [this](std::string_view bytes) { return Write(bytes); },
            options.known),
        cutter_(options.max_chunk_blocks, [this](std::string content) { return pipeline_.Push(std::move(content)); }) {}

  Result<ConvertedLayer> Run(SourceBlob source, const std::stop_token& stop);
  Result<ConvertedLayer> RunTree(std::unique_ptr<ByteSource> tar, const std::stop_token& stop);

 private:
  Deadline Soon() const { return Deadline::After(clock_, options_.store_limit); }
  Status Write(std::string_view bytes);
  Status FlushWrites();
  Status TakeEntries(TarReader& tar);
  Status TakeStream(std::unique_ptr<ByteSource> stream, StreamTally* tally, const std::stop_token& stop);
  Status Store(ConvertedLayer* converted);
  std::vector<Descriptor> NumberBlobs(std::vector<Chunk>* chunks);
  Status WriteIndex(const Digest& diff_id, ConvertedLayer* converted);
  Result<std::string> PackMetadata(const Digest& diff_id, LayerIndexHeader* header);

  BlobStore& store_;
  const ConvertOptions& options_;
  const Clock& clock_;
  ConvertProgress* progress_;
  LayerTree tree_;
  std::unique_ptr<BlobWriter> data_;  // made with the first chunk: a layer without contents has none
  std::string unwritten_;
  ChunkPipeline pipeline_;
  ChunkCutter cutter_;
};

Status LayerConversion::Write(std::string_view bytes) {
  unwritten_ += bytes;
  progress_->stored_bytes.fetch_add(bytes.size());
  return unwritten_.size() < kWriteBytes ? Status() : FlushWrites();
}

Status LayerConversion::FlushWrites() {
  if (unwritten_.empty()) return Status();
  if (data_ == nullptr) {
    ASSIGN_OR_RETURN(data_, store_.NewBlob(Soon()));
  }
  RETURN_IF_ERROR(data_->Append(unwritten_, Soon()));
  unwritten_.clear();
  return Status();
}

Status LayerConversion::TakeEntries(TarReader& tar) {
  TarEntry entry;
  for (;;) {
    ASSIGN_OR_RETURN(const bool has_entry, tar.Next(&entry));
    if (!has_entry) return tar.Drain();
    FilePlacement placement;
    if (entry.type == TarEntry::Type::kFile) {
      const std::string directory = LayerTree::DirectoryOf(entry.name);
      ASSIGN_OR_RETURN(placement, LayOutFile(entry, directory, tar, cutter_).Annotate(entry.name.substr(0, 300)));
    }
    RETURN_IF_ERROR(tree_.Add(entry, std::move(placement)));
  }
}

Result<std::string> LayerConversion::PackMetadata(const Digest& diff_id, LayerIndexHeader* header) {
  std::string packed;
  ZstdEncoder encoder(options_.zstd_level);
  Sha256 hash;
  ASSIGN_OR_RETURN(const ErofsMetadata metadata,
                   WriteErofsMetadata(tree_, cutter_.data_blocks(), diff_id, [&](std::string_view bytes) {
                     hash.Update(bytes);
                     encoder.AppendFrame(bytes, &packed);
                     return Status();
                   }));
  header->meta_blocks = metadata.meta_blocks;
  header->inodes = metadata.inodes;
  header->file_bytes = metadata.file_bytes;
  header->metadata_digest = hash.Finish();
  return packed;
}

// Gives the known blobs that are in use their places in the layer's table, behind the one that was written, in the
// order of their first use.
std::vector<Descriptor> LayerConversion::NumberBlobs(std::vector<Chunk>* chunks) {
  std::vector<Descriptor> used;
  std::map<uint32_t, uint32_t> numbers;
  const uint32_t first = data_ == nullptr ? 0 : 1;
  for (Chunk& chunk : *chunks) {
    if (chunk.blob < ChunkPipeline::kKnownBlobs) continue;
    const uint32_t known = chunk.blob - ChunkPipeline::kKnownBlobs;
    const auto [place, is_new] = numbers.try_emplace(known, first + static_cast<uint32_t>(used.size()));
    if (is_new) {
      const BlobEntry& blob = options_.known->blobs[known];
      used.push_back({kDataMediaType, blob.digest, blob.size_bytes, {}});
    }
    chunk.blob = place->second;
  }
  return used;
}

Status LayerConversion::WriteIndex(const Digest& diff_id, ConvertedLayer* converted) {
  LayerIndexParts parts;
  parts.header.max_chunk_blocks = options_.max_chunk_blocks;
  parts.header.data_blocks = cutter_.data_blocks();
  parts.header.diff_id = diff_id;
  ASSIGN_OR_RETURN(parts.stored_metadata, PackMetadata(diff_id, &parts.header));
  parts.chunks = std::move(pipeline_.chunks());
  const std::vector<Descriptor> known = NumberBlobs(&parts.chunks);
  converted->layer.data.insert(converted->layer.data.end(), known.begin(), known.end());
  for (const Descriptor& data : converted->layer.data) parts.blobs.push_back({data.digest, data.size_bytes});
  auto index = std::make_shared<const std::string>(EncodeLayerIndex(parts));
  // What readers would refuse must not be written: a limit that was missed above is found here.
  ASSIGN_OR_RETURN(const LayerIndex parsed, LayerIndex::Parse(index));
  ASSIGN_OR_RETURN(converted->layer.index, WriteWholeBlob(store_, kIndexMediaType, *index, Soon()));
  converted->inodes = parsed.header().inodes;
  converted->file_bytes = parsed.header().file_bytes;
  converted->chunks = parsed.chunk_count();
  return Status();
}

Result<ConvertedLayer> LayerConversion::Run(SourceBlob source, const std::stop_token& stop) {
  StreamTally blob_tally, tar_tally;
  std::unique_ptr<ByteSource> stream = NewTallySource(
      std::make_unique<WatchedSource>(std::move(source.blob), &progress_->source_bytes, stop), &blob_tally);
  ASSIGN_OR_RETURN(stream, NewDecompressedSource(std::move(stream)));
  stream = NewReadAheadSource(std::move(stream));
  // On this side of the thread: two hashes on one side would make it the slower one.
  RETURN_IF_ERROR(TakeStream(std::move(stream), &tar_tally, stop));

  ConvertedLayer converted;
  converted.layer.diff_id = tar_tally.hash.Finish();
  converted.layer.source = blob_tally.hash.Finish();
  if (*converted.layer.source != source.digest || blob_tally.bytes != source.size_bytes) {
    return DataLossError(fmt::format("layer {} has other bytes than its digest says", source.digest.ToString()));
  }
  if (converted.layer.diff_id != source.diff_id) {
    return DataLossError(fmt::format("layer {} unpacks to {}, not to the DiffID {} of the image config",
                                     source.digest.ToString(), converted.layer.diff_id.ToString(),
                                     source.diff_id.ToString()));
  }
  RETURN_IF_ERROR(Store(&converted));
  converted.tar_bytes = tar_tally.bytes;
  return converted;
}

Result<ConvertedLayer> LayerConversion::RunTree(std::unique_ptr<ByteSource> tar, const std::stop_token& stop) {
  StreamTally tally;
  RETURN_IF_ERROR(TakeStream(NewReadAheadSource(std::move(tar)), &tally, stop));
  ConvertedLayer converted;
  converted.layer.diff_id = tally.hash.Finish();
  RETURN_IF_ERROR(Store(&converted));
  converted.tar_bytes = tally.bytes;
  return converted;
}

// All of the tar stream: the tree is whole and every chunk is written after it.
Status LayerConversion::TakeStream(std::unique_ptr<ByteSource> stream, StreamTally* tally,
                                   const std::stop_token& stop) {
  stream = std::make_unique<WatchedSource>(NewTallySource(std::move(stream), tally), &progress_->tar_bytes, stop);
  TarReader tar(*stream);
  RETURN_IF_ERROR(TakeEntries(tar));
  RETURN_IF_ERROR(cutter_.Finish());
  RETURN_IF_ERROR(pipeline_.Finish());
  return FlushWrites();
}

// Commits data and index. The layer's DiffID is known by then.
Status LayerConversion::Store(ConvertedLayer* converted) {
  if (data_ != nullptr) {
    ASSIGN_OR_RETURN(Descriptor data, data_->Commit(Soon()));
    data.media_type = kDataMediaType;
    converted->layer.data.push_back(std::move(data));
  }
  RETURN_IF_ERROR(WriteIndex(converted->layer.diff_id, converted));
  converted->needs_lower = tree_.needs_lower();
  converted->stored_bytes = pipeline_.stored_bytes();
  converted->dropped = tree_.dropped();
  return Status();
}

}  // namespace

Result<ConvertedLayer> ConvertLayer(SourceBlob source, LowerTree* lower, BlobStore& store,
                                    const ConvertOptions& options, const Clock& clock, ConvertProgress* progress,
                                    std::stop_token stop) {
  const std::string shown = "layer " + source.digest.ToString();
  Result<ConvertedLayer> converted =
      LayerConversion(lower, store, options, clock, progress).Run(std::move(source), stop);
  if (converted.ok() || converted.status().message().starts_with("layer ")) return converted;
  return converted.status().Annotate(shown);
}

Result<ConvertedLayer> ConvertTree(std::unique_ptr<ByteSource> tar, BlobStore& store, const ConvertOptions& options,
                                   const Clock& clock, ConvertProgress* progress, std::stop_token stop) {
  return LayerConversion(nullptr, store, options, clock, progress).RunTree(std::move(tar), stop);
}

}  // namespace paceline::blocks
