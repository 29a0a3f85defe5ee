// Recording into a folder store and putting back by copying, with real files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lib/base/json.h"
#include "lib/blocks/format/folder_store.h"
#include "lib/blocks/format/hot_set_tag.h"
#include "lib/blocks/format/manifest.h"
#include "lib/blocks/image/image_check.h"
#include "lib/deps/copy_restorer.h"
#include "lib/deps/lease.h"
#include "lib/deps/recorder.h"
#include "tests/blocks_image/erofs_mount.h"
#include "tests/blocks_image/tree_facts.h"
#include "tests/fakes/child_program.h"
#include "tests/fakes/temporary_folder.h"

namespace paceline::deps {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
namespace fs = std::filesystem;

class RecordTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<blocks::BlobStore>> store =
        blocks::OpenFolderStore(folder_ / "store", blocks::StoreAccess::kWrite);
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    store_ = *std::move(store);
  }

  RecordRequest Request(const std::string& command) const {
    RecordRequest request;
    request.key.ns = "team";
    request.key.command = command;
    request.key.capture = {root_};
    request.key.machine.arch = "x86_64";
    request.environment = {"PATH=/usr/bin:/bin", "ROOT=" + root_, "SOURCE=" + folder_.path()};
    request.lease_folder = folder_ / "store/leases";
    request.convert.threads = 2;
    return request;
  }
  RecordOutcome Record(const RecordRequest& request) {
    RecordProgress progress;
    return RecordInstall(request, *store_, &progress, clock_, {});
  }
  RecordOutcome Record(const std::string& command) { return Record(Request(command)); }
  // Everything of a snapshot, put back where it was.
  Status Restore(const FoundSnapshot& snapshot) {
    CopyReport report;
    return RestoreByCopy(*store_, snapshot.manifest.layer, {{root_}, 3, std::chrono::minutes(1)}, &report, clock_, {});
  }
  std::vector<std::string> Facts() const { return blocks::TreeFacts(root_); }
  void Shell(const std::string& script) const {
    ASSERT_EQ(std::system(("set -e; ROOT=" + root_ + "; mkdir -p $ROOT; cd $ROOT; " + script).c_str()), 0) << script;
  }

  fakes::TemporaryFolder folder_;
  const std::string root_ = folder_ / "env";
  RealClock clock_;
  std::unique_ptr<blocks::BlobStore> store_;
};

constexpr char kInstall[] = R"sh(set -e; cd $ROOT; umask 022
mkdir -p bin lib/pkg lib/many; printf '#!/bin/sh\n' > bin/tool; chmod 755 bin/tool; ln -s tool bin/link
ln -s /bin/sh bin/out; ln bin/tool bin/hard; mkfifo pipe; : > empty
head -c 300000 /dev/zero > sparse; printf x >> sparse
i=0; while [ $i -lt 200 ]; do printf 'file %s' $i > lib/many/$i; i=$((i+1)); done
yes content | head -c 500000 > lib/pkg/large)sh";

TEST_F(RecordTest, WhatWasInstalledComesBack) {
  RecordRequest request = Request(kInstall);
  request.key.times = FileTimes::kKept;
  const RecordOutcome outcome = Record(request);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  EXPECT_EQ(outcome.report.snapshot.record.files, 204U);
  const std::vector<std::string> installed = Facts();
  fs::remove_all(root_);
  ASSERT_TRUE(Restore(outcome.report.snapshot).ok());
  std::vector<std::string> restored = Facts();
  // The sentinel has the normal time, and the directory that it is written to that of the writing.
  const auto without_sentinel = [](std::vector<std::string> lines) {
    std::erase_if(lines, [](const std::string& line) {
      return line.starts_with(" mode") || line.find(kSentinelName) != std::string::npos;
    });
    return lines;
  };
  EXPECT_EQ(without_sentinel(restored), without_sentinel(installed));
  EXPECT_EQ(ReadSentinel(root_)->key, outcome.report.snapshot.manifest.key);
  EXPECT_FALSE(fs::exists(root_ + "/" + kRecordingName));
}

