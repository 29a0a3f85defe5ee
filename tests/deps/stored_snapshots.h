// A folder store with snapshots whose layers are some bytes: for tests of what lies around a layer. One thread.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "lib/base/json.h"
#include "lib/blocks/format/folder_store.h"
#include "lib/blocks/format/manifest.h"
#include "lib/deps/key.h"
#include "lib/deps/snapshot_store.h"
#include "tests/fakes/simulated_clock.h"
#include "tests/fakes/temporary_folder.h"

namespace paceline::deps {

class StoredSnapshots : public testing::Test {
 protected:
  StoredSnapshots() : clock_(RealClock().WallNow()) {  // that of the files
    auto store = blocks::OpenFolderStore(store_folder(), blocks::StoreAccess::kWrite);
    EXPECT_TRUE(store.ok()) << store.status().ToString();
    store_ = *std::move(store);
  }

  std::string store_folder() const { return folder_ / "store"; }
  std::string lease_folder() const { return store_folder() + "/leases"; }

  static std::string KeyDocumentOf(const std::string& command) {
    KeyInputs key;
    key.ns = "team";
    key.command = command;
    key.capture = {"/opt/venv"};
    return DumpJson(KeyDocument(key));
  }
  static std::string KeyOfCommand(const std::string& command) { return blocks::Sha256Of(KeyDocumentOf(command)).Hex(); }

  // The layer's bytes are those of `contents`, as index and as its one blob.
  FoundSnapshot Publish(const std::string& command, const std::string& contents, Duration life = std::chrono::hours(1),
                        const std::optional<blocks::SigningKey>& key = std::nullopt) {
    const auto blob = [this](const char* type, const std::string& bytes) {
      return *blocks::WriteWholeBlob(*store_, type, bytes, Deadline::Infinite());
    };
    SnapshotManifest manifest;
    manifest.key = KeyOfCommand(command);
    manifest.ns = "team";
    manifest.created = FormatRfc3339(clock_.WallNow());
    manifest.platform = "linux/x86_64";
    manifest.layer.diff_id = blocks::Sha256Of(contents);
    manifest.layer.index = blob(blocks::kIndexMediaType, "index of " + contents);
    manifest.layer.data = {blob(blocks::kDataMediaType, contents)};
    SnapshotRecord record;
    record.key_document = KeyDocumentOf(command);
    record.created = clock_.WallNow();
    record.expires = record.created + life;
    const Result<FoundSnapshot> published = PublishSnapshot(*store_, manifest, record, key, Deadline::Infinite());
    EXPECT_TRUE(published.ok()) << published.status().ToString();
    return *published;
  }

  bool HasTag(const std::string& tag) const { return std::filesystem::exists(store_folder() + "/tags/" + tag); }
  bool HasBlob(const blocks::Digest& digest) const {
    return std::filesystem::exists(store_folder() + "/blobs/sha256/" + digest.Hex());
  }

  const fakes::TemporaryFolder folder_;
  fakes::SimulatedClock clock_;
  std::unique_ptr<blocks::BlobStore> store_;
};

}  // namespace paceline::deps
