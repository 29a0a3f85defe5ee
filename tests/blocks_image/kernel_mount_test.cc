// The kernel's view of converted layers, compared with what GNU tar makes of the same archive.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/blocks_image/converted.h"
#include "tests/blocks_image/erofs_mount.h"
#include "tests/blocks_image/tar_writer.h"
#include "tests/blocks_image/tree_facts.h"

namespace paceline::blocks {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Runs a bash script that stops at its first failure.
bool Script(const fakes::TemporaryFolder& folder, const std::string& text) {
  const std::string path = folder / "script.sh";
  std::ofstream(path) << "set -euo pipefail\ncd " << folder.path() << "\n" << text;
  return std::system(("bash " + path).c_str()) == 0;
}

class KernelMount : public testing::Test {
 protected:
  void SetUp() override {
    if (!WhyNoErofs().empty()) GTEST_SKIP() << WhyNoErofs();
  }

  std::string Path(const std::string& name) const { return bench_.folder() / name; }

  // Converts and mounts; "" and a failure of the test when that does not work.
  std::string Mount(const std::string& tar, const std::string& name) {
    Result<ConvertedLayer> converted = bench_.Convert(tar);
    EXPECT_TRUE(converted.ok()) << converted.status().ToString();
    if (!converted.ok()) return "";
    last_ = *converted;
    Result<std::string> image = bench_.Image(converted->layer);
    EXPECT_TRUE(image.ok()) << image.status().ToString();
    if (!image.ok()) return "";
    last_image_ = *image;
    Result<TestMount> mount = TestMount::Erofs(*image, Path(name));
    EXPECT_TRUE(mount.ok()) << mount.status().ToString();
    if (!mount.ok()) return "";
    mounts_.push_back(std::move(*mount));
    return Path(name);
  }

  LayerBench bench_;
  ConvertedLayer last_;
  std::string last_image_;
  std::vector<TestMount> mounts_;
};

// Everything that a file system can hold and a tar archive can carry.
constexpr char kOddTree[] = R"sh(
  mkdir -p tree/usr/bin tree/etc/empty tree/var/deep/a/b/c/d/e/f tree/many tree/"name with blanks"
  cd tree
  long_target=$(printf 'x%.0s' {1..3000}); long_name=$(printf 'n%.0s' {1..255})
  odd_name=$(printf 'b\303\244d-\377-name')
  echo hello > etc/hello; ln etc/hello etc/hello-again; ln etc/hello usr/bin/hello-third
  ln -s ../etc/hello usr/link; ln -s $long_target usr/long-link; ln -s /nowhere/at/all usr/dangling
  head -c 300000 /dev/urandom > usr/bin/tool; chmod 6755 usr/bin/tool
  cp usr/bin/tool usr/bin/capable; setcap cap_net_raw,cap_sys_ptrace+ep usr/bin/capable
  head -c 65536 /dev/urandom > usr/exact; head -c 65537 /dev/urandom > usr/one-more
  head -c 4096 /dev/urandom > usr/block; : > etc/nothing; printf x > etc/byte
  mknod etc/null c 1 3; mknod etc/disk b 259 300000; mkfifo etc/fifo
  python3 - <<EOF
import os, struct
os.setxattr("etc/hello", "user.color", b"green"); os.setxattr("etc/byte", "user.empty", b"")
os.setxattr("etc/nothing", "user.big", b"v" * 3000); os.setxattr("var/deep", "user.on-directory", b"yes")
entries = [(1, 6, -1), (2, 6, 1234), (4, 4, -1), (16, 6, -1), (32, 4, -1)]
acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
os.setxattr("etc/byte", "system.posix_acl_access", acl); os.setxattr("etc/empty", "system.posix_acl_default", acl)
EOF
  chown 1000:1001 etc/byte; chown 4000000000:3999999999 etc/nothing; chmod 1777 var
  for i in $(seq 1 1500); do echo $i > many/"file number $i with a name of some length, to fill blocks"; done
  touch "$long_name" "$odd_name"; touch -- .hidden ,comma -dash
  touch -d "2001-02-03 04:05:06.123456789" etc/hello; touch -d "1969-12-31 00:00:00.5" etc/byte
  touch -d "2200-01-01" etc/nothing; touch -h -d "1999-09-09 09:09:09.9" usr/link
  truncate -s 3M usr/sparse; printf middle | dd of=usr/sparse bs=1 seek=1500000 conv=notrunc status=none
  truncate -s 200000 usr/all-hole; cp --sparse=never usr/sparse usr/zeros-stored
  head -c 70000 /dev/zero >> usr/zeros-stored; printf end >> usr/zeros-stored
  touch -d "2010-01-01 00:00:00.25" many var etc usr .
)sh";

