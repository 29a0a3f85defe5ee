#include "agent/csi/volume_record.h"

#include <gtest/gtest.h>

#include <random>

namespace paceline::agent {
namespace {

constexpr char kKubelet[] = "/var/lib/kubelet";

VolumeRecord Sample() {
  VolumeRecord record;
  record.spec.volume_id = "csi-1";
  record.spec.type = "scratch";
  record.spec.target = *ParseTargetPath(kKubelet, "/var/lib/kubelet/pods/u-1/volumes/kubernetes.io~csi/work/mount");
  record.spec.pod = {"team-a", "trainer-0", "u-1"};
  record.spec.is_read_only = true;
  record.spec.attributes = {{"size", "1Gi"}, {"medium", "Memory"}};
  record.phase = VolumePhase::kPublished;
  record.requested_at = *ParseRfc3339("2026-01-02T03:04:05.123456Z");
  record.published_at = *ParseRfc3339("2026-01-02T03:04:06.5Z");
  return record;
}

TEST(VolumeRecord, ReadsBackWhatItWrote) {
  const VolumeRecord written = Sample();
  Result<VolumeRecord> read = ParseVolumeRecord(RenderVolumeRecord(written), kKubelet);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->spec.volume_id, written.spec.volume_id);
  EXPECT_EQ(read->spec.type, written.spec.type);
  EXPECT_EQ(read->spec.target.path, written.spec.target.path);
  EXPECT_EQ(read->spec.target.volume_name, "work");
  EXPECT_EQ(read->spec.pod, written.spec.pod);
  EXPECT_EQ(read->spec.is_read_only, written.spec.is_read_only);
  EXPECT_EQ(read->spec.attributes, written.spec.attributes);
  EXPECT_EQ(read->phase, written.phase);
  EXPECT_EQ(read->requested_at, written.requested_at);
  EXPECT_EQ(read->published_at, written.published_at);
}

TEST(VolumeRecord, WritesBytesThatAreNoText) {
  VolumeRecord record = Sample();
  record.spec.attributes["size"] = "\xff\xfe";
  EXPECT_TRUE(ParseVolumeRecord(RenderVolumeRecord(record), kKubelet).ok());
}

TEST(VolumeRecord, RefusesATargetOutsideKubeletsFolder) {
  Result<VolumeRecord> read = ParseVolumeRecord(RenderVolumeRecord(Sample()), "/srv/kubelet");
  EXPECT_EQ(read.status().code(), StatusCode::kDataLoss);
}

TEST(VolumeRecord, SurvivesDamage) {
  const std::string text = RenderVolumeRecord(Sample());
  for (size_t length = 0; length + 2 < text.size(); ++length) {
    EXPECT_EQ(ParseVolumeRecord(text.substr(0, length), kKubelet).status().code(), StatusCode::kDataLoss) << length;
  }
  std::mt19937 random(11);
  for (int i = 0; i < 5000; ++i) {
    std::string damaged = text;
    for (int flips = 0; flips < 2; ++flips) damaged[random() % damaged.size()] = static_cast<char>(random());
    Result<VolumeRecord> read = ParseVolumeRecord(damaged, kKubelet);
    if (!read.ok()) continue;
    EXPECT_TRUE(ParseTargetPath(kKubelet, read->spec.target.path).ok());
  }
}

}  // namespace
}  // namespace paceline::agent
