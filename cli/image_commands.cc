#include "cli/image_commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/fs_tables.h"
#include "cli/image_places.h"
#include "cli/image_report.h"
#include "cli/image_tables.h"
#include "cli/progress_line.h"
#include "lib/base/units.h"

namespace paceline::cli {
namespace {

constexpr Duration kStoreLimit = std::chrono::minutes(2);

struct ImageOptions {
  std::string source, image;
  std::string store;
  std::string platform;
  std::string report;  // file
  std::string chunk_size = "64KiB";
  int threads = 0;
  RegistryAccess registry;
};

Result<blocks::Platform> PlatformOf(const ImageOptions& options) {
  if (options.platform.empty()) return blocks::ThisPlatform();
  return blocks::ParsePlatform(options.platform);
}

Result<uint32_t> ChunkBlocks(const std::string& text) {
  ASSIGN_OR_RETURN(const ByteSize size, ParseByteSize(text));
  const uint64_t blocks = size.bytes / blocks::kBlockBytes;
  if (size.bytes % blocks::kBlockBytes != 0 || blocks < 1 || blocks > blocks::kMaxChunkBlocks) {
    return InvalidArgumentError("--chunk-size: a multiple of 4KiB up to 4MiB, not " + text);
  }
  return static_cast<uint32_t>(blocks);
}

class ImageRunner {
 public:
  ImageRunner(const ImageOptions& options, OutputFormat format, const Clock& clock)
      : options_(options), format_(format), clock_(clock), places_(options.registry, clock) {}

  int Convert();
  int Inspect() { return Show(LayerStatusColumn::kHide); }
  int Verify() { return Show(LayerStatusColumn::kShow); }

 private:
  Deadline Soon() const { return Deadline::After(clock_, kStoreLimit); }
  Result<blocks::ImageReport> RunConversion();
  int Show(LayerStatusColumn column);
  Result<ShownImage> ReadImage(LayerStatusColumn column);
  void ReadLayer(blocks::BlobStore& store, LayerStatusColumn column, std::atomic<uint64_t>* done, ShownLayer* shown);