TEST_F(KernelMount, ShowsWhatTarWouldUnpack) {
  ASSERT_TRUE(Script(bench_.folder(), kOddTree));
  struct Form {
    const char* name;
    const char* options;
  };
  const Form forms[] = {{"pax", "--format=pax"},
                        {"sparse00", "--format=pax --sparse --sparse-version=0.0"},
                        {"sparse01", "--format=pax --sparse --sparse-version=0.1"},
                        {"sparse10", "--format=pax --sparse --sparse-version=1.0"},
                        {"gnu", "--format=gnu"},
                        {"gnu-sparse", "--format=gnu --sparse"}};
  for (const Form& form : forms) {
    SCOPED_TRACE(form.name);
    const std::string tar = Path(std::string(form.name) + ".tar");
    const std::string attributes =
        std::string(form.options).find("pax") != std::string::npos ? "--xattrs --xattrs-include='*'" : "";
    ASSERT_TRUE(Script(bench_.folder(), fmt::format("tar {0} {1} --sort=name -cf {2} -C tree .\nrm -rf out\nmkdir out\n"
                                                    "tar {1} --numeric-owner -xpf {2} -C out",
                                                    form.options, attributes, tar)));
    const std::string mounted = Mount(ReadFile(tar), form.name);
    ASSERT_FALSE(mounted.empty());
    const std::vector<std::string> expected = TreeFacts(Path("out")), found = TreeFacts(mounted);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(found[i], expected[i]);
    EXPECT_TRUE(Script(bench_.folder(), "fsck.erofs " + last_image_ + " >/dev/null"));
  }
}

TEST_F(KernelMount, WhiteoutsAreThoseOfOverlayfs) {
  const std::string lower = TarWriter()
                                .Directory("opaque/")
                                .File("opaque/below", "1")
                                .File("removed", "2")
                                .Directory("removed-folder/")
                                .File("removed-folder/f", "3")
                                .Directory("kept/")
                                .File("kept/f", "4")
                                .Directory("replaced/")
                                .File("replaced/below", "5")
                                .File("file-to-folder", "6")
                                .Finish();
  const std::string upper = TarWriter()
                                .Directory("opaque/")
                                .File("opaque/.wh..wh..opq", "")
                                .File("opaque/above", "a")
                                .File(".wh.removed", "")
                                .File(".wh.removed-folder", "")
                                .Directory("kept/")
                                .File("kept/g", "b")
                                .File(".wh.replaced", "")
                                .Directory("replaced/")
                                .File("replaced/above", "c")
                                .Directory("file-to-folder/")
                                .Finish();
  const std::string bottom = Mount(lower, "bottom"), top = Mount(upper, "top");
  ASSERT_FALSE(bottom.empty() || top.empty());
  Result<TestMount> overlay = TestMount::Overlay({top, bottom}, Path("merged"));
  ASSERT_TRUE(overlay.ok()) << overlay.status().ToString();
  std::vector<std::string> paths;
  for (const std::string& line : TreeFacts(overlay->path())) paths.push_back(line.substr(0, line.find(' ')));
  EXPECT_EQ(paths, (std::vector<std::string>{"", "/file-to-folder", "/kept", "/kept/f", "/kept/g", "/opaque",
                                             "/opaque/above", "/replaced", "/replaced/above"}));
}

TEST_F(KernelMount, NothingOfAnArchiveBecomesAnOverlayMark) {
  const std::string tar = TarWriter()
                              .Add({.type = '5',
                                    .name = "d/",
                                    .mode = 0755,
                                    .pax = {{"SCHILY.xattr.trusted.overlay.opaque", "y"},
                                            {"SCHILY.xattr.trusted.overlay.redirect", "/etc"}}})
                              .Finish();
  const std::string mounted = Mount(tar, "layer");
  ASSERT_FALSE(mounted.empty());
  for (const std::string& line : TreeFacts(mounted)) EXPECT_EQ(line.find("trusted"), std::string::npos) << line;
  EXPECT_EQ(last_.dropped, 2U);
}

