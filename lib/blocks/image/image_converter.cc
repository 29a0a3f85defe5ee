#include "lib/blocks/image/image_converter.h"

#include <map>

#include "lib/blocks/image/lower_layers.h"

namespace paceline::blocks {
namespace {

class Converter {
 public:
  Converter(ImageSource& source, BlobStore& store, const ImageConversion& conversion, const Clock& clock,
            std::stop_token stop)
      : source_(source),
        store_(store),
        conversion_(conversion),
        clock_(clock),
        stop_(std::move(stop)),
        lower_(store, clock, conversion.options.store_limit) {}

  Result<ImageReport> Run();

 private:
  Deadline Soon() const { return Deadline::After(clock_, conversion_.options.store_limit); }
  Result<LayerReport> TakeLayer(const SourceLayer& layer, const Digest& chain_id);
  Result<std::optional<BlockLayer>> FindLayer(const std::string& tag, const Digest& diff_id);
  Result<bool> IsWhole(const BlockLayer& layer);
  Status PutEmptyConfig();

  ImageSource& source_;
  BlobStore& store_;
  const ImageConversion& conversion_;
  const Clock& clock_;
  const std::stop_token stop_;
  LowerLayers lower_;
};

// Whether the store holds everything that the layer's manifest names.
Result<bool> Converter::IsWhole(const BlockLayer& layer) {
  std::vector<Descriptor> blobs = layer.data;
  blobs.push_back(layer.index);
  for (const Descriptor& blob : blobs) {
    const Result<uint64_t> size = store_.StatBlob(blob.digest, Soon());
    if (!size.ok() && size.status().code() != StatusCode::kNotFound) return size.status();
    if (!size.ok() || *size != blob.size_bytes) return false;
  }
  return true;
}

Result<std::optional<BlockLayer>> Converter::FindLayer(const std::string& tag, const Digest& diff_id) {
  const Result<StoredManifest> manifest = store_.GetManifest(tag, Soon());
  // What is damaged is made again.
  const auto is_mended = [](const Status& status) {
    return status.code() == StatusCode::kNotFound || status.code() == StatusCode::kDataLoss;
  };
  if (!manifest.ok()) {
    if (is_mended(manifest.status())) return std::optional<BlockLayer>();
    return manifest.status();
  }
  const Result<BlockLayer> layer = ParseLayerManifest(manifest->bytes);
  if (!layer.ok() || layer->diff_id != diff_id) return std::optional<BlockLayer>();
  ASSIGN_OR_RETURN(const bool is_whole, IsWhole(*layer));
  return is_whole ? std::optional<BlockLayer>(*layer) : std::nullopt;
}

Result<LayerReport> Converter::TakeLayer(const SourceLayer& layer, const Digest& chain_id) {
  LayerReport report;
  report.source_bytes = layer.blob.size_bytes;
  const std::string layer_tag = LayerTag(layer.diff_id, conversion_.options.max_chunk_blocks);
  const std::string chain_tag = ChainTag(chain_id, conversion_.options.max_chunk_blocks);
  for (const std::string& tag : {layer_tag, chain_tag}) {
    ASSIGN_OR_RETURN(const std::optional<BlockLayer> found, FindLayer(tag, layer.diff_id));
    if (!found) continue;
    report.was_there = true;
    report.converted.layer = *found;
    report.converted.layer.source = layer.blob.digest;
    return report;
  }
  SourceBlob source{nullptr, layer.blob.digest, layer.blob.size_bytes, layer.diff_id};
  ASSIGN_OR_RETURN(source.blob, source_.OpenLayer(layer.blob, Soon()));
  ASSIGN_OR_RETURN(report.converted, ConvertLayer(std::move(source), &lower_, store_, conversion_.options, clock_,
                                                  conversion_.progress, stop_));
  BlockLayer bare = report.converted.layer;
  bare.source.reset();  // layers are shared by all who unpack to the same archive, however it was compressed
  const std::string& tag = report.converted.needs_lower ? chain_tag : layer_tag;
  RETURN_IF_ERROR(store_.PutManifest(tag, kManifestMediaType, EncodeLayerManifest(bare), Soon()).status());
  return report;
}

Status Converter::PutEmptyConfig() { return WriteWholeBlob(store_, kEmptyMediaType, kEmptyConfig, Soon()).status(); }

Result<ImageReport> Converter::Run() {
  ImageReport report;
  ASSIGN_OR_RETURN(report.source, source_.Resolve(conversion_.platform, Soon()));
  RETURN_IF_ERROR(PutEmptyConfig());
  BlockImageManifest image;
  image.subject = report.source.manifest;
  image.config = report.source.config;
  image.platform = report.source.platform;
  std::optional<Digest> chain_id;
  for (size_t i = 0; i < report.source.layers.size(); ++i) {
    if (stop_.stop_requested()) return CancelledError("the conversion was stopped");
    if (conversion_.on_layer) conversion_.on_layer(report.source, i);
    const SourceLayer& layer = report.source.layers[i];
    chain_id = ChainId(chain_id, layer.diff_id);
    ASSIGN_OR_RETURN(LayerReport taken, TakeLayer(layer, *chain_id));
    lower_.Push(taken.converted.layer);
    image.layers.push_back(taken.converted.layer);
    report.layers.push_back(std::move(taken));
  }
  report.tag = ImageTag(image.subject.digest);
  ASSIGN_OR_RETURN(report.manifest,
                   store_.PutManifest(report.tag, kManifestMediaType, EncodeImageManifest(image), Soon()));
  return report;
}

}  // namespace

Result<ImageReport> ConvertImage(ImageSource& source, BlobStore& store, const ImageConversion& conversion,
                                 const Clock& clock, const std::stop_token& stop) {
  return Converter(source, store, conversion, clock, stop).Run();
}

}  // namespace paceline::blocks
