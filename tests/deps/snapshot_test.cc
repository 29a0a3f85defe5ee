#include "lib/deps/snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lib/deps/key.h"

namespace paceline::deps {
namespace {

SnapshotRecord Record() {
  SnapshotRecord record;
  KeyInputs key;
  key.command = "make";
  key.capture = {"/b", "/a"};
  record.key_document = DumpJson(KeyDocument(key));
  record.created = WallTime(std::chrono::seconds(1700000000));
  record.expires = record.created + std::chrono::hours(24);
  record.is_pinned = true;
  record.class_reason = "why";
  record.install_seconds = 1.5;
  record.files = 3;
  record.bytes = 4;
  record.removed = 5;
  record.stored_bytes = 6;
  record.new_bytes = 7;
  record.dropped = {{"cache", 2}};
  record.external_links = {{"/a/python", "/usr/bin/python3"}};
  record.warnings = {"careful"};
  return record;
}

SnapshotManifest Manifest() {
  SnapshotManifest manifest;
  manifest.key = std::string(64, 'b');
  manifest.ns = "team";
  manifest.created = "2026-01-02T03:04:05Z";
  manifest.platform = "linux/x86_64";
  manifest.record = {kRecordMediaType, blocks::Sha256Of("r"), 10, {}};
  manifest.layer.diff_id = blocks::Sha256Of("d");
  manifest.layer.index = {blocks::kIndexMediaType, blocks::Sha256Of("i"), 20, {}};
  manifest.layer.data = {{blocks::kDataMediaType, blocks::Sha256Of("1"), 30, {}},
                         {blocks::kDataMediaType, blocks::Sha256Of("2"), 40, {}}};
  return manifest;
}

TEST(SnapshotRecord, ComesBackAsItWas) {
  const std::string text = EncodeRecord(Record());
  const Result<SnapshotRecord> read = ParseRecord(text);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(EncodeRecord(*read), text);
  EXPECT_EQ(read->external_links, Record().external_links);
  EXPECT_EQ(read->expires, Record().expires);
  EXPECT_EQ(KeyField(*read, "command"), "make");
  EXPECT_EQ(KeyList(*read, "capture"), (std::vector<std::string>{"/a", "/b"}));
  EXPECT_EQ(KeyField(*read, "nothing"), "");
}

TEST(SnapshotManifest, ComesBackAsItWas) {
  const std::string text = EncodeSnapshotManifest(Manifest());
  const Result<SnapshotManifest> read = ParseSnapshotManifest(text);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(EncodeSnapshotManifest(*read), text);
  EXPECT_EQ(read->layer, Manifest().layer);
}

TEST(SnapshotManifest, TheBlockImageFollowsFromIt) {
  const blocks::Descriptor snapshot{blocks::kManifestMediaType, blocks::Sha256Of("s"), 50, {}};
  const Result<blocks::BlockImageManifest> image = blocks::ParseImageManifest(DerivedImage(Manifest(), snapshot));
  ASSERT_TRUE(image.ok()) << image.status().ToString();
  EXPECT_EQ(image->subject.digest, snapshot.digest);
  EXPECT_EQ(image->config, Manifest().record.digest);
  ASSERT_EQ(image->layers.size(), 1U);
  EXPECT_EQ(image->layers[0], Manifest().layer);
}

TEST(SnapshotManifest, DamageIsRefusedOrHarmless) {
  const std::string manifest = EncodeSnapshotManifest(Manifest()), record = EncodeRecord(Record());
  for (size_t i = 0; i < manifest.size(); ++i) {
    EXPECT_FALSE(ParseSnapshotManifest(manifest.substr(0, i)).ok());
    std::string flipped = manifest;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x11);
    ParseSnapshotManifest(flipped).status().IgnoreError();  // any answer but a crash
  }
  for (size_t i = 0; i < record.size(); ++i) {
    EXPECT_FALSE(ParseRecord(record.substr(0, i)).ok());
    std::string flipped = record;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x11);
    ParseRecord(flipped).status().IgnoreError();
  }
}

TEST(SnapshotRecord, AnotherVersionIsSaidToBeOne) {
  Json json = ParseJson(EncodeRecord(Record())).value_or(Json());
  json["recordVersion"] = 2;
  EXPECT_EQ(ParseRecord(DumpJson(json)).status().code(), StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace paceline::deps
