#include "snapshotter/plugin/snapshot_filter.h"

#include <gtest/gtest.h>

namespace paceline::snapshotter {
namespace {

SnapshotRecord Example() {
  SnapshotRecord snapshot;
  snapshot.name = "k8s.io/7/sha256:aa";
  snapshot.parent = "k8s.io/3/sha256:bb";
  snapshot.kind = SnapshotKind::kCommitted;
  snapshot.labels = {{"containerd.io/snapshot.ref", "sha256:aa"}, {"plain", "a,b \"c\""}, {"x.y", "1"}};
  return snapshot;
}

TEST(SnapshotFilter, SaysWhatContainerdsFiltersSay) {
  struct Case {
    std::vector<std::string> filters;
    bool matches;
  };
  const Case cases[] = {
      {{}, true},
      {{""}, true},
      {{"kind==committed"}, true},
      {{"kind==active"}, false},
      {{" kind == committed , name "}, true},
      {{"kind!=active"}, true},
      {{"name==k8s.io/7/sha256:aa"}, true},
      {{"labels.\"containerd.io/snapshot.ref\"==sha256:aa"}, true},
      {{"labels.\"containerd.io/snapshot.ref\"==sha256:aa,parent==\"k8s.io/3/sha256:bb\""}, true},
      {{"labels.\"containerd.io/snapshot.ref\"==sha256:aa,parent==\"\""}, false},
      {{"labels.\"containerd.io/snapshot.ref\"==sha256:cc"}, false},
      {{"labels.\"containerd.io/snapshot.ref\""}, true},
      {{"labels.other"}, false},
      {{"labels.other!=x"}, true},
      {{"labels.x.y==1"}, true},
      {{"labels"}, false},
      {{"nothing"}, false},
      {{"labels.plain==\"a,b \\\"c\\\"\""}, true},
      {{"labels.plain==\"a\\x2cb \\\"c\\\"\""}, true},
      {{"name~=sha256:a+$"}, true},
      {{"name~=/^k8s.io/"}, true},
      {{"name~=|^moby|"}, false},
      {{"name~=\"(\""}, false},
      {{"kind==active", "kind==committed"}, true},
      {{"kind==active", "kind==view"}, false},
  };
  for (const Case& c : cases) {
    const Result<SnapshotFilter> filter = SnapshotFilter::Parse(c.filters);
    ASSERT_TRUE(filter.ok()) << filter.status().ToString();
    EXPECT_EQ(filter->Matches(Example()), c.matches) << (c.filters.empty() ? "none" : c.filters.front());
  }
}

TEST(SnapshotFilter, TheBottomLayerIsFoundByItsEmptyParent) {
  SnapshotRecord bottom = Example();
  bottom.parent.clear();
  const Result<SnapshotFilter> filter =
      SnapshotFilter::Parse({"labels.\"containerd.io/snapshot.ref\"==sha256:aa,parent==\"\""});
  ASSERT_TRUE(filter.ok());
  EXPECT_TRUE(filter->Matches(bottom));
  EXPECT_FALSE(filter->Matches(Example()));
}

TEST(SnapshotFilter, RefusesWhatIsNone) {
  for (const char* text : {"==a", "kind=", "kind==", "kind==\"a", "kind==a,", "labels.==a", "kind==\"\\q\"",
                           "kind==a b", "name~=/a", "\"", "kind==\"\\x2\""}) {
    EXPECT_FALSE(SnapshotFilter::Parse({text}).ok()) << text;
  }
}

TEST(SnapshotFilter, DamagedTextIsAnErrorOrAFilter) {
  const std::string text = "labels.\"containerd.io/snapshot.ref\"==sha256:aa,parent==\"k8s\\x41\",kind~=/a/";
  for (size_t at = 0; at < text.size(); ++at) {
    SnapshotFilter::Parse({text.substr(0, at)}).status().IgnoreError();
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      const Result<SnapshotFilter> filter = SnapshotFilter::Parse({damaged});
      if (filter.ok()) filter->Matches(Example());
    }
  }
}

}  // namespace
}  // namespace paceline::snapshotter
