// Volumes of type hdfs on this machine with everything real but HDFS and kubelet: paceline-holder, paceline-hdfs-mount
// on a folder, the kernel's mounts, and a "container": a process in a mount namespace of its own, as a runtime makes
// it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include "agent/csi/hdfs_volume.h"
#include "agent/csi/volume_publisher.h"
#include "tests/agent/mount_namespace.h"
#include "tests/agent/node_folders.h"
#include "tests/fakes/capture_log.h"

extern char** environ;

namespace paceline::agent {
namespace {

using ::testing::HasSubstr;

// Sees the volume through a bind mount that receives later mounts, as mountPropagation: HostToContainer gives it. Each
// line sent to it is run by a shell there.
class Container {
 public:
  Container(const std::string& target, const std::string& inside) {
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      dup2(to[0], STDIN_FILENO);
      dup2(from[1], STDOUT_FILENO);
      dup2(from[1], STDERR_FILENO);
      for (const int fd : {to[0], to[1], from[0], from[1]}) close(fd);
      const bool is_set_up = unshare(CLONE_NEWNS) == 0 && mount("", "/", nullptr, MS_REC | MS_SLAVE, nullptr) == 0 &&
                             mount(target.c_str(), inside.c_str(), nullptr, MS_BIND, nullptr) == 0;
      if (is_set_up) execl("/bin/sh", "sh", nullptr);
      _exit(1);
    }
    close(to[0]);
    close(from[1]);
    in_ = fdopen(to[1], "w");
    out_ = fdopen(from[0], "r");
  }
  ~Container() {
    fclose(in_);
    waitpid(pid_, nullptr, 0);
    fclose(out_);
  }

  std::string Run(const std::string& command) {
    fprintf(in_, "( %s ) 2>&1; echo; echo =done=\n", command.c_str());
    fflush(in_);
    std::string output;
    char line[4096];
    while (fgets(line, sizeof line, out_) != nullptr && std::string_view(line) != "=done=\n") output += line;
    while (!output.empty() && output.back() == '\n') output.pop_back();
    return output;
  }