  const ImageOptions& options_;
  const OutputFormat format_;
  const Clock& clock_;
  const ImagePlaces places_;
};

Result<blocks::ImageReport> ImageRunner::RunConversion() {
  blocks::ConvertProgress progress;
  blocks::ImageConversion conversion;
  ASSIGN_OR_RETURN(conversion.platform, PlatformOf(options_));
  ASSIGN_OR_RETURN(conversion.options.max_chunk_blocks, ChunkBlocks(options_.chunk_size));
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  conversion.options.threads = options_.threads > 0 ? options_.threads : cores;
  conversion.options.store_limit = kStoreLimit;
  conversion.progress = &progress;
  ASSIGN_OR_RETURN(const std::unique_ptr<blocks::BlobStore> store,
                   places_.OpenStore(options_.store, blocks::StoreAccess::kWrite));
  ASSIGN_OR_RETURN(const std::unique_ptr<blocks::ImageSource> source, places_.OpenSource(options_.source));
  std::atomic<size_t> layer{0}, layers{0};
  conversion.on_layer = [&](const blocks::SourceImage& image, size_t number) {
    layers = image.layers.size();
    layer = number + 1;
  };
  const ProgressLine line(clock_, [&] {
    return fmt::format("layer {} of {}  {} read  {} unpacked  {} stored", layer.load(), layers.load(),
                       SizeText(progress.source_bytes), SizeText(progress.tar_bytes), SizeText(progress.stored_bytes));
  });
  return blocks::ConvertImage(*source, *store, conversion, clock_, {});
}

int ImageRunner::Convert() {
  const TimePoint start = clock_.Now();
  const Result<blocks::ImageReport> report = RunConversion();
  const double seconds = ToSeconds(clock_.Now() - start);
  if (!options_.report.empty()) {
    const Status written =
        WriteReport(options_.report, report.ok() ? ConversionReport(*report, seconds) : FailureReport(report.status()));
    // Who waits for it must not take the conversion for done.
    if (!written.ok()) return Fail(written.Annotate("--report"));
  }
  if (!report.ok()) return Fail(report.status().Annotate("convert " + options_.source));
  if (format_ != OutputFormat::kTable) {
    fmt::print("{}", RenderValue(ConvertValue(*report, options_.store, seconds), format_));
    return 0;
  }
  fmt::print("{}{}", RenderTable(ConvertTable(*report)), ConvertSummary(*report, seconds));
  return 0;
}

void ImageRunner::ReadLayer(blocks::BlobStore& store, LayerStatusColumn column, std::atomic<uint64_t>* done,
                            ShownLayer* shown) {
  if (column == LayerStatusColumn::kShow) {
    blocks::CheckOptions check;
    check.on_progress = [done](uint64_t bytes) { *done += bytes; };
    Result<blocks::CheckedLayer> checked = blocks::CheckLayer(store, shown->layer, check, clock_, {});
    if (checked.ok()) {
      shown->checked = *checked;
      return;
    }
    shown->status = checked.status();
  }
  const Result<blocks::LayerIndex> index = blocks::ReadLayerIndex(store, shown->layer, Soon());
  if (!index.ok()) {
    if (shown->status.ok()) shown->status = index.status();
    return;
  }
  shown->checked.header = index->header();
  shown->checked.chunks = index->chunk_count();
}

Result<ShownImage> ImageRunner::ReadImage(LayerStatusColumn column) {
  ASSIGN_OR_RETURN(const blocks::Platform platform, PlatformOf(options_));
  ASSIGN_OR_RETURN(const std::unique_ptr<blocks::BlobStore> store,
                   places_.OpenStore(options_.store, blocks::StoreAccess::kRead));
  ASSIGN_OR_RETURN(FoundImage found, places_.FindImage(*store, options_.image, platform, Soon()));
  uint64_t total = 0;
  for (const blocks::BlockLayer& layer : found.image.layers) {
    total += layer.index.size_bytes;
    for (const blocks::Descriptor& data : layer.data) total += data.size_bytes;
  }
  std::atomic<uint64_t> done{0};
  const ProgressLine line(clock_, [&] { return fmt::format("{} of {} checked", SizeText(done), SizeText(total)); });
  ShownImage shown{found.manifest.descriptor, found.image, {}};
  for (const blocks::BlockLayer& layer : found.image.layers) {
    ReadLayer(*store, column, &done, &shown.layers.emplace_back(ShownLayer{layer, {}, Status()}));
  }
  return shown;
}

int ImageRunner::Show(LayerStatusColumn column) {
  const Result<ShownImage> image = ReadImage(column);
  if (!image.ok()) return Fail(image.status());
  const auto failed = [](const ShownLayer& layer) { return !layer.status.ok(); };
  const bool is_broken = std::any_of(image->layers.begin(), image->layers.end(), failed);
  if (format_ != OutputFormat::kTable) {
    fmt::print("{}", RenderValue(ImageValue(*image, column), format_));
  } else {
    fmt::print("image     {}\nfor       {}\nplatform  {}\n{}", image->manifest.digest.ToString(),
               image->image.subject.digest.ToString(), image->image.platform,
               RenderTable(ImageTable(*image, is_broken ? LayerStatusColumn::kShow : column)));
  }
  return is_broken ? kExitBroken : 0;
}

using ImageBody = int (ImageRunner::*)();

class ImageGroup final : public ImageCommands {
 public:
  ImageGroup(CLI::App& app, std::string* output) : output_(output) {
    group_ = app.add_subcommand("image", "container images converted for lazy start");
    group_->require_subcommand(1)->fallthrough();
    CLI::App* convert = Add("convert",
                            "convert an image, layer by layer; layers that the store holds are not converted again, "
                            "so that a run that was broken off goes on from there",
                            &ImageRunner::Convert);
    convert->add_option("source", options_.source, kSourceHelp)->required();
    convert->add_option("--chunk-size", options_.chunk_size, "largest piece that is fetched at once, 4KiB to 4MiB")
        ->capture_default_str();
    convert->add_option("--threads", options_.threads, "threads that compress (one for each processor unless given)")
        ->check(CLI::Range(1, 1024));
    convert->add_option("--report", options_.report,
                        "file for what came of it, as JSON: digests and sizes, or the error");
    AddStore(*convert);
    AddReader("inspect", "what a converted image consists of", &ImageRunner::Inspect);
    AddReader("verify", "read a converted image whole and check every digest; exit code 3 when something is wrong",
              &ImageRunner::Verify);
  }

  bool is_given() const override {
    return std::any_of(bodies_.begin(), bodies_.end(), [](const auto& body) { return body.first->parsed(); });
  }

  int Run(OutputFormat format, const Clock& clock) override {
    ImageRunner runner(options_, format, clock);
    for (const auto& [command, body] : bodies_) {
      if (command->parsed()) return (runner.*body)();
    }
    return 2;
  }

 private:
  CLI::App* Add(const std::string& name, const std::string& help, ImageBody body) {
    CLI::App* command = group_->add_subcommand(name, help);
    command->add_option("-o,--output", *output_, "table, json or yaml")->capture_default_str();
    command->fallthrough();
    bodies_.emplace_back(command, body);
    return command;
  }

  void AddReader(const std::string& name, const std::string& help, ImageBody body) {
    CLI::App* command = Add(name, help, body);
    command
        ->add_option("image", options_.image,
                     fmt::format("the original ({}), its digest, or the converted image's digest or tag", kSourceHelp))
        ->required();
    AddStore(*command);
  }

  void AddStore(CLI::App& command) {
    command.add_option("--store", options_.store, kStoreHelp)->required();
    command.add_option("--platform", options_.platform, "OS/ARCHITECTURE[/VARIANT] (this machine's unless given)");
    AddRegistryOptions(command, &options_.registry);
  }

  std::string* output_;
  ImageOptions options_;
  CLI::App* group_;
  std::vector<std::pair<CLI::App*, ImageBody>> bodies_;
};

}  // namespace

std::unique_ptr<ImageCommands> ImageCommands::AddTo(CLI::App& app, std::string* output) {
  return std::make_unique<ImageGroup>(app, output);
}

}  // namespace paceline::cli
