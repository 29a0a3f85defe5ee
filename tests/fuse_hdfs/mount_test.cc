// The whole program on a real mount, with real programs, in layout plain and striped: against file:// always, and
// against the HDFS that HDFS_URI names where it is set. Skipped where nothing can be mounted.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "lib/base/unique_fd.h"
#include "tests/fakes/temporary_folder.h"

namespace paceline::fuse_hdfs {
namespace {

struct Outcome {
  int status = -1;
  std::string output;
};

Outcome RunShell(const std::string& script) {
  const std::string command = "timeout 120 bash -c '" + script + "' 2>&1 </dev/null";
  FILE* pipe = popen(command.c_str(), "r");
  Outcome outcome;
  char text[4096];
  while (const size_t got = fread(text, 1, sizeof text, pipe)) outcome.output.append(text, got);
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return outcome;
}

bool Has(const char* program) { return RunShell(fmt::format("command -v {}", program)).status == 0; }

std::string RandomBytes(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::string bytes(size, '\0');
  for (size_t i = 0; i + 4 <= size; i += 4) {
    const uint32_t word = random();
    std::memcpy(bytes.data() + i, &word, 4);
  }
  return bytes;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

class MountTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (access("/dev/fuse", R_OK | W_OK) != 0) GTEST_SKIP() << "no /dev/fuse here";
    folder_ = temporary_.path();
    store_ = folder_ + "/store";
    mount_ = folder_ + "/mnt";
    std::filesystem::create_directory(store_);
    std::filesystem::create_directory(mount_);
    uri_ = "file://" + store_;
    const std::string_view kind = GetParam();
    // Small stripes, so that the tests' files are large enough for them.
    if (kind.ends_with("_striped"))
      layout_ = "--writes-layout striped --writes-stripe-files 3 --writes-stripe-unit 64KiB";
    if (kind.starts_with("hdfs")) {
      const char* uri = std::getenv("HDFS_URI");
      if (uri == nullptr) GTEST_SKIP() << "HDFS_URI is not set (scripts/testbed up hdfs)";
      // A folder of its own, made through a mount of the root.
      const std::string own = "/" + temporary_.name();
      root_uri_ = uri_ = uri + std::string("/");
      ASSERT_TRUE(Mount(""));
      ASSERT_EQ(mkdir((mount_ + own).c_str(), 0755), 0);
      Unmount();
      uri_ = uri + own;
    }
    ASSERT_TRUE(Mount(""));
  }

  void TearDown() override {
    if (folder_.empty()) return;
    Unmount();
    if (!root_uri_.empty()) {
      uri_ = root_uri_;
      ASSERT_TRUE(Mount(""));
      RunShell(fmt::format("rm -rf {}/{}", mount_, temporary_.name()));
      Unmount();
    }
    EXPECT_FALSE(IsMounted());
  }

  // --daemon returns when the mount works.
  bool Mount(const std::string& flags) {
    const Outcome started =
        RunShell(fmt::format("{} {} {} --daemon --pid-file {}/pid --log-file {}/log --control-socket {}/control "
                             "--cache-lifetime 200ms {} {}",
                             PACELINE_HDFS_MOUNT, uri_, mount_, folder_, folder_, folder_, layout_, flags));
    EXPECT_EQ(started.status, 0) << started.output;
    if (started.status != 0) return false;
    std::ifstream(folder_ + "/pid") >> pid_;
    return pid_ > 0;
  }

  // SIGTERM, as kubelet and operators end it.
  void Unmount() { End(SIGTERM); }

  // Waits until the process is gone. It is a child of init, which may take its time to notice.
  void End(int signal) {
    if (pid_ <= 0) return;
    kill(pid_, signal);
    const std::string state = fmt::format("/proc/{}/status", pid_);
    const Outcome gone = RunShell(fmt::format(
        "while grep -q ^State: {} && ! grep -q \"^State:.Z\" {}; do read -t 0.02 <> <(:) || :; done", state, state));
    EXPECT_EQ(gone.status, 0) << "the mount did not end";
    pid_ = 0;
  }

