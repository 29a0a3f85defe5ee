#include "snapshotter/plugin/mount_plan.h"

#include <gtest/gtest.h>

namespace paceline::snapshotter {
namespace {

TEST(MountPlan, IsThatOfOverlayfs) {
  struct Case {
    const char* name;
    SnapshotKind kind;
    std::vector<uint64_t> parents;
    OverlayTraits traits;
    PlannedMount expected;
  };
  const OverlayTraits plain{}, usual{.has_index = true}, user{.has_index = true, .needs_user_xattr = true};
  const Case cases[] = {
      {"first layer", SnapshotKind::kActive, {}, usual, {"bind", "/r/snapshots/9/fs", {"rw", "rbind"}}},
      {"view of nothing", SnapshotKind::kView, {}, usual, {"bind", "/r/snapshots/9/fs", {"ro", "rbind"}}},
      {"view of one layer", SnapshotKind::kView, {4}, usual, {"bind", "/r/snapshots/4/fs", {"ro", "rbind"}}},
      {"view of two",
       SnapshotKind::kView,
       {4, 2},
       usual,
       {"overlay", "overlay", {"index=off", "lowerdir=/r/snapshots/4/fs:/r/snapshots/2/fs"}}},
      {"container",
       SnapshotKind::kActive,
       {4, 2},
       plain,
       {"overlay",
        "overlay",
        {"workdir=/r/snapshots/9/work", "upperdir=/r/snapshots/9/fs", "lowerdir=/r/snapshots/4/fs:/r/snapshots/2/fs"}}},
      {"in a user namespace",
       SnapshotKind::kActive,
       {4},
       user,
       {"overlay",
        "overlay",
        {"index=off", "userxattr", "workdir=/r/snapshots/9/work", "upperdir=/r/snapshots/9/fs",
         "lowerdir=/r/snapshots/4/fs"}}},
  };
  for (const Case& c : cases) {
    SnapshotRecord snapshot;
    snapshot.id = 9;
    snapshot.kind = c.kind;
    EXPECT_EQ(PlanMounts("/r", snapshot, c.parents, c.traits), std::vector<PlannedMount>{c.expected}) << c.name;
  }
}

}  // namespace
}  // namespace paceline::snapshotter