TEST_F(KernelMount, EmptyLayersMount) {
  for (const std::string& tar : {std::string(1024, '\0'), TarWriter().File("empty", "").Finish()}) {
    EXPECT_FALSE(Mount(tar, "empty" + std::to_string(mounts_.size())).empty());
  }
}

TEST_F(KernelMount, DirectoriesOfEverySizeListWell) {
  // Around the places where a block fills up or a tail no longer fits beside its inode.
  for (const int names : {1, 3, 190, 195, 200, 203, 204, 205, 206, 250, 2000}) {
    TarWriter tar;
    for (int i = 0; i < names; ++i) tar.File("d/" + fmt::format("{:08}", i), i % 3 == 0 ? "x" : "");
    // What sorts before "." and "..", and between them.
    for (const char* name : {"d/!", "d/-", "d/.!", "d/...", "d/.a"}) tar.File(name, "");
    const std::string mounted = Mount(tar.Finish(), "names" + std::to_string(names));
    ASSERT_FALSE(mounted.empty());
    EXPECT_EQ(TreeFacts(mounted).size(), static_cast<size_t>(names) + 7);
    EXPECT_TRUE(Script(bench_.folder(), "fsck.erofs " + last_image_ + " >/dev/null")) << names;
  }
}

TEST_F(KernelMount, ManyAttributesAndLongLinks) {
  TarWriter tar;
  for (int i = 0; i < 40; ++i) {
    TarItem item{.type = i % 2 == 0 ? '0' : '5', .name = "f" + std::to_string(i), .mode = 0755};
    for (int j = 0; j < i; ++j) {
      item.pax.emplace_back("SCHILY.xattr.user.attribute" + std::to_string(j),
                            std::string(static_cast<size_t>(i) * 7, 'v'));
    }
    tar.Add(item);
    if (i % 2 == 1) tar.File(item.name + "/inside", "x");
    tar.Symlink("link" + std::to_string(i), std::string(static_cast<size_t>(3900 + i * 5), 't'));
  }
  const std::string mounted = Mount(tar.Finish(), "attributes");
  ASSERT_FALSE(mounted.empty());
  size_t attributes = 0, links = 0;
  for (const std::string& line : TreeFacts(mounted)) {
    EXPECT_EQ(line.find("unreadable"), std::string::npos) << line;
    for (size_t at = line.find("user.attribute"); at != std::string::npos; at = line.find("user.attribute", at + 1))
      ++attributes;
    const size_t target = line.find(" to=");
    if (target != std::string::npos) links += std::min(line.find(' ', target + 1), line.size()) - target - 4;
  }
  EXPECT_EQ(attributes, 40U * 39 / 2);
  EXPECT_EQ(links, 40U * 3900 + 5U * 40 * 39 / 2);
}

// For a layer of a real image, which is too large to be part of the tree: PACELINE_LAYER_TAR names an uncompressed one.
TEST_F(KernelMount, ShowsWhatTarUnpacksOfAGivenLayer) {
  const char* tar = std::getenv("PACELINE_LAYER_TAR");
  if (tar == nullptr) GTEST_SKIP() << "PACELINE_LAYER_TAR names no tar file";
  const std::string mounted = Mount(ReadFile(tar), "given");
  ASSERT_FALSE(mounted.empty());
  ASSERT_TRUE(Script(bench_.folder(), fmt::format("mkdir out\ntar --xattrs --xattrs-include='*' --numeric-owner "
                                                  "-xpf {} -C out",
                                                  tar)));
  // tar gives a directory its time too early when more of it comes later in the archive.
  const auto without_time = [](std::string line) {
    const size_t time = line.find(" mtime=");
    return line.find(" mode=4") == std::string::npos ? line : line.erase(time, line.find(' ', time + 1) - time);
  };
  const std::vector<std::string> expected = TreeFacts(Path("out")), found = TreeFacts(mounted);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(without_time(found[i]), without_time(expected[i]));
}

}  // namespace
}  // namespace paceline::blocks
