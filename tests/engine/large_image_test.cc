// The memory that an image of 30 GB costs.
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "lib/blocks/engine/chunk_engine.h"
#include "lib/blocks/format/zstd_codec.h"
#include "tests/engine/made_layer.h"
#include "tests/fakes/temporary_folder.h"

namespace paceline::blocks {
namespace {

constexpr uint32_t kChunks = 480000, kBlocks = 16;  // of 64 KiB: 31 GB

uint64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * kBlockBytes;
}

// All chunks have the same content, stored once.
struct LargeLayer {
  LargeLayer() {
    ZstdEncoder encoder(1);
    const std::string metadata(size_t{101} * kBlockBytes, 'm'), content(size_t{kBlocks} * kBlockBytes, 'c');
    LayerIndexParts parts;
    encoder.AppendFrame(content, &blob);
    parts.blobs.push_back({Sha256Of(blob), blob.size()});
    const Chunk chunk{
        .blocks = kBlocks, .stored_bytes = static_cast<uint32_t>(blob.size()), .digest = Sha256Of(content)};
    parts.chunks.assign(kChunks, chunk);
    encoder.AppendFrame(metadata, &parts.stored_metadata);
    parts.header.max_chunk_blocks = kBlocks;
    parts.header.data_blocks = kChunks * kBlocks;
    parts.header.meta_blocks = 100;
    parts.header.metadata_digest = Sha256Of(metadata);
    index = std::make_shared<const std::string>(EncodeLayerIndex(parts));
  }
  std::string blob;
  std::shared_ptr<const std::string> index;
};

class LargeStore final : public BlobStore {
 public:
  explicit LargeStore(std::string blob) : blob_(std::move(blob)) {}
  Result<uint64_t> StatBlob(const Digest&, Deadline) override { return static_cast<uint64_t>(blob_.size()); }
  Status ReadBlob(const Digest&, uint64_t offset_bytes, std::span<char> out, Deadline) override {
    if (offset_bytes + out.size() > blob_.size()) return DataLossError("beyond the end");
    std::copy_n(blob_.begin() + static_cast<std::ptrdiff_t>(offset_bytes), out.size(), out.begin());
    return Status();
  }
  Result<std::unique_ptr<BlobWriter>> NewBlob(Deadline) override { return UnimplementedError("read only"); }
  Result<StoredManifest> GetManifest(const std::string&, Deadline) override { return NotFoundError("none"); }
  Result<Descriptor> PutManifest(const std::string&, const std::string&, std::string_view, Deadline) override {
    return UnimplementedError("read only");
  }
  std::string Describe() const override { return "large"; }

 private:
  const std::string blob_;
};

TEST(LargeImage, ThirtyGigabytesStayUnderAQuarterOfOneInMemory) {
  fakes::TemporaryFolder folder;
  const RealClock clock;
  LargeLayer layer;
  const Digest digest = Sha256Of(*layer.index);
  const auto cache = *ChunkCache::Open({.folder = folder / "cache", .quota_bytes = 64 << 20}, clock);
  ChunkEngine engine({}, *cache, nullptr, clock);
  auto opened = engine.Open({{digest, layer.index}}, std::make_shared<LargeStore>(layer.blob));
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  std::unique_ptr<ImageReader> image = *std::move(opened);
  std::vector<ChunkId> all;
  for (uint32_t chunk = 0; chunk < kChunks; ++chunk) all.push_back({0, chunk});
  image->Prefetch(all, FetchPriority::kBackground);
  std::mt19937_64 random(1);
  std::string out(kBlockBytes, 'x');
  for (int i = 0; i < 3000; ++i) {
    const uint64_t block = 1 + random() % (uint64_t{kChunks} * kBlocks);
    ASSERT_TRUE(image->Read(0, block * kBlockBytes, out).ok());
    ASSERT_EQ(out[0], 'c');
  }
  const uint64_t resident = ResidentBytes();
  RecordProperty("resident_mib", static_cast<int>(resident >> 20));
#if !defined(__clang__)  // whose builds are those with sanitizers, which keep memory of their own
  EXPECT_LT(resident, uint64_t{256} << 20);
#endif
  image.reset();
  ASSERT_TRUE(engine.AwaitIdle(Deadline::After(clock, std::chrono::seconds(30))));
  EXPECT_LE(cache->stats().used_bytes, uint64_t{64} << 20);
}

}  // namespace
}  // namespace paceline::blocks
