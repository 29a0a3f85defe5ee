#include "snapshotter/plugin/snapshot_record.h"

#include <gtest/gtest.h>

namespace paceline::snapshotter {
namespace {

SnapshotRecord LazySnapshot() {
  SnapshotRecord snapshot;
  snapshot.id = 17;
  snapshot.name = "k8s.io/7/extract-1 sha256:aa";
  snapshot.parent = "k8s.io/3/sha256:bb";
  snapshot.kind = SnapshotKind::kCommitted;
  snapshot.created = WallTime(std::chrono::nanoseconds(1234567890123456789));
  snapshot.updated = WallTime(std::chrono::nanoseconds(1234567890123456790));
  snapshot.labels = {{"containerd.io/snapshot.ref", "sha256:aa"}, {"x", "\"\\\n"}};
  snapshot.size_bytes = uint64_t{1} << 40;
  snapshot.inodes = 9;
  snapshot.remote = RemoteLayer{"registry.test:5000/python:1", "docker://registry.test:5000/python",
                                blocks::Sha256Of("converted"), 3};
  return snapshot;
}

void ExpectSame(const SnapshotRecord& a, const SnapshotRecord& b) {
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.parent, b.parent);
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.created, b.created);
  EXPECT_EQ(a.updated, b.updated);
  EXPECT_EQ(a.labels, b.labels);
  EXPECT_EQ(a.size_bytes, b.size_bytes);
  EXPECT_EQ(a.inodes, b.inodes);
  EXPECT_EQ(a.remote, b.remote);
}

TEST(SnapshotRecord, ReadsBackWhatItWrote) {
  SnapshotRecord snapshot = LazySnapshot();
  for (const SnapshotKind kind : {SnapshotKind::kView, SnapshotKind::kActive, SnapshotKind::kCommitted}) {
    snapshot.kind = kind;
    const Result<SnapshotRecord> read = ParseSnapshot(EncodeSnapshot(snapshot));
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    ExpectSame(*read, snapshot);
  }
  snapshot.remote.reset();
  snapshot.parent.clear();
  const Result<SnapshotRecord> read = ParseSnapshot(EncodeSnapshot(snapshot));
  ASSERT_TRUE(read.ok());
  ExpectSame(*read, snapshot);
}

TEST(SnapshotRecord, RefusesWhatIsNone) {
  for (
      const char* text :
      {"", "{}", "[]", R"({"version":2,"id":1,"name":"a","kind":"view","created":0,"updated":0})",
       R"({"version":1,"id":0,"name":"a","kind":"view","created":0,"updated":0})",
       R"({"version":1,"id":1,"kind":"view","created":0,"updated":0})",
       R"({"version":1,"id":1,"name":"a","kind":"odd","created":0,"updated":0})",
       R"({"version":1,"id":1,"name":"a","kind":"view","created":0,"updated":0,"labels":{"a":1}})",
       R"({"version":1,"id":1,"name":"a","kind":"view","created":0,"updated":0,"sizeBytes":-1})",
       R"({"version":1,"id":1,"name":"a","kind":"view","created":0,"updated":0,"remote":{"store":"s","image":"x"}})"}) {
    const Result<SnapshotRecord> read = ParseSnapshot(text);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_EQ(read.status().code(), StatusCode::kDataLoss);
  }
}

TEST(SnapshotRecord, DamagedTextIsAnErrorOrARecord) {
  const std::string text = EncodeSnapshot(LazySnapshot());
  for (size_t at = 0; at + 2 < text.size(); ++at) {
    EXPECT_FALSE(ParseSnapshot(text.substr(0, at)).ok());
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      const Result<SnapshotRecord> read = ParseSnapshot(damaged);
      if (read.ok()) {
        EXPECT_NE(read->id, 0u);
      }
    }
  }
}

}  // namespace
}  // namespace paceline::snapshotter