 private:
  pid_t pid_ = -1;
  FILE* in_ = nullptr;
  FILE* out_ = nullptr;
};

class HdfsMountTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!WhyNoMounts().empty()) GTEST_SKIP() << WhyNoMounts();
    if (access("/dev/fuse", R_OK | W_OK) != 0) GTEST_SKIP() << "no /dev/fuse here";
    folders_.emplace();
    // Kubelet's folder as a node has it: on a mount that passes mounts on.
    const std::string kubelet = folders_->kubelet_dir();
    ASSERT_EQ(mount("kubelet", kubelet.c_str(), "tmpfs", 0, nullptr), 0);
    ASSERT_EQ(mount("", kubelet.c_str(), nullptr, MS_SHARED, nullptr), 0);
    std::filesystem::create_directories(kubelet + "/pods");
    std::filesystem::create_directories(store());
    std::filesystem::create_directories(folders_->root() + "/inside");
    StartHolder();
    StartAgent();
  }
  void TearDown() override {
    if (!folders_) return;
    publisher_.reset();
    if (holder_ > 0) EndHolder(SIGTERM);
    umount2(folders_->kubelet_dir().c_str(), MNT_DETACH);
  }

  std::string store() const { return folders_->root() + "/store"; }
  std::string mount_root() const { return folders_->kubelet_dir() + "/plugins/csi.paceline.dev/mounts"; }
  std::string socket() const { return folders_->root() + "/holder/holder.sock"; }

  void StartHolder() {
    const std::string script = "exec " PACELINE_HOLDER " --state-dir " + folders_->root() + "/holder --mount-root " +
                               mount_root() +
                               " --programs " PACELINE_HDFS_MOUNT " --restart-first 100ms --stop-mounts yes >> " +
                               folders_->root() + "/holder.log 2>&1";
    const char* words[] = {"sh", "-c", script.c_str(), nullptr};
    ASSERT_EQ(posix_spawn(&holder_, "/bin/sh", nullptr, nullptr, const_cast<char**>(words), environ), 0);
    client_ = NewHolderClient(socket(), clock_);
    ASSERT_TRUE(Eventually([&] { return client_->List(Soon()).ok(); })) << Log();
  }
  void EndHolder(int signal) {
    kill(holder_, signal);
    waitpid(holder_, nullptr, 0);
    holder_ = -1;
  }
  // Without an agent before it nothing is mounted; with one, it is as if that had been killed.
  void StartAgent() {
    host_ = NewLinuxVolumeHost({folders_->kubelet_dir(), folders_->state_dir()});
    std::vector<std::unique_ptr<VolumeType>> types;
    types.push_back(NewHdfsVolume({.rules = {.memory_limit = {64 << 20}, .file_root = store()}},
                                  NewHolderClient(socket(), clock_), *host_, clock_, log_.logger()));
    publisher_ = std::make_unique<VolumePublisher>(
        VolumePublisher::Options{folders_->kubelet_dir(), folders_->state_dir(), {}}, *host_, std::move(types), clock_);
    const Result<RecoveryReport> report = publisher_->Recover(Soon());
    ASSERT_TRUE(report.ok());
    EXPECT_THAT(report->problems, ::testing::IsEmpty());
  }

  PublishRequest Request(const std::string& uri) {
    PublishRequest request;
    request.volume_id = "csi-1";
    request.target_path = folders_->AddVolume("u1", "checkpoints");
    request.context = {{"type", "hdfs"}, {"uri", uri}, {"csi.storage.k8s.io/pod.uid", "u1"}};
    return request;
  }
  Status Publish(const PublishRequest& request) { return publisher_->Publish(request, Soon()); }
  Status Unpublish(const PublishRequest& request) {
    return publisher_->Unpublish(request.volume_id, request.target_path, Soon());
  }
  void KillMount() {
    const std::string record =
        ReadTextFile(folders_->root() + "/holder/mounts/" + HdfsMountName("csi-1") + "/record.json");
    const size_t at = record.find("\"pid\":");
    ASSERT_NE(at, std::string::npos);
    kill(std::stoi(record.substr(at + 6)), SIGKILL);
  }

  Deadline Soon() const { return Deadline::After(clock_, std::chrono::seconds(20)); }
  bool Eventually(const std::function<bool()>& condition) {
    const Deadline deadline = Soon();
    while (!condition()) {
      if (deadline.Expired(clock_)) return false;
      clock_.SleepFor(std::chrono::milliseconds(20), {});
    }
    return true;
  }
  std::string Log() { return ReadTextFile(folders_->root() + "/holder.log"); }

  std::optional<NodeFolders> folders_;
  RealClock clock_;
  fakes::CaptureLog log_;
  std::unique_ptr<VolumeHost> host_;
  std::unique_ptr<HolderClient> client_;
  std::unique_ptr<VolumePublisher> publisher_;
  pid_t holder_ = -1;
};

TEST_F(HdfsMountTest, WritesGoOnThroughTheAgentsDeath) {
  const PublishRequest request = Request("file://" + store());
  ASSERT_EQ(Publish(request), Status()) << Log();
  {
    Container container(request.target_path, folders_->root() + "/inside");
    const std::string file = folders_->root() + "/inside/checkpoint";
    EXPECT_EQ(container.Run("exec 5>" + file + "; echo before >&5; exec 5>&-"), "");
    publisher_.reset();  // the agent is gone
    EXPECT_EQ(container.Run("echo after >> " + file + "; cat " + file), "before\nafter");
    StartAgent();
    EXPECT_EQ(container.Run("cat " + file), "before\nafter");
    EXPECT_EQ(publisher_->Look(Soon()).at(0).figures->restarts, 0);
    EXPECT_EQ(Publish(request), Status());
  }
  EXPECT_EQ(Unpublish(request), Status()) << Log();
  EXPECT_EQ(ReadTextFile(store() + "/checkpoint"), "before\nafter\n");
  EXPECT_TRUE(std::filesystem::is_empty(mount_root()));
  EXPECT_FALSE(std::filesystem::exists(request.target_path));
}

