// Many threads read, prefetch, open and close while the cache evicts, the store damages bytes and the disk flips bits.
// Every byte that is given must be right. Meant for ThreadSanitizer as well.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>

#include "lib/blocks/engine/chunk_engine.h"
#include "tests/engine/made_layer.h"
#include "tests/fakes/temporary_folder.h"

namespace paceline::blocks {
namespace {

class Chaos {
 public:
  Chaos() {
    store_->Add(lower_);
    store_->Add(upper_);
    store_->SetFault([this](const auto&, std::span<char> out) {
      const int number = answers_++;
      if (number % 17 == 5) out[out.size() / 2] ^= 1;
      return number % 23 == 7 ? UnavailableError("now and then") : Status();
    });
  }

  void Read(ImageReader& image, uint32_t seed, int rounds) {
    std::mt19937 random(seed);
    for (int i = 0; i < rounds; ++i) {
      const size_t layer = random() % 2;
      const std::string& truth = layer == 0 ? lower_.image : upper_.image;
      const uint64_t offset = random() % truth.size();
      const size_t size = std::min<size_t>(1 + random() % 60000, truth.size() - offset);
      std::string out(size, 'x');
      const Status status = image.Read(layer, offset, out);
      if (status.ok()) {
        ++good;
        if (out != truth.substr(offset, size)) ++wrong;
      } else {
        ++failed;
      }
      if (i % 10 == 0) image.Prefetch({{0, static_cast<uint32_t>(random() % 60)}}, FetchPriority::kBackground);
    }
  }

  void DamageDisk(const std::string& cache_folder, std::stop_token stop) {
    const std::string path = cache_folder + "/layers/" + lower_.index_digest.Hex() + "/image";
    std::mt19937 random(7);
    while (!stop.stop_requested()) {
      const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
      if (fd < 0) continue;
      const auto at = static_cast<off_t>(kBlockBytes + random() % (60 * 4 * kBlockBytes));
      [[maybe_unused]] const ssize_t put = pwrite(fd, "!", 1, at);
      close(fd);
      clock_.SleepFor(std::chrono::milliseconds(1), stop);
    }
  }

  const MadeLayer lower_{std::vector<uint32_t>(60, 4), 1};
  const MadeLayer upper_{std::vector<uint32_t>(30, 3), 2};
  std::shared_ptr<MadeStore> store_ = std::make_shared<MadeStore>();
  RealClock clock_;
  std::atomic<int> answers_{0}, good{0}, wrong{0}, failed{0};
};

TEST(ChunkEngineStress, EveryByteIsRightWhateverHappens) {
  fakes::TemporaryFolder folder;
  Chaos chaos;
  const auto cache = *ChunkCache::Open({.folder = folder / "cache", .quota_bytes = 40 * 4 * kBlockBytes}, chaos.clock_);
  ChunkEngine engine({.memory_bytes = 20 * 4 * kBlockBytes}, *cache, nullptr, chaos.clock_);
  const auto open = [&] { return *engine.Open({chaos.lower_.source(), chaos.upper_.source()}, chaos.store_); };
  {
    const auto shared = open();
    std::jthread damager([&](std::stop_token stop) { chaos.DamageDisk(folder / "cache", std::move(stop)); });
    std::vector<std::jthread> threads;
    for (uint32_t i = 0; i < 5; ++i) threads.emplace_back([&, i] { chaos.Read(*shared, i, 150); });
    threads.emplace_back([&] {
      for (uint32_t i = 0; i < 15; ++i) chaos.Read(*open(), 100 + i, 8);
    });
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        cache->SaveUseTimes();
        EXPECT_LE(cache->stats().used_bytes, uint64_t{50} * 4 * kBlockBytes);  // quota and what is being counted
      }
    });
  }
  EXPECT_EQ(chaos.wrong, 0);
  EXPECT_GT(chaos.good, chaos.failed);
  EXPECT_TRUE(engine.AwaitIdle(Deadline::After(chaos.clock_, std::chrono::seconds(30))));
  EXPECT_LE(cache->stats().used_bytes, uint64_t{40} * 4 * kBlockBytes);
  EXPECT_GT(cache->stats().evicted_chunks, 0u);
}

}  // namespace
}  // namespace paceline::blocks
