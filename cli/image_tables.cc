#include "cli/image_tables.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/fs_tables.h"

namespace paceline::cli {
namespace {

// Enough of a digest for a person to tell layers apart.
std::string Short(const blocks::Digest& digest) { return digest.Hex().substr(0, 12); }

std::string StateOf(const blocks::LayerReport& layer) {
  if (layer.was_there) return "was there";
  return layer.converted.needs_lower ? "converted for these lower layers" : "converted";
}

uint64_t StoredBytes(const blocks::BlockLayer& layer) {
  uint64_t bytes = layer.index.size_bytes;
  for (const blocks::Descriptor& data : layer.data) bytes += data.size_bytes;
  return bytes;
}

std::vector<std::string> ImageRow(const ShownLayer& layer, size_t number, LayerStatusColumn column) {
  const blocks::LayerIndexHeader& header = layer.checked.header;
  std::vector<std::string> row = {
      fmt::format("{}", number + 1),           Short(layer.layer.diff_id),
      fmt::format("{}", header.inodes),        SizeText(header.file_bytes),
      SizeText(StoredBytes(layer.layer)),      SizeText(layer.layer.index.size_bytes),
      fmt::format("{}", layer.checked.chunks), SizeText(uint64_t{header.max_chunk_blocks} * blocks::kBlockBytes)};
  if (column == LayerStatusColumn::kShow) row.push_back(layer.status.ok() ? "ok" : layer.status.message());
  return row;
}

}  // namespace

Table ConvertTable(const blocks::ImageReport& report) {
  Table table{{"LAYER", "DIFF-ID", "SOURCE", "TAR", "STORED", "FILES", "CHUNKS", "STATE"}, {}};
  for (size_t i = 0; i < report.layers.size(); ++i) {
    const blocks::LayerReport& layer = report.layers[i];
    const blocks::ConvertedLayer& made = layer.converted;
    const bool is_new = !layer.was_there;
    table.rows.push_back({fmt::format("{}", i + 1), Short(made.layer.diff_id), SizeText(layer.source_bytes),
                          is_new ? SizeText(made.tar_bytes) : "", SizeText(StoredBytes(made.layer)),
                          is_new ? fmt::format("{}", made.inodes) : "", is_new ? fmt::format("{}", made.chunks) : "",
                          StateOf(layer)});
  }
  return table;
}

nlohmann::json ConvertValue(const blocks::ImageReport& report, const std::string& store, double seconds) {
  nlohmann::json layers = nlohmann::json::array();
  for (const blocks::LayerReport& layer : report.layers) {
    const blocks::ConvertedLayer& made = layer.converted;
    nlohmann::json value = {{"diffId", made.layer.diff_id.ToString()},
                            {"sourceBytes", layer.source_bytes},
                            {"index", made.layer.index.digest.ToString()},
                            {"storedBytes", StoredBytes(made.layer)},
                            {"wasThere", layer.was_there}};
    if (!layer.was_there) {
      value["tarBytes"] = made.tar_bytes;
      value["inodes"] = made.inodes;
      value["fileBytes"] = made.file_bytes;
      value["chunks"] = made.chunks;
      value["dropped"] = made.dropped;
      value["needsLowerLayers"] = made.needs_lower;
    }
    layers.push_back(std::move(value));
  }
  return {{"source", report.source.manifest.digest.ToString()},
          {"platform", report.source.platform},
          {"store", store},
          {"image", report.manifest.digest.ToString()},
          {"tag", report.tag},
          {"layers", std::move(layers)},
          {"seconds", seconds}};
}

std::string ConvertSummary(const blocks::ImageReport& report, double seconds) {
  uint64_t tar_bytes = 0, stored_bytes = 0;
  size_t made = 0;
  for (const blocks::LayerReport& layer : report.layers) {
    if (layer.was_there) continue;
    ++made;
    tar_bytes += layer.converted.tar_bytes;
    stored_bytes += StoredBytes(layer.converted.layer);
  }
  std::string text = fmt::format("converted {} of {} layers", made, report.layers.size());
  if (made > 0) text += fmt::format(", {} of tar to {}", SizeText(tar_bytes), SizeText(stored_bytes));
  return text + fmt::format(", in {}\nimage  {}\nfor    {} ({})\ntag    {}\n", FormatSeconds(seconds),
                            report.manifest.digest.ToString(), report.source.manifest.digest.ToString(),
                            report.source.platform, report.tag);
}

Table ImageTable(const ShownImage& image, LayerStatusColumn column) {
  Table table{{"LAYER", "DIFF-ID", "INODES", "FILES", "STORED", "INDEX", "CHUNKS", "CHUNK"}, {}};
  if (column == LayerStatusColumn::kShow) table.headers.push_back("STATUS");
  for (size_t i = 0; i < image.layers.size(); ++i) table.rows.push_back(ImageRow(image.layers[i], i, column));
  return table;
}

nlohmann::json ImageValue(const ShownImage& image, LayerStatusColumn column) {
  nlohmann::json layers = nlohmann::json::array();
  for (const ShownLayer& layer : image.layers) {
    const blocks::LayerIndexHeader& header = layer.checked.header;
    nlohmann::json value = {{"diffId", layer.layer.diff_id.ToString()},
                            {"index", layer.layer.index.digest.ToString()},
                            {"indexBytes", layer.layer.index.size_bytes},
                            {"storedBytes", StoredBytes(layer.layer)},
                            {"inodes", header.inodes},
                            {"fileBytes", header.file_bytes},
                            {"imageBytes", header.image_bytes()},
                            {"metadataBytes", header.metadata_bytes()},
                            {"chunks", layer.checked.chunks},
                            {"chunkBytes", uint64_t{header.max_chunk_blocks} * blocks::kBlockBytes}};
    if (layer.layer.source) value["source"] = layer.layer.source->ToString();
    if (column == LayerStatusColumn::kShow) {
      value["ok"] = layer.status.ok();
      if (!layer.status.ok()) value["error"] = layer.status.message();
    }
    layers.push_back(std::move(value));
  }
  nlohmann::json value = {{"image", image.manifest.digest.ToString()},
                          {"source", image.image.subject.digest.ToString()},
                          {"platform", image.image.platform},
                          {"layers", std::move(layers)}};
  if (image.image.config) value["config"] = image.image.config->ToString();
  return value;
}

Table MountTable(const nlohmann::json& stats) {
  struct Row {
    const char* pointer;
    const char* name;
    enum { kCount, kBytes } kind;
  };
  constexpr Row kRows[] = {
      {"/reads", "reads", Row::kCount},
      {"/readBytes", "bytes read", Row::kBytes},
      {"/failedReads", "failed reads", Row::kCount},
      {"/chunkHits", "chunks that were here", Row::kCount},
      {"/chunkMisses", "chunks that were not", Row::kCount},
      {"/memoryBytes", "from memory", Row::kBytes},
      {"/diskBytes", "from the cache on disk", Row::kBytes},
      {"/peerBytes", "from peers", Row::kBytes},
      {"/originBytes", "from the store", Row::kBytes},
      {"/originRequests", "requests to the store", Row::kCount},
      {"/prefetchedBytes", "of these fetched ahead", Row::kBytes},
      {"/hotSet/chunks", "hot set, chunks", Row::kCount},
      {"/hotSet/bytes", "hot set, in the store", Row::kBytes},
      {"/damagedChunks", "damaged chunks that came", Row::kCount},
      {"/cache/usedBytes", "cache, used", Row::kBytes},
      {"/cache/evictedChunks", "cache, chunks evicted", Row::kCount},
      {"/cache/damagedChunks", "cache, damaged chunks", Row::kCount},
  };
  Table table{{"WHAT", "VALUE"}, {}};
  for (const Row& row : kRows) {
    const nlohmann::json::json_pointer pointer(row.pointer);
    if (!stats.contains(pointer) || !stats.at(pointer).is_number_integer()) continue;
    const uint64_t value = stats.at(pointer).get<uint64_t>();
    table.rows.push_back({row.name, row.kind == Row::kBytes ? SizeText(value) : std::to_string(value)});
  }
  return table;
}

}  // namespace paceline::cli
