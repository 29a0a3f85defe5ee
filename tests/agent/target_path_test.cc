#include "agent/csi/target_path.h"

#include <gtest/gtest.h>

namespace paceline::agent {
namespace {

constexpr char kKubeletDir[] = "/var/lib/kubelet";

TEST(TargetPath, TakesKubeletsFormApart) {
  const std::string path = "/var/lib/kubelet/pods/1a-2b/volumes/kubernetes.io~csi/work/mount";
  Result<TargetPath> target = ParseTargetPath(kKubeletDir, path);
  ASSERT_TRUE(target.ok()) << target.status().ToString();
  EXPECT_EQ(target->path, path);
  EXPECT_EQ(target->pod_uid, "1a-2b");
  EXPECT_EQ(target->volume_name, "work");
}

TEST(TargetPath, RefusesEverythingElse) {
  const std::string good = "/var/lib/kubelet/pods/u/volumes/kubernetes.io~csi/v/mount";
  ASSERT_TRUE(ParseTargetPath(kKubeletDir, good).ok());
  const std::string cases[] = {
      "",
      "/",
      "/etc",
      "/var/lib/kubelet",
      "/var/lib/kubelet/",
      "/var/lib/kubelet2/pods/u/volumes/kubernetes.io~csi/v/mount",
      "/var/lib/kubelet/pods/u/volumes/kubernetes.io~csi/v",
      "/var/lib/kubelet/pods/u/volumes/kubernetes.io~csi/v/mount/",
      "/var/lib/kubelet/pods/u/volumes/kubernetes.io~csi/v/mount/x",
      "/var/lib/kubelet/pods/u/volumes/kubernetes.io~csi/../mount",
      "/var/lib/kubelet/pods/../volumes/kubernetes.io~csi/v/mount",
      "/var/lib/kubelet/pods/./volumes/kubernetes.io~csi/v/mount",
      "/var/lib/kubelet/pods//volumes/kubernetes.io~csi/v/mount",
      "/var/lib/kubelet//pods/u/volumes/kubernetes.io~csi/v/mount",
      "/var/lib/kubelet/pods/u/volumes/kubernetes.io~empty-dir/v/mount",
      "/var/lib/kubelet/plugins/u/volumes/kubernetes.io~csi/v/mount",
      "/var/lib/kubelet/pods/u u/volumes/kubernetes.io~csi/v/mount",
      "var/lib/kubelet/pods/u/volumes/kubernetes.io~csi/v/mount",
      good + std::string(1, '\0'),
      good + std::string(5000, 'x'),
      "/var/lib/kubelet/pods/" + std::string(5000, 'u') + "/volumes/kubernetes.io~csi/v/mount",
  };
  for (const std::string& path : cases) {
    EXPECT_EQ(ParseTargetPath(kKubeletDir, path).status().code(), StatusCode::kInvalidArgument) << path;
  }
}

TEST(TargetPath, KnowsUsableVolumeIds) {
  for (const char* id : {"csi-0123abcd", "a", "A.b_c-9"}) EXPECT_TRUE(IsValidVolumeId(id)) << id;
  for (const std::string& id : {std::string(), std::string("."), std::string(".."), std::string("a/b"),
                                std::string("a b"), std::string("a\0b", 3), std::string(129, 'a')}) {
    EXPECT_FALSE(IsValidVolumeId(id)) << id;
  }
}

}  // namespace
}  // namespace paceline::agent