  bool IsMounted() const { return ReadFile("/proc/mounts").find(" " + mount_ + " ") != std::string::npos; }
  std::string Log() const { return ReadFile(folder_ + "/log"); }
  std::string Control(const std::string& line) const {
    return RunShell(fmt::format("{} control {}/control {}", PACELINE_HDFS_MOUNT, folder_, line)).output;
  }
  // Runs in the mount's root.
  Outcome InMount(const std::string& script) const {
    return RunShell(fmt::format("set -e; cd {}; scratch={}; {}", mount_, folder_, script));
  }
  std::string Path(const std::string& name) const { return mount_ + "/" + name; }

  const fakes::TemporaryFolder temporary_;
  std::string folder_;  // its path, while there is something to undo
  std::string store_, mount_, uri_, layout_;
  std::string root_uri_;  // of HDFS
  pid_t pid_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Stores, MountTest, testing::Values("file", "file_striped", "hdfs", "hdfs_striped"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(MountTest, EverydayShell) {
  const Outcome done = InMount(
      "echo hello >a; echo more >>a; test \"$(cat a)\" = \"hello\nmore\"; mkdir -p d/e; mv a d/e/b; cat d/e/b "
      ">/dev/null;"
      "test \"$(ls d/e)\" = b; chmod 600 d/e/b; test $(stat -c %a d/e/b) = 600; touch -d 2020-01-02T03:04:05Z d/e/b;"
      "test $(stat -c %Y d/e/b) = 1577934245; : >empty; test $(stat -c %s empty) = 0; df . >/dev/null; sync;"
      "echo x >y; echo z >w; mv w y; test $(cat y) = z; rm -r d y empty; test -z \"$(ls -A)\"");
  EXPECT_EQ(done.status, 0) << done.output << Log();
}

TEST_P(MountTest, CopiesOfAnySizeComeBackEqual) {
  for (const size_t size : {0, 1, 4095, 4096, 4097, 1 << 20, (5 << 20) + 17, (20 << 20) + 1}) {
    const std::string content = RandomBytes(size, static_cast<uint32_t>(size));
    std::ofstream(folder_ + "/source", std::ios::binary) << content;
    const Outcome done = InMount("cp $scratch/source copy; cmp copy $scratch/source");
    EXPECT_EQ(done.status, 0) << size << ": " << done.output << Log();
  }
  EXPECT_EQ(InMount("cp $scratch/source again; rm copy").status, 0);
  Unmount();
  ASSERT_TRUE(Mount(""));
  EXPECT_EQ(InMount("cmp again $scratch/source").status, 0) << "after a new mount";
}

TEST_P(MountTest, TarAndSparseCopiesAndOddBlocks) {
  const Outcome done = InMount(
      "mkdir $scratch/tree; for i in 1 2 3 4 5 6 7 8 9; do head -c $((i * 7919)) /dev/urandom >$scratch/tree/f$i; done;"
      "mkdir $scratch/tree/sub; head -c 3000000 /dev/urandom >$scratch/tree/sub/large;"
      "tar -C $scratch -cf all.tar tree; tar -xf all.tar; diff -r tree $scratch/tree; tar -df all.tar;"
      "truncate -s 9M $scratch/sparse; printf end >>$scratch/sparse; cp --sparse=always $scratch/sparse s; cmp s "
      "$scratch/sparse;"
      "dd if=$scratch/tree/sub/large of=odd bs=977 status=none; cmp odd $scratch/tree/sub/large;"
      "dd if=$scratch/tree/sub/large of=direct bs=1M oflag=direct iflag=fullblock status=none; cmp direct "
      "$scratch/tree/sub/large;"
      "dd if=odd of=$scratch/back bs=1237 skip=100 status=none; tail -c +123701 odd | cmp - $scratch/back");
  EXPECT_EQ(done.status, 0) << done.output << Log();
}

TEST_P(MountTest, Rsync) {
  if (!Has("rsync")) GTEST_SKIP() << "no rsync here";
  const Outcome done = InMount(
      "mkdir $scratch/tree; for i in 1 2 3; do head -c $((i * 70000)) /dev/urandom >$scratch/tree/f$i; done;"
      "rsync -a $scratch/tree/ copy/; diff -r copy $scratch/tree; head -c 5000 /dev/urandom >$scratch/tree/f2;"
      "rsync -a --delete $scratch/tree/ copy/; diff -r copy $scratch/tree; test $(rsync -ani $scratch/tree/ copy/ | wc "
      "-l) = 0");
  EXPECT_EQ(done.status, 0) << done.output << Log();
}

TEST_P(MountTest, Fio) {
  if (!Has("fio")) GTEST_SKIP() << "no fio here";
  const Outcome done = InMount(
      "fio --name=seq --directory=. --rw=write --bs=256k --size=16m --verify=crc32c --do_verify=1 --fallocate=none "
      "--create_on_open=1 --output=$scratch/fio");
  EXPECT_EQ(done.status, 0) << done.output << Log();
}

TEST_P(MountTest, SafetensorsWayOfWriting) {
  // A sibling by mkstemp, the size first, then bytes in sequence, mode, rename over the old one; read by mmap.
  const std::string content = RandomBytes((6 << 20) + 24, 7);
  for (int round = 0; round < 2; ++round) {
    std::string name = Path("model.safetensors.tmpXXXXXX");
    const UniqueFd fd(mkstemp(name.data()));
    ASSERT_TRUE(fd.is_valid()) << strerror(errno) << Log();
    ASSERT_EQ(ftruncate(fd.get(), static_cast<off_t>(content.size())), 0);
    struct stat st;
    ASSERT_EQ(fstat(fd.get(), &st), 0);
    EXPECT_EQ(static_cast<size_t>(st.st_size), content.size());
    for (size_t at = 0; at < content.size(); at += 1 << 20) {
      const size_t piece = std::min<size_t>(1 << 20, content.size() - at);
      ASSERT_EQ(write(fd.get(), content.data() + at, piece), static_cast<ssize_t>(piece));
    }
    ASSERT_EQ(fchmod(fd.get(), 0644), 0);
    ASSERT_EQ(fsync(fd.get()), 0);
    ASSERT_EQ(rename(name.c_str(), Path("model.safetensors").c_str()), 0);
  }
  const UniqueFd fd(open(Path("model.safetensors").c_str(), O_RDONLY));
  struct stat st;
  ASSERT_EQ(fstat(fd.get(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0644u);
  void* map = mmap(nullptr, content.size(), PROT_READ, MAP_PRIVATE, fd.get(), 0);
  ASSERT_NE(map, MAP_FAILED) << strerror(errno);
  EXPECT_EQ(std::memcmp(map, content.data(), content.size()), 0);
  munmap(map, content.size());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(mount_), {}), 1) << "no temporary name is left";
}

TEST_P(MountTest, AFileBeingWrittenIsSeenHere) {
  const UniqueFd fd(open(Path("f").c_str(), O_RDWR | O_CREAT | O_EXCL, 0600));
  ASSERT_TRUE(fd.is_valid());
  ASSERT_EQ(write(fd.get(), "hello", 5), 5);
  EXPECT_EQ(std::filesystem::file_size(Path("f")), 5u);
  EXPECT_EQ(InMount("ls").output, "f\n");
  char text[8] = {};
  EXPECT_EQ(pread(fd.get(), text, sizeof text, 0), 5);
  EXPECT_STREQ(text, "hello");
  EXPECT_EQ(open(Path("f").c_str(), O_RDWR | O_CREAT | O_EXCL, 0600), -1);
  EXPECT_EQ(errno, EEXIST);
  // Patched at the front before the end, as some formats do.
  ASSERT_EQ(pwrite(fd.get(), "J", 1, 0), 1);
  ASSERT_EQ(close(dup(fd.get())), 0);
  EXPECT_EQ(ReadFile(Path("f")), "Jello");
  // Written again behind what is there already.
  ASSERT_EQ(pwrite(fd.get(), "!", 1, 5), 1);
  ASSERT_EQ(fsync(fd.get()), 0);
  EXPECT_EQ(ReadFile(Path("f")), "Jello!");
}

TEST_P(MountTest, OpenFilesOutliveTheirName) {
  std::ofstream(Path("f")) << "content";
  const UniqueFd fd(open(Path("f").c_str(), O_RDONLY));
  ASSERT_TRUE(fd.is_valid());
  ASSERT_EQ(unlink(Path("f").c_str()), 0);
  EXPECT_EQ(InMount("ls -A").output, "");
  char text[16] = {};
  EXPECT_EQ(pread(fd.get(), text, sizeof text, 0), 7);
  EXPECT_STREQ(text, "content");
  std::ofstream(Path("f")) << "another";
  EXPECT_EQ(ReadFile(Path("f")), "another");

  const UniqueFd written(open(Path("g").c_str(), O_WRONLY | O_CREAT, 0600));
  ASSERT_EQ(write(written.get(), "abc", 3), 3);
  ASSERT_EQ(unlink(Path("g").c_str()), 0);
  ASSERT_EQ(write(written.get(), "def", 3), 3);
  struct stat st;
  ASSERT_EQ(fstat(written.get(), &st), 0);
  EXPECT_EQ(st.st_size, 6);
  EXPECT_EQ(InMount("ls -A").output, "f\n");
}

TEST_P(MountTest, RefusesWhatHdfsCannotDo) {
  ASSERT_EQ(InMount("head -c 12000000 /dev/zero >f; echo x >g").status, 0);
  const struct {
    const char* name;
    std::function<int()> call;
    int error;
  } cases[] = {
      {"link", [this] { return link(Path("g").c_str(), Path("h").c_str()); }, EPERM},
      {"symlink", [this] { return symlink("g", Path("h").c_str()); }, EPERM},
      {"mkfifo", [this] { return mkfifo(Path("h").c_str(), 0600); }, EPERM},
      {"rmdir of what is not empty",
       [this] { return mkdir(Path("d").c_str(), 0700) + mkdir(Path("d/e").c_str(), 0700) + rmdir(Path("d").c_str()); },
       ENOTEMPTY},
      {"mkdir twice", [this] { return mkdir(Path("d").c_str(), 0700); }, EEXIST},
      {"unlink of a directory", [this] { return unlink(Path("d").c_str()); }, EISDIR},
      {"open of nothing", [this] { return open(Path("none").c_str(), O_RDONLY); }, ENOENT},
      {"exchange",
       [this] { return renameat2(AT_FDCWD, Path("f").c_str(), AT_FDCWD, Path("g").c_str(), RENAME_EXCHANGE); }, EINVAL},
      {"rename that must not replace",
       [this] { return renameat2(AT_FDCWD, Path("f").c_str(), AT_FDCWD, Path("g").c_str(), RENAME_NOREPLACE); },
       EEXIST},
      {"change in the middle",
       [this] {
         const UniqueFd fd(open(Path("f").c_str(), O_WRONLY));
         return pwrite(fd.get(), "x", 1, 100) == 1 ? 0 : -1;
       },
       EOPNOTSUPP},
      {"fallocate",
       [this] {
         const UniqueFd fd(open(Path("f").c_str(), O_WRONLY));
         return fallocate(fd.get(), 0, 0, 1 << 20);
       },
       EOPNOTSUPP},
      {"attribute that is not there",
       [this] { return static_cast<int>(getxattr(Path("g").c_str(), "user.none", nullptr, 0)); }, ENODATA},
      {"a name that is too long", [this] { return mkdir(Path(std::string(256, 'x')).c_str(), 0700); }, ENAMETOOLONG},
  };
  for (const auto& c : cases) {
    errno = 0;
    EXPECT_EQ(c.call(), -1) << c.name;
    EXPECT_EQ(errno, c.error) << c.name << ": " << strerror(errno);
  }
  EXPECT_EQ(ReadFile(Path("g")), "x\n");
}

TEST_P(MountTest, AppendIsLazyAndFsyncOfACleanFileWorks) {
  std::ofstream(Path("f")) << "finished";
  const auto before = std::filesystem::last_write_time(Path("f"));
  {
    const UniqueFd fd(open(Path("f").c_str(), O_RDWR | O_APPEND | O_CREAT, 0600));
    ASSERT_EQ(fsync(fd.get()), 0);
  }
  EXPECT_EQ(std::filesystem::last_write_time(Path("f")), before);
  const UniqueFd fd(open(Path("f").c_str(), O_WRONLY | O_APPEND));
  ASSERT_EQ(write(fd.get(), " and more", 9), 9);
  ASSERT_EQ(fsync(fd.get()), 0);
  EXPECT_EQ(ReadFile(Path("f")), "finished and more");
  const UniqueFd directory(open(mount_.c_str(), O_RDONLY | O_DIRECTORY));
  EXPECT_EQ(fsync(directory.get()), 0);
}

TEST_P(MountTest, ACloseInAChildThatDidNotWriteKeepsTheFileOpen) {
  const std::string content = RandomBytes(3 << 20, 3);
  const UniqueFd fd(open(Path("f").c_str(), O_WRONLY | O_CREAT, 0600));
  ASSERT_EQ(write(fd.get(), content.data(), 1 << 20), 1 << 20);
  const pid_t child = fork();
  if (child == 0) _exit(0);  // closes its copy of the descriptor
  waitpid(child, nullptr, 0);
  EXPECT_NE(Control("stats").find("\"commits\": 0"), std::string::npos) << Control("stats");
  ASSERT_EQ(write(fd.get(), content.data() + (1 << 20), 2 << 20), 2 << 20);
  ASSERT_EQ(fsync(fd.get()), 0);
  EXPECT_EQ(ReadFile(Path("f")), content);
}

TEST_P(MountTest, AShellsRedirectionIsOneWrite) {
  ASSERT_EQ(InMount("echo hello >f; cat f >/dev/null").status, 0);
  EXPECT_NE(Control("stats").find("\"commits\": 1,"), std::string::npos) << Control("stats");
}

TEST_P(MountTest, AttributesOfOpenFilesAreKept) {
  const UniqueFd fd(open(Path("f").c_str(), O_WRONLY | O_CREAT, 0600));
  ASSERT_EQ(write(fd.get(), "abc", 3), 3);
  ASSERT_EQ(fchmod(fd.get(), 0640), 0);
  ASSERT_EQ(fchown(fd.get(), getuid(), getgid()), 0);
  const timespec times[2] = {{1577934245, 0}, {1577934245, 0}};
  ASSERT_EQ(futimens(fd.get(), times), 0);
  ASSERT_EQ(fsync(fd.get()), 0);
  Control("drop-caches");
  struct stat st;
  ASSERT_EQ(stat(Path("f").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0640u);
  EXPECT_EQ(st.st_mtime, 1577934245);
}

TEST_P(MountTest, Xattrs) {
  std::ofstream(Path("f")) << "x";
  ASSERT_EQ(setxattr(Path("f").c_str(), "user.step", "1200", 4, 0), 0) << strerror(errno);
  char value[64] = {};
  EXPECT_EQ(getxattr(Path("f").c_str(), "user.step", value, sizeof value), 4);
  EXPECT_STREQ(value, "1200");
  EXPECT_EQ(listxattr(Path("f").c_str(), value, sizeof value), 10);
  EXPECT_EQ(setxattr(Path("f").c_str(), "user.step", "1", 1, XATTR_CREATE), -1);
  EXPECT_EQ(errno, EEXIST);
  EXPECT_EQ(removexattr(Path("f").c_str(), "user.step"), 0);
  EXPECT_EQ(setxattr(Path("f").c_str(), "security.other", "x", 1, 0), -1);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_P(MountTest, LargeDirectoriesListOnceEach) {
  const Outcome made =
      InMount("mkdir many; cd many; for i in $(seq 1500); do : >f$i; done; ls | sort -u | wc -l; ls -l | wc -l");
  EXPECT_EQ(made.output, "1500\n1501\n") << Log();
  EXPECT_EQ(InMount("rm -r many; ls -A").output, "");
}

TEST_P(MountTest, ADirectoryCanBeReadBackAndForth) {
  ASSERT_EQ(InMount("mkdir many; cd many; seq -f d%g 2500 | xargs mkdir").status, 0) << Log();
  DIR* directory = opendir(Path("many").c_str());
  ASSERT_NE(directory, nullptr);
  std::vector<std::string> names;
  std::vector<long> places;
  while (true) {
    places.push_back(telldir(directory));
    const dirent* entry = readdir(directory);
    if (entry == nullptr) break;
    names.emplace_back(entry->d_name);
  }
  EXPECT_EQ(names.size(), 2502u);
  for (const size_t index : {2400u, 5u, 1700u, 0u, 999u, 1003u, 2u}) {
    seekdir(directory, places[index]);
    const dirent* entry = readdir(directory);
    ASSERT_NE(entry, nullptr) << index;
    EXPECT_EQ(names[index], entry->d_name) << index;
  }
  rewinddir(directory);
  size_t count = 0;
  while (readdir(directory) != nullptr) ++count;
  EXPECT_EQ(count, names.size());
  closedir(directory);
}

TEST_P(MountTest, APageOfHiddenNamesIsNotTheEnd) {
  if (std::string_view(GetParam()).starts_with("hdfs")) GTEST_SKIP() << "the store must be reached beside the mount";
  for (int i = 0; i < 2100; ++i) {
    std::ofstream(fmt::format("{}/.m.0000000112345678{:08x}.pl-p000001", store_, i));
  }
  std::ofstream(store_ + "/z").close();
  EXPECT_EQ(InMount("ls -A").output, "z\n");
}

TEST_P(MountTest, ADirectoryWithOnlyWhatADeadWriterLeftCanBeRemoved) {
  ASSERT_EQ(mkdir(Path("d").c_str(), 0755), 0);
  UniqueFd fd(open(Path("d/half").c_str(), O_WRONLY | O_CREAT, 0600));
  UniqueFd other(open(Path("d/other").c_str(), O_WRONLY | O_CREAT, 0600));
  const std::string content = RandomBytes(20 << 20, 9);
  ASSERT_EQ(write(fd.get(), content.data(), content.size()), static_cast<ssize_t>(content.size()));
  ASSERT_EQ(write(other.get(), content.data(), content.size()), static_cast<ssize_t>(content.size()));
  End(SIGKILL);
  fd.Reset();
  other.Reset();
  ASSERT_EQ(RunShell("umount " + mount_).status, 0);
  ASSERT_TRUE(Mount(""));
  if (std::string_view(GetParam()).starts_with("hdfs")) {
    EXPECT_EQ(rmdir(Path("d").c_str()), -1) << "its writer may live: its lease lasts a minute";
    EXPECT_EQ(errno, ENOTEMPTY);
    ASSERT_EQ(mkdir(Path("d/e").c_str(), 0755), 0);
    EXPECT_EQ(InMount("until rm -r d 2>/dev/null; do read -t 1 <> <(:) || :; done").status, 0) << Log();
  } else {
    EXPECT_EQ(rmdir(Path("d").c_str()), 0) << strerror(errno) << Log();
  }
  EXPECT_EQ(InMount("ls -A").output, "");
}

TEST_P(MountTest, LoadsWhatIsSaidToBeReadBeforeItIsOpened) {
  const std::string content = RandomBytes(3 << 20, 11);
  ASSERT_EQ(mkdir(Path("step 7").c_str(), 0755), 0);
  for (const char* name : {"step 7/a", "step 7/b", "other"}) std::ofstream(Path(name), std::ios::binary) << content;
  const auto comes = [this](const std::string& what) {
    return RunShell(
               fmt::format("until {} control {}/control stats | grep -q \"{}\"; do read -t 0.02 <> <(:) || :; done",
                           PACELINE_HDFS_MOUNT, folder_, what))
               .status == 0;
  };
  char answer[64] = {};
  const std::string expected = fmt::format("files=2 bytes={}", 2 * content.size());
  ASSERT_GT(getxattr(Path("step 7").c_str(), "user.paceline.prefetch", answer, sizeof answer), 0) << strerror(errno);
  EXPECT_EQ(answer, expected);
  EXPECT_EQ(Control("prefetch " + Path("step 7")), expected + "\n");
  EXPECT_EQ(Control("prefetch step 7"), expected + "\n");
  EXPECT_TRUE(comes(fmt::format("bytes.: {}", 2 * content.size()))) << Control("stats");
  EXPECT_TRUE(ReadFile(Path("step 7/a")) == content);
  EXPECT_TRUE(comes("openedFiles.: 1")) << Control("stats");
  EXPECT_TRUE(ReadFile(Path("other")) == content);
  std::ofstream(Path("step 7/b"), std::ios::binary) << "new";
  EXPECT_EQ(ReadFile(Path("step 7/b")), "new");
  EXPECT_TRUE(comes("openedFiles.: 1")) << Control("stats");
  EXPECT_NE(Control("prefetch none").find("error:"), std::string::npos);
  EXPECT_NE(Control("prefetch ../etc").find("error:"), std::string::npos);
  // From the start, and where nothing may be written.
  Unmount();
  ASSERT_TRUE(Mount("--read-only --prefetch-paths other,none"));
  EXPECT_TRUE(comes(fmt::format("bytes.: {}", content.size()))) << Control("stats");
  EXPECT_TRUE(ReadFile(Path("other")) == content);
  EXPECT_TRUE(comes("openedFiles.: 1")) << Control("stats");
  EXPECT_GT(getxattr(Path("step 7/a").c_str(), "user.paceline.prefetch", answer, sizeof answer), 0) << strerror(errno);
}

TEST_P(MountTest, ManyWritersAndReadersAtOnce) {
  const Outcome done = InMount(
      "head -c 9000011 /dev/urandom >$scratch/r; for i in 1 2 3 4 5 6 7 8; do (cp $scratch/r c$i && cmp c$i $scratch/r "
      "&& "
      "mv c$i d$i && cmp d$i $scratch/r && echo ok) & done; wait");
  EXPECT_EQ(done.output, "ok\nok\nok\nok\nok\nok\nok\nok\n") << Log();
}

TEST_P(MountTest, AnswersOnItsControlSocket) {
  std::ofstream(Path("f")) << "x";
  EXPECT_NE(Control("stats").find("\"writtenBytes\": 1"), std::string::npos) << Control("stats");
  EXPECT_NE(Control("metrics").find("paceline_mount_requests_total{request=\"write\",result=\"ok\"} 1"),
            std::string::npos);
  EXPECT_EQ(Control("log-level debug"), "ok\n");
  EXPECT_EQ(Control("drop-caches"), "ok\n");
  EXPECT_NE(Control("nonsense").find("error:"), std::string::npos);
  const UniqueFd fd(open(Path("g").c_str(), O_WRONLY | O_CREAT, 0600));
  ASSERT_EQ(write(fd.get(), "abc", 3), 3);
  EXPECT_EQ(Control("flush"), "ok\n");
  EXPECT_NE(Control("stats").find("\"unsentBytes\": 0"), std::string::npos);
}

TEST_P(MountTest, SigtermWritesOutWhatIsOpen) {
  const std::string content = RandomBytes(2 << 20, 9);
  UniqueFd fd(open(Path("f").c_str(), O_WRONLY | O_CREAT, 0600));
  ASSERT_EQ(write(fd.get(), content.data(), content.size()), static_cast<ssize_t>(content.size()));
  Unmount();
  EXPECT_FALSE(IsMounted());
  EXPECT_EQ(write(fd.get(), "x", 1), -1);
  fd.Reset();
  ASSERT_TRUE(Mount(""));
  EXPECT_EQ(ReadFile(Path("f")), content);
}

TEST_P(MountTest, SigkillLeavesNoHalfFile) {
  UniqueFd synced(open(Path("synced").c_str(), O_WRONLY | O_CREAT, 0600));
  ASSERT_EQ(write(synced.get(), "safe", 4), 4);
  ASSERT_EQ(fsync(synced.get()), 0);
  UniqueFd fd(open(Path("half").c_str(), O_WRONLY | O_CREAT, 0600));
  const std::string content = RandomBytes(8 << 20, 9);
  ASSERT_EQ(write(fd.get(), content.data(), content.size()), static_cast<ssize_t>(content.size()));
  End(SIGKILL);
  EXPECT_EQ(fsync(fd.get()), -1);
  fd.Reset();
  synced.Reset();
  ASSERT_EQ(RunShell("umount " + mount_).status, 0);
  ASSERT_TRUE(Mount(""));
  EXPECT_EQ(InMount("ls -A").output, "synced\n");
  EXPECT_EQ(ReadFile(Path("synced")), "safe");
}

TEST_P(MountTest, MakesWhatIsNotThereWhenItMay) {
  Unmount();
  const std::string before = uri_;
  uri_ += "/jobs/llama 3";
  const Outcome refused = RunShell(fmt::format("{} \"{}\" {}", PACELINE_HDFS_MOUNT, uri_, mount_));
  EXPECT_EQ(refused.status, 1) << refused.output;
  uri_ = "\"" + uri_ + "\"";
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(Mount("--create-directory")) << "round " << round;
    Unmount();
  }
  uri_ = before;
  ASSERT_TRUE(Mount(""));
  struct stat st;
  ASSERT_EQ(stat(Path("jobs/llama 3").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0755u);
}

TEST_P(MountTest, ReadOnly) {
  std::ofstream(Path("f")) << "x";
  Unmount();
  ASSERT_TRUE(Mount("--read-only"));
  EXPECT_EQ(ReadFile(Path("f")), "x");
  EXPECT_EQ(mkdir(Path("d").c_str(), 0700), -1);
  EXPECT_EQ(errno, EROFS);
}

}  // namespace
}  // namespace paceline::fuse_hdfs