TEST_F(RecordTest, AllThatManifestsNameIsInTheStore) {
  const RecordOutcome outcome = Record(kInstall);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  const FoundSnapshot& snapshot = outcome.report.snapshot;
  for (const std::string& tag : {SnapshotTag(snapshot.manifest.key), blocks::ImageTag(snapshot.descriptor.digest)}) {
    const Result<blocks::StoredManifest> manifest = store_->GetManifest(tag, Deadline::Infinite());
    ASSERT_TRUE(manifest.ok()) << tag;
    const Json json = ParseJson(manifest->bytes).value_or(Json::object());
    std::vector<Json> named = json["layers"];
    named.push_back(json["config"]);
    for (const Json& blob : named) {
      const std::string digest = blob["digest"];
      EXPECT_TRUE(store_->StatBlob(*blocks::ParseDigest(digest), Deadline::Infinite()).ok()) << tag << " " << digest;
    }
  }
}

TEST_F(RecordTest, TwoInstallsGiveTheSameBytes) {
  const RecordOutcome first = Record(kInstall);
  ASSERT_TRUE(first.status.ok()) << first.status.ToString();
  fs::remove_all(root_);
  RecordRequest request = Request(kInstall);
  request.records_again = true;
  const RecordOutcome second = Record(request);
  ASSERT_TRUE(second.status.ok()) << second.status.ToString();
  EXPECT_EQ(second.report.snapshot.manifest.layer.diff_id, first.report.snapshot.manifest.layer.diff_id);
  EXPECT_EQ(second.report.snapshot.record.new_bytes, 0U);
}

