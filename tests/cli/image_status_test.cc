#include "cli/image_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::cli {
namespace {

using testing::ElementsAre;

const std::string kNodeStatus = R"({"version": 1, "asked": [
  {"name": "r.test/plain:1", "mode": "Pulled", "reason": "NotConverted", "message": "no store has it"},
  {"name": "r.test/away:1", "mode": "Pulled", "reason": "Unavailable", "message": "docker://s: refused"},
  {"name": "r.test/lazy:1", "mode": "Lazy", "converted": "sha256:c", "askedAt": "2026-01-02T03:04:01Z",
   "readyAt": "2026-01-02T03:04:01.5Z"}],
 "images": [
  {"name": "r.test/lazy:1", "digest": "sha256:c", "memoryBytes": 1048576, "diskBytes": 1048576, "peerBytes": 0,
   "originBytes": 3145728, "chunkHits": 3, "chunkMisses": 1, "hotSet": {"state": "Fetched"}},
  {"name": "r.test/old:1", "digest": "sha256:o"}]})";

TEST(ImageStatusTable, ShowsEachImageOnce) {
  const Result<Table> table = ImageStatusTable(kNodeStatus);
  ASSERT_TRUE(table.ok()) << table.status().ToString();
  EXPECT_THAT(
      table->rows,
      ElementsAre(ElementsAre("r.test/plain:1", "Pulled", "", "", "", "", "", "", "NotConverted"),
                  ElementsAre("r.test/away:1", "Pulled", "", "", "", "", "", "", "Unavailable: docker://s: refused"),
                  ElementsAre("r.test/lazy:1", "Lazy", "0.50 s", "3.0 MiB", "0 B", "2.0 MiB", "75 %", "Fetched", ""),
                  ElementsAre("r.test/old:1", "Lazy", "", "0 B", "0 B", "0 B", "", "", "")));
}

TEST(ImageStatusTable, DamageIsSaidOrShown) {
  for (size_t length = 0; length < kNodeStatus.size(); ++length) {
    EXPECT_EQ(ImageStatusTable(kNodeStatus.substr(0, length)).status().code(), StatusCode::kDataLoss);
  }
  for (size_t at = 0; at < kNodeStatus.size(); ++at) {
    std::string damaged = kNodeStatus;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    const Result<Table> table = ImageStatusTable(damaged);
    if (table.ok()) {
      EXPECT_LE(table->rows.size(), 5U);
    }
  }
}

}  // namespace
}  // namespace paceline::cli
