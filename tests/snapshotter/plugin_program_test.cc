// paceline-snapshotter plugin as containerd uses it: calls over its socket, real FUSE, EROFS and overlay mounts in a
// mount namespace of the test's own.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "lib/base/json.h"
#include "lib/base/local_socket.h"
#include "lib/base/unique_fd.h"
#include "snapshotter/proto/snapshots.grpc.pb.h"
#include "tests/blocks_image/converted.h"
#include "tests/blocks_image/erofs_mount.h"

namespace paceline::blocks {
namespace {

namespace api = ::containerd::services::snapshots::v1;
using testing::HasSubstr;
using testing::Not;

constexpr char kTarget[] = "containerd.io/snapshot.ref";
constexpr char kName[] = "paceline";
constexpr std::chrono::seconds kStartLimit{20};

constexpr char kLowerTree[] = R"sh(
  mkdir -p tree/etc tree/gone; cd tree; chmod 750 .; chown 7:8 . 2>/dev/null || true
  head -c 3000000 /dev/urandom > big; echo old > etc/a; echo old > gone/b
)sh";
constexpr char kUpperTree[] = R"sh(
  mkdir -p tree/etc tree/app; cd tree; touch .wh.gone; echo new > etc/a; head -c 1000000 /dev/urandom > app/model
)sh";

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class PluginProgramTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!WhyNoErofs().empty()) GTEST_SKIP() << WhyNoErofs();
    BlockImageManifest image;
    image.subject = {kManifestMediaType, manifest_, 7, {}};
    image.platform = "linux/amd64";
    for (const char* tree : {kLowerTree, kUpperTree}) image.layers.push_back(MakeLayer(tree));
    bottom_ = ChainId(std::nullopt, image.layers[0].diff_id);
    top_ = ChainId(bottom_, image.layers[1].diff_id);
    const Result<Descriptor> stored = bench_.store().PutManifest(ImageTag(manifest_), kManifestMediaType,
                                                                 EncodeImageManifest(image), Deadline::Infinite());
    ASSERT_TRUE(stored.ok()) << stored.status().ToString();
    Start();
  }

  void TearDown() override {
    for (const std::string& mounted : mounted_) umount2(mounted.c_str(), MNT_DETACH);
    if (pid_ > 0) End(SIGTERM);
    // Its mounts stay; the last one is on top.
    std::vector<std::string> left;
    std::istringstream table(ReadFile("/proc/self/mountinfo"));
    for (std::string line; std::getline(table, line);) {
      const size_t at = line.find(bench_.folder().path() + "/root/");
      if (at != std::string::npos) left.push_back(line.substr(at, line.find(' ', at) - at));
    }
    for (auto mount = left.rbegin(); mount != left.rend(); ++mount) umount2(mount->c_str(), MNT_DETACH);
  }

  std::string Path(const std::string& name) const { return bench_.folder() / name; }

  BlockLayer MakeLayer(const std::string& script) {
    const std::string path = Path("make.sh");
    std::ofstream(path) << "set -euo pipefail\ncd " << bench_.folder().path() << "\nrm -rf tree\n(" << script
                        << ")\ntar --xattrs -C tree -cf layer.tar .\n";
    EXPECT_EQ(std::system(("bash " + path).c_str()), 0);
    if (std::filesystem::exists(Path("tree/big"))) big_ = Sha256Of(ReadFile(Path("tree/big")));
    const Result<ConvertedLayer> converted = bench_.Convert(ReadFile(Path("layer.tar")));
    EXPECT_TRUE(converted.ok()) << converted.status().ToString();
    return converted->layer;
  }

  void Start() {
    pid_ = fork();
    if (pid_ == 0) {
      const int log = open(Path("log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      dup2(log, STDERR_FILENO);
      const std::string store = bench_.store().Describe(), root = Path("root"), socket = Path("s"), keeper = Path("k"),
                        status = Path("t");
      execl(PACELINE_SNAPSHOTTER, PACELINE_SNAPSHOTTER, "plugin", "--root", root.c_str(), "--socket", socket.c_str(),
            "--stores", store.c_str(), "--metrics-address", "127.0.0.1", "--metrics-port", "0", "--log-level", "debug",
            "--keeper-socket", keeper.c_str(), "--first-start-fill-below", "0", "--first-start-read-around", "0",
            "--keeper-give-up-after", "2s", "--status-socket", status.c_str(), nullptr);
      _exit(127);
    }
    // Connections of its own: a shared one may still be that of the program before.
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    auto channel = grpc::CreateCustomChannel("unix:" + Path("s"), grpc::InsecureChannelCredentials(), arguments);
    ASSERT_TRUE(channel->WaitForConnected(
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(kStartLimit.count(), GPR_TIMESPAN))))
        << ReadFile(Path("log"));
    stub_ = api::Snapshots::NewStub(channel);
  }

  // Its exit code, or -1 when the signal ended it.
  int End(int signal) {
    stub_.reset();  // an idle connection of ours would keep it for as long as nobody reads its farewell
    kill(pid_, signal);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  grpc::StatusCode Prepare(const std::string& key, const std::string& parent,
                           const std::map<std::string, std::string>& labels, api::PrepareSnapshotResponse* response) {
    grpc::ClientContext context;
    api::PrepareSnapshotRequest request;
    request.set_snapshotter(kName);
    request.set_key(key);
    request.set_parent(parent);
    for (const auto& [label, value] : labels) (*request.mutable_labels())[label] = value;
    return stub_->Prepare(&context, request, response).error_code();
  }

  grpc::StatusCode Extract(const Digest& target, const std::string& parent, const Digest& manifest,
                           api::PrepareSnapshotResponse* response) {
    return Prepare("default/1/extract-1 " + target.ToString(), parent,
                   {{kTarget, target.ToString()},
                    {"containerd.io/snapshot/cri.image-ref", "registry.test:5000/python:1"},
                    {"containerd.io/snapshot/cri.manifest-digest", manifest.ToString()}},
                   response);
  }

  std::vector<api::Info> List(const std::string& filter = "") {
    grpc::ClientContext context;
    api::ListSnapshotsRequest request;
    request.set_snapshotter(kName);
    if (!filter.empty()) request.add_filters(filter);
    const auto reader = stub_->List(&context, request);
    std::vector<api::Info> found;
    api::ListSnapshotsResponse page;
    while (reader->Read(&page)) found.insert(found.end(), page.info().begin(), page.info().end());
    EXPECT_TRUE(reader->Finish().ok());
    return found;
  }

  // The key of the snapshot that stands in for `target`.
  std::string StandIn(const Digest& target, const std::string& parent) {
    const std::vector<api::Info> found =
        List(fmt::format("labels.\"{}\"=={},parent==\"{}\"", kTarget, target.ToString(), parent));
    EXPECT_EQ(found.size(), 1u);
    if (found.empty()) return "";
    EXPECT_EQ(found[0].kind(), api::COMMITTED);
    EXPECT_GT(found[0].created_at().seconds(), 0);
    return found[0].name();
  }

  // As a pull of the converted image goes; the key of its top layer.
  std::string Pull() {
    api::PrepareSnapshotResponse response;
    EXPECT_EQ(Extract(bottom_, "", manifest_, &response), grpc::StatusCode::ALREADY_EXISTS) << ReadFile(Path("log"));
    const std::string bottom = StandIn(bottom_, "");
    EXPECT_EQ(Extract(top_, bottom, manifest_, &response), grpc::StatusCode::ALREADY_EXISTS);
    return StandIn(top_, bottom);
  }

  // Mounts as containerd does; the folder.
  std::string Mount(const google::protobuf::RepeatedPtrField<api::Mount>& mounts, const std::string& name) {
    const std::string target = Path(name);
    mkdir(target.c_str(), 0755);
    EXPECT_EQ(mounts.size(), 1);
    if (mounts.empty()) return target;
    std::string options;
    for (const std::string& option : mounts[0].options()) options += (options.empty() ? "" : ",") + option;
    EXPECT_EQ(mounts[0].type(), "overlay");
    EXPECT_EQ(mount("overlay", target.c_str(), "overlay", 0, options.c_str()), 0) << strerror(errno) << " " << options;
    mounted_.push_back(target);
    return target;
  }

  std::string Container(const std::string& key, const std::string& top) {
    api::PrepareSnapshotResponse response;
    EXPECT_EQ(Prepare(key, top, {}, &response), grpc::StatusCode::OK) << ReadFile(Path("log"));
    return Mount(response.mounts(), key);
  }

  // What the node's agent would hear.
  Json Status() {
    const Result<std::string> answer =
        AskLocal(Path("t"), "images", 1 << 20, RealClock(), Deadline::After(RealClock(), kStartLimit));
    EXPECT_TRUE(answer.ok()) << answer.status().ToString();
    return ParseJson(answer.value_or("")).value_or(Json());
  }

  grpc::StatusCode Remove(const std::string& key) {
    grpc::ClientContext context;
    api::RemoveSnapshotRequest request;
    request.set_key(key);
    google::protobuf::Empty empty;
    return stub_->Remove(&context, request, &empty).error_code();
  }

  int64_t Usage(const std::string& key) {
    grpc::ClientContext context;
    api::UsageRequest request;
    request.set_key(key);
    api::UsageResponse response;
    EXPECT_TRUE(stub_->Usage(&context, request, &response).ok());
    return response.size();
  }

  LayerBench bench_;
  const Digest manifest_ = Sha256Of("original");
  Digest bottom_, top_;
  Digest big_;  // of the content of /big
  pid_t pid_ = -1;
  std::unique_ptr<api::Snapshots::Stub> stub_;
  std::vector<std::string> mounted_;
};

TEST_F(PluginProgramTest, AConvertedImageIsThereWithoutBeingFetched) {
  const std::string top = Pull();
  EXPECT_EQ(Usage(top), 0);
  const std::string root = Container("c1", top);
  EXPECT_EQ(ReadFile(root + "/etc/a"), "new\n");
  EXPECT_FALSE(std::filesystem::exists(root + "/gone"));
  EXPECT_EQ(ReadFile(root + "/app/model").size(), 1000000u);
  EXPECT_GE(Usage(top), 1000000);
  EXPECT_LE(Usage(StandIn(bottom_, "")), 70000);  // nothing of 3 MB was read
  const Json status = Status();
  ASSERT_EQ(status["asked"].size(), 1u) << status.dump();
  EXPECT_EQ(status["asked"][0]["mode"], "Lazy");
  EXPECT_EQ(status["asked"][0]["name"], "registry.test:5000/python:1");
  EXPECT_EQ(status["asked"][0]["manifest"], manifest_.ToString());
  EXPECT_TRUE(status["asked"][0].contains("readyAt"));
  ASSERT_EQ(status["images"].size(), 1u);
  EXPECT_EQ(status["images"][0]["digest"], status["asked"][0]["converted"]);
  EXPECT_GE(status["images"][0]["originBytes"].get<int64_t>(), 1000000);
  EXPECT_EQ(status["images"][0]["hotSet"]["state"], "Recording");
  std::ofstream(root + "/etc/a") << "mine";
  EXPECT_EQ(ReadFile(root + "/etc/a"), "mine");
  const std::string other = Container("c2", top);
  EXPECT_EQ(ReadFile(other + "/etc/a"), "new\n");
  // Another pull finds the same snapshots.
  EXPECT_EQ(Pull(), top);
  EXPECT_EQ(List().size(), 4u);
}

TEST_F(PluginProgramTest, AnImageThatIsNotConvertedIsUnpacked) {
  api::PrepareSnapshotResponse response;
  ASSERT_EQ(Extract(Sha256Of("some layer"), "", Sha256Of("another"), &response), grpc::StatusCode::OK);
  ASSERT_EQ(response.mounts_size(), 1);
  EXPECT_EQ(response.mounts(0).type(), "bind");
  std::ofstream(response.mounts(0).source() + "/file") << "unpacked";
  {
    grpc::ClientContext context;
    api::CommitSnapshotRequest request;
    request.set_key("default/1/extract-1 " + Sha256Of("some layer").ToString());
    request.set_name("default/2/layer");
    google::protobuf::Empty empty;
    ASSERT_TRUE(stub_->Commit(&context, request, &empty).ok());
  }
  EXPECT_EQ(ReadFile(Container("c1", "default/2/layer") + "/file"), "unpacked");
  EXPECT_EQ(Remove("default/2/layer"), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(Remove("nobody"), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(ReadFile(Path("log")), HasSubstr("not converted"));
  const Json status = Status();
  ASSERT_EQ(status["asked"].size(), 1u) << status.dump();
  EXPECT_EQ(status["asked"][0]["mode"], "Pulled");
  EXPECT_EQ(status["asked"][0]["reason"], "NotConverted");
}

TEST_F(PluginProgramTest, ADamagedConversionIsNotUsed) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(Path("store"))) {
    if (!entry.is_regular_file() || entry.file_size() < 256) continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    char magic[8] = {};
    file.read(magic, sizeof magic);
    if (std::string_view(magic, 7) != "PCLBIDX") continue;
    file.seekp(300);
    file.put('x');
  }
  api::PrepareSnapshotResponse response;
  EXPECT_EQ(Extract(bottom_, "", manifest_, &response), grpc::StatusCode::OK);
  EXPECT_THAT(ReadFile(Path("log")), HasSubstr("converted image is not usable"));
  EXPECT_EQ(Status()["asked"][0]["reason"], "DataLoss");
}

TEST_F(PluginProgramTest, ARestartTakesEverythingOver) {
  const std::string top = Pull();
  EXPECT_EQ(ReadFile(Container("c1", top) + "/etc/a"), "new\n");
  const size_t count = List().size();
  EXPECT_EQ(End(SIGTERM), 0);
  std::filesystem::rename(Path("store/blobs"), Path("away"));  // what was read needs no store, and no network
  Start();
  EXPECT_EQ(List().size(), count);
  EXPECT_EQ(End(SIGKILL), -1);
  Start();
  EXPECT_EQ(List().size(), count);
  EXPECT_EQ(ReadFile(Container("c2", top) + "/etc/a"), "new\n");
  std::filesystem::rename(Path("away"), Path("store/blobs"));
  EXPECT_EQ(ReadFile(Path("c2") + "/app/model").size(), 1000000u);
}

// Reads go on while the plugin is killed and started again, and no byte is wrong.
TEST_F(PluginProgramTest, ContainersOutliveThePlugin) {
  const std::string top = Pull(), root = Container("c1", top);
  const std::string model = ReadFile(Path("tree/app/model"));
  ASSERT_EQ(model.size(), 1000000u);
  const UniqueFd file(open((root + "/big").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(file.is_valid());
  char first = 0;
  ASSERT_EQ(pread(file.get(), &first, 1, 0), 1);
  EXPECT_EQ(End(SIGKILL), -1);
  Sha256 hash;
  std::thread reader([&] {  // waits in the kernel
    std::string buffer(65536, '\0');
    off_t at = 0;
    for (ssize_t got; (got = pread(file.get(), buffer.data(), buffer.size(), at)) > 0; at += got) {
      hash.Update({buffer.data(), static_cast<size_t>(got)});
    }
    EXPECT_EQ(at, 3000000);
  });
  Start();
  reader.join();
  EXPECT_EQ(hash.Finish(), big_);
  for (int round = 0; round < 5; ++round) {
    std::thread copier([&] { EXPECT_EQ(ReadFile(root + "/app/model"), model); });
    EXPECT_EQ(End(round % 2 == 0 ? SIGKILL : SIGTERM), round % 2 == 0 ? -1 : 0);
    Start();
    copier.join();
    EXPECT_EQ(ReadFile(Container(fmt::format("again{}", round), top) + "/etc/a"), "new\n");
  }
  EXPECT_THAT(ReadFile(Path("log")), HasSubstr("going on with the mounts"));
}

TEST_F(PluginProgramTest, WhatIsRemovedLeavesNothing) {
  const std::string top = Pull(), bottom = StandIn(bottom_, "");
  Container("c1", top);
  EXPECT_EQ(Remove(top), grpc::StatusCode::FAILED_PRECONDITION);
  ASSERT_EQ(umount2(Path("c1").c_str(), 0), 0);
  for (const std::string& key : {std::string("c1"), top, bottom}) EXPECT_EQ(Remove(key), grpc::StatusCode::OK) << key;
  grpc::ClientContext context;
  google::protobuf::Empty empty;
  ASSERT_TRUE(stub_->Cleanup(&context, api::CleanupRequest(), &empty).ok());
  EXPECT_TRUE(List().empty());
  EXPECT_TRUE(std::filesystem::is_empty(Path("root/snapshots")));
  EXPECT_THAT(ReadFile("/proc/self/mountinfo"), Not(HasSubstr(Path("root/snapshots"))));
}

}  // namespace
}  // namespace paceline::blocks
