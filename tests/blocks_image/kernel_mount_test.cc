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

}  // namespace
}  // namespace paceline::blocks
