#include "agent/facts/kernel_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/agent/node_folders.h"

namespace paceline::agent {
namespace {

using ::testing::HasSubstr;

// A root folder with a kernel in it, as far as files can tell.
class KernelTree {
 public:
  explicit KernelTree(const std::string& release) : root_(MakeTemporaryFolder()), release_(release) {
    Write("/proc/sys/kernel/osrelease", release + "\n");
    Write("/proc/filesystems", "nodev\tsysfs\nnodev\ttmpfs\n\text4\n");
  }
  ~KernelTree() { std::filesystem::remove_all(root_); }

  KernelTree& Write(const std::string& path, const std::string& text) {
    WriteTextFile(root_ + path, text);
    return *this;
  }
  KernelTree& Modules(const std::string& dependencies) {
    return Write("/lib/modules/" + release_ + "/modules.dep", dependencies);
  }

  NodeFacts Collect() const {
    NodeFacts facts;
    CollectKernelFacts(RealFileSystem(root_), &facts);
    return facts;
  }

 private:
  const std::string root_;
  const std::string release_;
};

TEST(KernelFacts, ReadsKernelVersions) {
  const struct {
    const char* release;
    KernelVersion version;
  } cases[] = {
      {"6.18.44-fc", {6, 18}}, {"6.12.0-rc1+", {6, 12}}, {"5.15", {5, 15}},         {"6", {0, 0}}, {"", {0, 0}},
      {"x.y", {0, 0}},         {"6.-1", {0, 0}},         {"6.999999999999", {0, 0}}};
  for (const auto& c : cases) EXPECT_EQ(ParseKernelVersion(c.release), c.version) << c.release;
}

TEST(KernelFacts, CountsCpus) {
  const struct {
    const char* list;
    int count;
  } cases[] = {{"0\n", 1}, {"0-1\n", 2}, {"0-3,8,10-11\n", 7}, {"", 0},     {"3-1", 0},          {"a", 0},
               {"0-", 0},  {"-1", 0},    {"0,,1", 0},          {"0-1x", 0}, {"0-99999999999", 0}};
  for (const auto& c : cases) EXPECT_EQ(CountCpuList(c.list), c.count) << c.list;
}

TEST(KernelFacts, ReadsTheMemorySize) {
  EXPECT_EQ(ParseMemTotal("MemTotal:       24683060 kB\nMemFree: 1 kB\n"), 24683060ull * 1024);
  EXPECT_EQ(ParseMemTotal("MemFree: 1 kB\n"), 0u);
  EXPECT_EQ(ParseMemTotal("MemTotal: lots kB\n"), 0u);
  EXPECT_EQ(ParseMemTotal("MemTotal: 99999999999999999999 kB\n"), 0u);
}

TEST(KernelFacts, ReadsTheNameOfTheSystem) {
  EXPECT_EQ(ParseOsImage("ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n"), "Debian GNU/Linux 12");
  EXPECT_EQ(ParseOsImage("PRETTY_NAME=Plain"), "Plain");
  EXPECT_EQ(ParseOsImage("PRETTY_NAME=\""), "\"");
  EXPECT_EQ(ParseOsImage("NAME=x\n"), "");
}

TEST(KernelFacts, FindsBuiltInFileSystems) {
  KernelTree tree("6.18.0");
  tree.Write("/proc/filesystems", "nodev\toverlay\n\terofs\nnodev\tfuse\n");
  NodeFacts facts = tree.Collect();
  EXPECT_EQ(facts.kernel_release, "6.18.0");
  EXPECT_EQ(facts.erofs.support, Support::kYes);
  EXPECT_EQ(facts.overlayfs.support, Support::kYes);
}

TEST(KernelFacts, FindsModulesThatAreNotLoaded) {
  KernelTree tree("6.18.0");
  tree.Modules("kernel/fs/erofs/erofs.ko.zst: kernel/lib/x.ko\nkernel/fs/overlayfs/overlay.ko:\n");
  NodeFacts facts = tree.Collect();
  EXPECT_EQ(facts.erofs.support, Support::kYes);
  EXPECT_THAT(facts.erofs.detail, HasSubstr("not loaded"));
  EXPECT_EQ(facts.overlayfs.support, Support::kYes);
  EXPECT_EQ(facts.fuse.support, Support::kNo) << facts.fuse.detail;
}

TEST(KernelFacts, SaysNoOnlyWhenItCouldLook) {
  KernelTree blind("6.18.0");
  EXPECT_EQ(blind.Collect().erofs.support, Support::kUnknown) << "modules are not visible";
  KernelTree seeing("6.18.0");
  seeing.Modules("kernel/fs/xfs/xfs.ko:\nkernel/fs/notoverlay.ko: kernel/fs/erofs/erofs.ko\n");
  EXPECT_EQ(seeing.Collect().erofs.support, Support::kNo);
  EXPECT_EQ(seeing.Collect().overlayfs.support, Support::kNo);
}

TEST(KernelFacts, TellsWhetherErofsMountsFromFiles) {
  const std::string filesystems = "\terofs\n";
  const struct {
    const char* name;
    const char* release;
    const char* symbols;
    const char* config;
    Support expected;
  } cases[] = {
      {"old kernel", "6.11.9", "0 t erofs_fileio_x\n", "CONFIG_EROFS_FS_BACKED_BY_FILE=y\n", Support::kNo},
      {"symbols tell", "6.12.0", "0 t other\n0 t erofs_fileio_read_folio\n", nullptr, Support::kYes},
      {"config tells yes", "6.12.0", "0 t other\n", "CONFIG_X=y\nCONFIG_EROFS_FS_BACKED_BY_FILE=y\n", Support::kYes},
      {"config tells no", "6.12.0", nullptr, "# CONFIG_EROFS_FS_BACKED_BY_FILE is not set\n", Support::kNo},
      {"nobody tells", "6.12.0", nullptr, "CONFIG_X=y\n", Support::kUnknown},
  };
  for (const auto& c : cases) {
    KernelTree tree(c.release);
    tree.Write("/proc/filesystems", filesystems);
    if (c.symbols != nullptr) tree.Write("/proc/kallsyms", c.symbols);
    if (c.config != nullptr) tree.Write(std::string("/boot/config-") + c.release, c.config);
    EXPECT_EQ(tree.Collect().file_backed_erofs.support, c.expected) << c.name;
  }
  KernelTree none("6.18.0");
  none.Modules("");
  EXPECT_EQ(none.Collect().file_backed_erofs.support, Support::kNo);
}

TEST(KernelFacts, WantsAFuseDevice) {
  KernelTree tree("6.18.0");
  tree.Write("/proc/filesystems", "nodev\tfuse\n");
  EXPECT_EQ(tree.Collect().fuse.support, Support::kNo);
  EXPECT_EQ(tree.Collect().fuse.detail, "no /dev/fuse");
  tree.Write("/dev/fuse", "a file");
  EXPECT_EQ(tree.Collect().fuse.detail, "/dev/fuse is not a device");
}

TEST(KernelFacts, TellsCgroupVersions) {
  KernelTree v2("6.18.0");
  v2.Write("/sys/fs/cgroup/cgroup.controllers", "cpu\n");
  EXPECT_EQ(v2.Collect().cgroup_version, "v2");
  KernelTree v1("6.18.0");
  v1.Write("/sys/fs/cgroup/memory/x", "");
  EXPECT_EQ(v1.Collect().cgroup_version, "v1");
  v1.Write("/sys/fs/cgroup/unified/cgroup.controllers", "");
  EXPECT_EQ(v1.Collect().cgroup_version, "hybrid");
  KernelTree none("6.18.0");
  EXPECT_EQ(none.Collect().cgroup_version, "unknown");
}

TEST(KernelFacts, AnswersOnAnEmptyRoot) {
  const std::string root = MakeTemporaryFolder();
  NodeFacts facts;
  CollectKernelFacts(RealFileSystem(root), &facts);
  EXPECT_EQ(facts.kernel_release, "unknown");
  EXPECT_EQ(facts.erofs.support, Support::kUnknown);
  EXPECT_EQ(facts.cpu_count, 0);
  EXPECT_EQ(facts.memory_bytes, 0u);
  std::filesystem::remove_all(root);
}

TEST(KernelFacts, AnswersOnThisMachine) {
  NodeFacts facts;
  CollectKernelFacts(RealFileSystem(), &facts);
  EXPECT_NE(ParseKernelVersion(facts.kernel_release), KernelVersion{}) << facts.kernel_release;
  EXPECT_FALSE(facts.architecture.empty());
  EXPECT_GT(facts.cpu_count, 0);
  EXPECT_GT(facts.memory_bytes, 0u);
}

}  // namespace
}  // namespace paceline::agent
