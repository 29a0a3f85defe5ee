// Measures the conversion of one layer: blocks-bench LAYER STORE [THREADS [CHUNK_KIB]]. LAYER is a tar file, plain,
// gzip or zstd. Prints one line of JSON. bench/blocks/run makes the report.
#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdlib>
#include <filesystem>

#include "lib/blocks/format/folder_store.h"
#include "lib/blocks/image/layer_converter.h"

namespace paceline::blocks {
namespace {

// Digests that the conversion checks; they are not part of what is measured.
Result<SourceBlob> Open(const std::string& path) {
  SourceBlob source;
  StreamTally blob, tar;
  std::string piece(1U << 20, '\0');
  ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> file, OpenFileSource(path));
  ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> stream, NewDecompressedSource(NewTallySource(std::move(file), &blob)));
  for (;;) {
    ASSIGN_OR_RETURN(const size_t got, stream->Read(piece));
    if (got == 0) break;
    tar.hash.Update({piece.data(), got});
  }
  source.digest = blob.hash.Finish();
  source.size_bytes = blob.bytes;
  source.diff_id = tar.hash.Finish();
  ASSIGN_OR_RETURN(source.blob, OpenFileSource(path));
  return source;
}

double CpuSeconds(const rusage& usage) {
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Status Run(const std::string& layer, const std::string& folder, const ConvertOptions& options) {
  const RealClock clock;
  ASSIGN_OR_RETURN(SourceBlob source, Open(layer));
  ASSIGN_OR_RETURN(const std::unique_ptr<BlobStore> store, OpenFolderStore(folder, StoreAccess::kWrite));
  ConvertProgress progress;
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  const TimePoint start = clock.Now();
  const uint64_t source_bytes = source.size_bytes;
  ASSIGN_OR_RETURN(const ConvertedLayer made,
                   ConvertLayer(std::move(source), nullptr, *store, options, clock, &progress, {}));
  const double wall = ToSeconds(clock.Now() - start);
  ::getrusage(RUSAGE_SELF, &after);
  const double cpu = CpuSeconds(after) - CpuSeconds(before);
  const double megabytes = static_cast<double>(made.tar_bytes) / 1e6;
  fmt::print(
      "{{\"chunk_kib\":{},\"threads\":{},\"source_bytes\":{},\"tar_bytes\":{},\"data_bytes\":{},\"index_bytes\":{},"
      "\"chunks\":{},\"inodes\":{},\"seconds\":{:.2f},\"cpu_seconds\":{:.2f},\"mb_per_cpu_second\":{:.0f},"
      "\"peak_rss_mib\":{}}}\n",
      options.max_chunk_blocks * 4, options.threads, source_bytes, made.tar_bytes, made.stored_bytes,
      made.layer.index.size_bytes, made.chunks, made.inodes, wall, cpu, megabytes / cpu, after.ru_maxrss / 1024);
  return Status();
}

}  // namespace
}  // namespace paceline::blocks

int main(int argc, char** argv) {
  if (argc < 3 || argc > 5) {
    fmt::print(stderr, "usage: blocks-bench LAYER STORE [THREADS [CHUNK_KIB]]\n");
    return 2;
  }
  paceline::blocks::ConvertOptions options;
  if (argc > 3) options.threads = std::max(1, std::atoi(argv[3]));
  if (argc > 4) options.max_chunk_blocks = static_cast<uint32_t>(std::max(4, std::atoi(argv[4]))) / 4;
  const paceline::Status status = paceline::blocks::Run(argv[1], argv[2], options);
  if (!status.ok()) fmt::print(stderr, "blocks-bench: {}\n", status.message());
  return status.ok() ? 0 : 1;
}