TEST_F(RecordTest, ASecondRunFindsItAndRunsNothing) {
  ASSERT_TRUE(Record("echo 1 > $ROOT/a").status.ok());
  const RecordOutcome again = Record("echo 1 > $ROOT/a");
  EXPECT_TRUE(again.status.ok()) << again.status.ToString();
  EXPECT_TRUE(again.report.was_there);
  EXPECT_FALSE(again.ran_install);
  // Another command over the same, no longer bare directory is no snapshot.
  const RecordOutcome other = Record("echo 2 > $ROOT/b");
  EXPECT_EQ(other.status.code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(other.ran_install);
}

TEST_F(RecordTest, ChangesOverABaseAreRecordedAsSuch) {
  Shell("mkdir d; echo base > kept; echo base > changed; echo base > removed; echo x > d/removed; echo y > d/kept");
  const RecordOutcome outcome = Record("cd $ROOT; echo new > changed; rm removed d/removed; echo added > d/added");
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  EXPECT_EQ(outcome.report.snapshot.record.files, 2U);
  EXPECT_EQ(outcome.report.snapshot.record.removed, 2U);
  fs::remove_all(root_);
  Shell("mkdir d; echo base > kept; echo base > changed; echo base > removed; echo x > d/removed; echo y > d/kept");
  ASSERT_TRUE(Restore(outcome.report.snapshot).ok());
  EXPECT_EQ(fakes::ReadText(root_ + "/changed"), "new\n");
  EXPECT_EQ(fakes::ReadText(root_ + "/kept"), "base\n");
  EXPECT_EQ(fakes::ReadText(root_ + "/d/added"), "added\n");
  EXPECT_EQ(fakes::ReadText(root_ + "/d/kept"), "y\n");
  EXPECT_FALSE(fs::exists(root_ + "/removed"));
  EXPECT_FALSE(fs::exists(root_ + "/d/removed"));
}

TEST_F(RecordTest, OnlyTheChangedPackageIsStoredAgain) {
  // Two packages of bytes that do not compress; then one of them in another version.
  Shell("cd ..; head -c 2000000 /dev/urandom > a; head -c 60000 /dev/urandom > b1; head -c 60000 /dev/urandom > b2");
  const RecordOutcome first = Record("mkdir -p $ROOT/a $ROOT/b; cp $SOURCE/a $ROOT/a/; cp $SOURCE/b1 $ROOT/b/b");
  ASSERT_TRUE(first.status.ok()) << first.status.ToString();
  fs::remove_all(root_);
  const RecordOutcome second = Record("mkdir -p $ROOT/a $ROOT/b; cp $SOURCE/a $ROOT/a/; cp $SOURCE/b2 $ROOT/b/b");
  ASSERT_TRUE(second.status.ok()) << second.status.ToString();
  EXPECT_LT(second.report.snapshot.record.new_bytes, 130000U);
  EXPECT_THAT(second.report.snapshot.manifest.layer.data, SizeIs(2));
  const std::vector<std::string> installed = Facts();
  fs::remove_all(root_);
  ASSERT_TRUE(Restore(second.report.snapshot).ok());
  EXPECT_EQ(fakes::ReadText(root_ + "/b/b"), fakes::ReadText(folder_ / "b2"));
  EXPECT_EQ(fakes::ReadText(root_ + "/a/a"), fakes::ReadText(folder_ / "a"));
  const Result<blocks::CheckedLayer> checked =
      blocks::CheckLayer(*store_, second.report.snapshot.manifest.layer, {}, clock_, {});
  EXPECT_TRUE(checked.ok()) << checked.status().ToString();
}

TEST_F(RecordTest, BytecodeStaysOfUse) {
  const RecordOutcome outcome = Record(
      "mkdir -p $ROOT/lib; cd $ROOT/lib; echo 'x = 1' > m.py; echo 'y = 2' > stale.py; echo z > gone.py\n"
      "python3 -m compileall -q . && echo 'y = 22' > stale.py && rm gone.py && touch -d '2020-01-01' stale.py");
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  EXPECT_EQ(outcome.report.snapshot.record.dropped.at("bytecode"), 2U);
  fs::remove_all(root_);
  ASSERT_TRUE(Restore(outcome.report.snapshot).ok());
  struct stat st;
  ASSERT_EQ(stat((root_ + "/lib/m.py").c_str(), &st), 0);
  EXPECT_EQ(st.st_mtim.tv_sec, kNormalTime);
  // Python compiles what it does not believe: the file stays as it is when it does.
  const std::vector<std::string> before = blocks::TreeFacts(root_ + "/lib/__pycache__");
  EXPECT_THAT(before, SizeIs(2));  // the directory and a file
  Shell("cd lib; python3 -c 'import m'");
  EXPECT_EQ(blocks::TreeFacts(root_ + "/lib/__pycache__"), before);
}

TEST_F(RecordTest, AFailedInstallPublishesNothingAndIsRemembered) {
  const RecordOutcome failed = Record("echo half > $ROOT/a; exit 7");
  EXPECT_FALSE(failed.status.ok());
  EXPECT_EQ(failed.report.install.code, 7);
  EXPECT_THAT(ListSnapshots(*store_, "", Deadline::Infinite())->snapshots, IsEmpty());
  const RecordOutcome next = Record("echo whole > $ROOT/a");
  EXPECT_EQ(next.status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(next.status.message(), HasSubstr("--empty-first"));
  EXPECT_FALSE(next.ran_install);
}

TEST_F(RecordTest, WhatMustNotTravelIsNotPublished) {
  const RecordOutcome outcome = Record("echo 'index-url = https://me:hunter2@h/' > $ROOT/pip.conf; touch $ROOT/.netrc");
  EXPECT_EQ(outcome.status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(outcome.status.message(), HasSubstr("pip.conf"));
  EXPECT_THAT(ListSnapshots(*store_, "", Deadline::Infinite())->snapshots, IsEmpty());
  // Not even in a blob that nobody finds.
  for (const auto& blob : fs::directory_iterator(folder_ / "store/blobs/sha256")) {
    EXPECT_THAT(fakes::ReadText(blob.path().string()), Not(HasSubstr("hunter2")));
  }
}

TEST_F(RecordTest, AnInstallThatDoesNothingIsAMistake) {
  EXPECT_EQ(Record("true").status.code(), StatusCode::kInvalidArgument);
}

TEST_F(RecordTest, PrivilegesAreLeftBehindUnlessAskedFor) {
  const std::string command = "echo x > $ROOT/tool; chmod 6755 $ROOT/tool";
  const auto mode = [&](Privileges privileges) {
    fs::remove_all(root_);
    RecordRequest request = Request(command);
    request.privileges = privileges;
    request.records_again = true;
    const RecordOutcome outcome = Record(request);
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.ToString();
    fs::remove_all(root_);
    EXPECT_TRUE(Restore(outcome.report.snapshot).ok());
    struct stat st = {};
    stat((root_ + "/tool").c_str(), &st);
    return st.st_mode & 07777;
  };
  EXPECT_EQ(mode(Privileges::kDropped), 0755U);
  EXPECT_EQ(mode(Privileges::kKept), 06755U);
}

TEST_F(RecordTest, OneRecordsWhileAnotherIsToldWho) {
  RecordRequest request = Request("echo 1 > $ROOT/a");
  const std::string key = [&] {
    RecordRequest same = request;
    return KeyOf(KeyDocument(same.key)).Hex();
  }();
  const Result<Lease> held =
      Lease::Take(request.lease_folder, key, Lease::Mode::kExclusive, clock_, Deadline::At(clock_.Now()));
  ASSERT_TRUE(held.ok());
  const RecordOutcome outcome = Record(request);
  EXPECT_EQ(outcome.status.code(), StatusCode::kAborted);
  EXPECT_FALSE(outcome.ran_install);
}

TEST_F(RecordTest, ASnapshotThatHasEndedIsRecordedAnew) {
  RecordRequest request = Request("echo 1 > $ROOT/a");
  request.ttl = std::chrono::nanoseconds(1);
  ASSERT_TRUE(Record(request).status.ok());
  fs::remove_all(root_);
  const RecordOutcome again = Record(request);
  ASSERT_TRUE(again.status.ok()) << again.status.ToString();
  EXPECT_TRUE(again.ran_install);
}

TEST_F(RecordTest, DamageIsFoundByWhoRestores) {
  const RecordOutcome outcome = Record(kInstall);
  ASSERT_TRUE(outcome.status.ok());
  const std::string blob =
      folder_ / "store/blobs/sha256/" + outcome.report.snapshot.manifest.layer.data[0].digest.Hex();
  std::string bytes = fakes::ReadText(blob);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  std::ofstream(blob, std::ios::binary) << bytes;
  fs::remove_all(root_);
  EXPECT_EQ(Restore(outcome.report.snapshot).code(), StatusCode::kDataLoss);
  EXPECT_FALSE(ReadSentinel(root_).ok());
  EXPECT_TRUE(LookAtBase({root_}, CaptureRules({}, {root_}))->was_cut_off);
}

TEST_F(RecordTest, OnlyItsOwnDirectoriesAreWritten) {
  const RecordOutcome outcome = Record("echo 1 > $ROOT/a");
  ASSERT_TRUE(outcome.status.ok());
  CopyReport report;
  const Status status = RestoreByCopy(*store_, outcome.report.snapshot.manifest.layer,
                                      {{folder_ / "elsewhere"}, 1, std::chrono::minutes(1)}, &report, clock_, {});
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
}

TEST_F(RecordTest, EmptyDirectoriesAndOldStoresAreFoundByKey) {
  EXPECT_EQ(FindSnapshot(*store_, std::string(64, '0'), Deadline::Infinite()).status().code(), StatusCode::kNotFound);
  const RecordOutcome outcome = Record("mkdir $ROOT/d; echo 1 > $ROOT/a");
  ASSERT_TRUE(outcome.status.ok());
  const Result<FoundSnapshot> found = FindSnapshot(*store_, outcome.report.snapshot.manifest.key, Deadline::Infinite());
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(EncodeRecord(found->record), EncodeRecord(outcome.report.snapshot.record));
  const blocks::Digest image = blocks::Sha256Of(DerivedImage(found->manifest, found->descriptor));
  ASSERT_TRUE(
      store_->PutManifest(blocks::HotSetTag(image), blocks::kManifestMediaType, "{}", Deadline::Infinite()).ok());
  ASSERT_TRUE(RemoveSnapshot(*store_, *found, Deadline::Infinite()).ok());
  EXPECT_EQ(FindSnapshot(*store_, outcome.report.snapshot.manifest.key, Deadline::Infinite()).status().code(),
            StatusCode::kNotFound);
  const Result<blocks::CollectedBlobs> collected =
      blocks::CollectFolderStore(folder_ / "store", Duration(0), blocks::CollectMode::kRemove, clock_);
  ASSERT_TRUE(collected.ok()) << collected.status().ToString();
  EXPECT_EQ(collected->kept, 0U);
  EXPECT_TRUE(fs::is_empty(folder_ / "store/blobs/sha256"));
}

// An install that somebody else has run, below a folder that stands for a container's root.
class InstalledTest : public RecordTest {
 protected:
  void SetUp() override {
    RecordTest::SetUp();
    fs::create_directories(folder_ / "tree" + root_);
    tree_.view = *TreeView::Below(folder_ / "tree");
    tree_.seconds = 12.5;
    tree_.on_scanned = [this] {
      ++scans_;
      return Status();
    };
  }
  void Install(const std::string& script) const {
    const std::string root = folder_ / "tree" + root_;
    ASSERT_EQ(std::system(("set -e; ROOT=" + root + "; cd $ROOT; " + script).c_str()), 0) << script;
  }
  RecordOutcome Take(const RecordRequest& request) {
    RecordProgress progress;
    return RecordInstalled(request, tree_, *store_, &progress, clock_, {});
  }

  InstalledTree tree_;
  int scans_ = 0;
};

TEST_F(InstalledTest, IsRecordedUnderThePathsOfTheContainer) {
  Install(kInstall);
  const std::vector<std::string> installed = blocks::TreeFacts(folder_ / "tree" + root_);
  RecordRequest request = Request(kInstall);
  request.key.times = FileTimes::kKept;
  const RecordOutcome outcome = Take(request);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  EXPECT_EQ(scans_, 1);
  EXPECT_EQ(outcome.report.snapshot.record.files, 204U);
  EXPECT_EQ(outcome.report.snapshot.record.install_seconds, 12.5);
  EXPECT_EQ(KeyList(outcome.report.snapshot.record, "capture"), std::vector<std::string>{root_});
  // Nothing of the recording is left among the container's files.
  EXPECT_EQ(blocks::TreeFacts(folder_ / "tree" + root_), installed);
  ASSERT_TRUE(Restore(outcome.report.snapshot).ok());
  EXPECT_EQ(ReadSentinel(root_)->key, outcome.report.snapshot.manifest.key);
  EXPECT_EQ(fakes::ReadText(root_ + "/lib/many/7"), "file 7");

  const RecordOutcome again = Take(request);
  EXPECT_TRUE(again.status.ok() && again.report.was_there);
  EXPECT_EQ(scans_, 1);
}

TEST_F(InstalledTest, HasTheKeyOfARecordingFromEmptyDirectories) {
  const RecordOutcome ran = Record(kInstall);
  ASSERT_TRUE(ran.status.ok()) << ran.status.ToString();
  Install(kInstall);
  const RecordOutcome taken = Take(Request(kInstall));
  EXPECT_TRUE(taken.report.was_there) << taken.status.ToString();
  EXPECT_EQ(taken.report.snapshot.manifest.key, ran.report.snapshot.manifest.key);
}

TEST_F(InstalledTest, AFileThatChangesAfterTheScanEndsIt) {
  Install(kInstall);
  tree_.on_scanned = [this] {
    std::ofstream(folder_ / "tree" + root_ + "/lib/many/7") << "something else";
    return Status();
  };
  EXPECT_EQ(Take(Request(kInstall)).status.code(), StatusCode::kAborted);
  tree_.on_scanned = [] { return AbortedError("the program has started"); };
  EXPECT_THAT(Take(Request(kInstall)).status.message(), HasSubstr("the program has started"));
  EXPECT_TRUE(ListSnapshots(*store_, "team", Deadline::Infinite())->snapshots.empty());
}

TEST_F(InstalledTest, LinksOutAreSaidAndLeadToNoFileOfTheNode) {
  std::ofstream(folder_ / "node-secret") << "of the node";
  Install("ln -s " + (folder_ / "node-secret") + " link; ln -s " + folder_.path() + " folder; echo x > file");
  const RecordOutcome outcome = Take(Request(kInstall));
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  EXPECT_EQ(outcome.report.snapshot.record.files, 1U);
  EXPECT_THAT(outcome.report.snapshot.record.external_links, SizeIs(2));
}

TEST_F(InstalledTest, IsRefusedForWhatMustNotTravelOrIsNotThere) {
  EXPECT_EQ(Take(Request(kInstall)).status.code(), StatusCode::kInvalidArgument);  // empty
  Install("echo 'index-url = https://me:hunter2@h/' > pip.conf");
  EXPECT_THAT(Take(Request(kInstall)).status.message(), HasSubstr(root_ + "/pip.conf"));
  fs::remove_all(folder_ / "tree" + root_);
  EXPECT_EQ(Take(Request(kInstall)).status.code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace paceline::deps