TEST_F(HdfsMountTest, AKilledMountComesBackInARunningContainer) {
  const PublishRequest request = Request("file://" + store());
  ASSERT_EQ(Publish(request), Status()) << Log();
  Container container(request.target_path, folders_->root() + "/inside");
  const std::string file = folders_->root() + "/inside/checkpoint";
  EXPECT_EQ(container.Run("echo kept > " + file), "");
  for (int deaths = 1; deaths <= 2; ++deaths) {
    KillMount();
    EXPECT_TRUE(Eventually([&] {
      publisher_->Look(Soon());
      return container.Run("cat " + file) == "kept";
    })) << container.Run("cat " + file)
        << Log();
    EXPECT_EQ(publisher_->Look(Soon()).at(0).figures->restarts, deaths);
  }
  EXPECT_EQ(container.Run("echo more >> " + file + " && cat " + file), "kept\nmore");
  EXPECT_EQ(Unpublish(request), Status()) << Log();
  EXPECT_FALSE(std::filesystem::exists(request.target_path));
}

TEST_F(HdfsMountTest, TheNextHolderMountsAgain) {
  const PublishRequest request = Request("file://" + store());
  ASSERT_EQ(Publish(request), Status()) << Log();
  Container container(request.target_path, folders_->root() + "/inside");
  EXPECT_EQ(container.Run("echo kept > " + folders_->root() + "/inside/checkpoint"), "");
  EndHolder(SIGTERM);  // with its mounts, as the end of its container
  EXPECT_EQ(publisher_->Look(Soon()).at(0).figures->state, "Unknown");
  StartHolder();
  EXPECT_TRUE(Eventually([&] {
    publisher_->Look(Soon());
    return container.Run("cat " + folders_->root() + "/inside/checkpoint") == "kept";
  })) << Log();
  EXPECT_EQ(Unpublish(request), Status()) << Log();
}

TEST_F(HdfsMountTest, CountsAndSaysWhy) {
  const PublishRequest request = Request("file://" + store());
  WriteTextFile(store() + "/weights", std::string(100000, 'x'));
  ASSERT_EQ(Publish(request), Status()) << Log();
  EXPECT_EQ(ReadTextFile(request.target_path + "/weights").size(), 100000u);
  const MountFigures figures = *publisher_->Look(Soon()).at(0).figures;
  EXPECT_EQ(figures.state, "Mounted");
  EXPECT_EQ(figures.message, "");
  EXPECT_EQ(figures.read_bytes, 100000);
  EXPECT_TRUE(figures.first_read_at.has_value() && figures.last_read_at.has_value());
  EXPECT_EQ(Unpublish(request), Status());

  const Status missing = Publish(Request("file://" + store() + "/missing"));
  EXPECT_THAT(missing.message(), HasSubstr("No such file")) << Log();
  EXPECT_TRUE(std::filesystem::is_empty(mount_root()));
}

TEST_F(HdfsMountTest, AReadOnlyVolumeIsOne) {
  WriteTextFile(store() + "/weights", "w");
  PublishRequest request = Request("file://" + store());
  request.is_read_only = true;
  ASSERT_EQ(Publish(request), Status()) << Log();
  EXPECT_EQ(ReadTextFile(request.target_path + "/weights"), "w");
  std::ofstream out(request.target_path + "/new");
  EXPECT_FALSE(out.is_open());
  EXPECT_EQ(Unpublish(request), Status());
}

// Against a real HDFS with Kerberos (scripts/testbed up hdfs --hdfs-mode kerberos): the Secret alone opens it, as the
// environment of this program, which has tickets, is kept from the holder.
class KerberosVolumeTest : public HdfsMountTest {
 protected:
  void SetUp() override {
    const char* mode = std::getenv("HDFS_MODE");
    if (mode == nullptr || std::string(mode) != "kerberos") {
      GTEST_SKIP() << "needs scripts/testbed up hdfs --hdfs-mode kerberos";
    }
    for (const char* name : {"core-site.xml", "hdfs-site.xml"}) {
      config_[name] = ReadTextFile(std::string(std::getenv("HADOOP_CONF_DIR")) + "/" + name);
    }
    config_["krb5.conf"] = ReadTextFile(std::getenv("KRB5_CONFIG"));
    keytab_ = ReadTextFile(std::getenv("HDFS_KEYTAB"));
    char folder[] = "/tmp/token-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    const std::string token = std::string(folder) + "/token";
    const std::string fetch =
        PACELINE_SOURCE_DIR "/scripts/testbed hdfs java org.apache.hadoop.hdfs.tools.DelegationTokenFetcher ";
    ASSERT_EQ(std::system((fetch + token + " >/dev/null 2>&1").c_str()), 0);
    token_ = ReadTextFile(token);
    std::filesystem::remove_all(folder);
    uri_ = std::getenv("HDFS_URI") + std::string("/kerberos-volume-") + std::to_string(getpid()) + "/run";
    for (const char* name : {"KRB5_CONFIG", "KRB5CCNAME", "KRB5_CLIENT_KTNAME", "HADOOP_CONF_DIR", "HADOOP_USER_NAME",
                             "HADOOP_TOKEN_FILE_LOCATION"}) {
      if (const char* value = std::getenv(name)) hidden_[name] = value;
      unsetenv(name);
    }
    HdfsMountTest::SetUp();
  }
  void TearDown() override {
    HdfsMountTest::TearDown();
    for (const auto& [name, value] : hidden_) setenv(name.c_str(), value.c_str(), 1);
  }

  PublishRequest RequestWith(std::map<std::string, std::string> secrets) {
    PublishRequest request = Request(uri_);
    request.context.insert(
        {{"layout", "striped"}, {"stripeFiles", "2"}, {"stripeUnit", "128Ki"}, {"createDirectory", "true"}});
    request.secrets = std::move(secrets);
    request.secrets.insert(config_.begin(), config_.end());
    return request;
  }

  std::map<std::string, std::string> config_, hidden_;
  std::string keytab_, token_, uri_;
};

TEST_F(KerberosVolumeTest, AKeytabOrATokenInTheSecretOpensIt) {
  const std::string content(3 << 20, 'k');
  const PublishRequest writes = RequestWith({{"keytab", keytab_}});
  ASSERT_EQ(Publish(writes), Status()) << Log();
  WriteTextFile(writes.target_path + "/weights", content);
  EXPECT_TRUE(ReadTextFile(writes.target_path + "/weights") == content);
  EXPECT_EQ(Unpublish(writes), Status()) << Log();

  const PublishRequest reads = RequestWith({{"token", token_}});
  ASSERT_EQ(Publish(reads), Status()) << Log();
  EXPECT_TRUE(ReadTextFile(reads.target_path + "/weights") == content);
  std::ofstream(reads.target_path + "/more") << "by token";
  EXPECT_EQ(ReadTextFile(reads.target_path + "/more"), "by token");
  for (const char* name : {"/weights", "/more"}) std::filesystem::remove(reads.target_path + name);
  EXPECT_EQ(Unpublish(reads), Status()) << Log();
  EXPECT_TRUE(std::filesystem::is_empty(mount_root()));
}

TEST_F(KerberosVolumeTest, SaysWhatIsWrongWithTheSecret) {
  const std::map<std::string, std::string> secrets[] = {
      {}, {{"keytab", keytab_.substr(0, keytab_.size() / 2)}}, {{"token", "no token"}}};
  const char* words[] = {"Kerberos", "Kerberos: no way to prove who we are", "token"};
  for (size_t i = 0; i < std::size(secrets); ++i) {
    const PublishRequest request = RequestWith(secrets[i]);
    const Status status = Publish(request);
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(status.message(), HasSubstr(words[i])) << Log();
    EXPECT_EQ(Unpublish(request), Status());
  }
  EXPECT_TRUE(std::filesystem::is_empty(mount_root()));
}

}  // namespace
}  // namespace paceline::agent
