// The driver over its real sockets, asked as kubelet asks, with real mounts where this machine allows them.
#include "agent/csi/csi_server.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <thread>

#include "agent/csi/scratch_volume.h"
#include "agent/facts/containerd_version.h"
#include "agent/proto/containerd_version.grpc.pb.h"
#include "agent/proto/csi_node.grpc.pb.h"
#include "agent/proto/plugin_registration.grpc.pb.h"
#include "tests/agent/mount_namespace.h"
#include "tests/agent/node_folders.h"
#include "tests/fakes/capture_log.h"

namespace paceline::agent {
namespace {

using ::testing::HasSubstr;

class CsiServerTest : public ::testing::Test {
 protected:
  CsiServerTest() : host_(NewLinuxVolumeHost({folders_.kubelet_dir(), folders_.state_dir()})) {}

  std::string csi_socket() const { return folders_.kubelet_dir() + "/plugins/csi.paceline.dev/csi.sock"; }
  std::string registration_socket() const {
    return folders_.kubelet_dir() + "/plugins_registry/csi.paceline.dev-reg.sock";
  }

  void StartAgent() {
    std::vector<std::unique_ptr<VolumeType>> types;
    types.push_back(NewScratchVolume(folders_.state_dir(), *host_));
    publisher_ = std::make_unique<VolumePublisher>(
        VolumePublisher::Options{folders_.kubelet_dir(), folders_.state_dir()}, *host_, std::move(types), clock_);
    ASSERT_TRUE(publisher_->Recover(Deadline::Infinite()).ok());
    Result<std::unique_ptr<CsiServer>> server = CsiServer::Start({.node_name = "n1",
                                                                  .version = "0.1.0-test",
                                                                  .csi_socket = csi_socket(),
                                                                  .registration_socket = registration_socket()},
                                                                 *publisher_, clock_, log_.logger(), *metrics_);
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(*server);
    auto channel = grpc::CreateChannel("unix:" + csi_socket(), grpc::InsecureChannelCredentials());
    node_ = csi::v1::Node::NewStub(channel);
    identity_ = csi::v1::Identity::NewStub(channel);
    registration_ = pluginregistration::Registration::NewStub(
        grpc::CreateChannel("unix:" + registration_socket(), grpc::InsecureChannelCredentials()));
  }

  csi::v1::NodePublishVolumeRequest Request(const std::map<std::string, std::string>& attributes) {
    csi::v1::NodePublishVolumeRequest request;
    request.set_volume_id("csi-7");
    request.set_target_path(folders_.AddVolume("uid-7", "work"));
    request.mutable_volume_capability()->mutable_mount();
    request.mutable_volume_context()->insert(attributes.begin(), attributes.end());
    (*request.mutable_volume_context())["csi.storage.k8s.io/pod.uid"] = "uid-7";
    return request;
  }

  grpc::Status Publish(const csi::v1::NodePublishVolumeRequest& request) {
    grpc::ClientContext context;
    csi::v1::NodePublishVolumeResponse response;
    return node_->NodePublishVolume(&context, request, &response);
  }

  grpc::Status Unpublish(const csi::v1::NodePublishVolumeRequest& published) {
    grpc::ClientContext context;
    csi::v1::NodeUnpublishVolumeRequest request;
    request.set_volume_id(published.volume_id());
    request.set_target_path(published.target_path());
    csi::v1::NodeUnpublishVolumeResponse response;
    return node_->NodeUnpublishVolume(&context, request, &response);
  }

  NodeFolders folders_;
  RealClock clock_;
  fakes::CaptureLog log_;
  const std::unique_ptr<MetricsRegistry> metrics_ = MetricsRegistry::Create();
  const std::unique_ptr<VolumeHost> host_;
  std::unique_ptr<VolumePublisher> publisher_;
  std::unique_ptr<CsiServer> server_;
  std::unique_ptr<csi::v1::Node::Stub> node_;
  std::unique_ptr<csi::v1::Identity::Stub> identity_;
  std::unique_ptr<pluginregistration::Registration::Stub> registration_;
};

TEST_F(CsiServerTest, SaysWhoItIs) {
  StartAgent();
  csi::v1::GetPluginInfoResponse info;
  csi::v1::GetPluginCapabilitiesResponse capabilities;
  csi::v1::ProbeResponse probe;
  csi::v1::NodeGetInfoResponse node;
  csi::v1::NodeGetCapabilitiesResponse node_capabilities;
  grpc::ClientContext contexts[5];
  ASSERT_TRUE(identity_->GetPluginInfo(&contexts[0], {}, &info).ok());
  ASSERT_TRUE(identity_->GetPluginCapabilities(&contexts[1], {}, &capabilities).ok());
  ASSERT_TRUE(identity_->Probe(&contexts[2], {}, &probe).ok());
  ASSERT_TRUE(node_->NodeGetInfo(&contexts[3], {}, &node).ok());
  ASSERT_TRUE(node_->NodeGetCapabilities(&contexts[4], {}, &node_capabilities).ok());
  EXPECT_EQ(info.name(), "csi.paceline.dev");
  EXPECT_EQ(info.vendor_version(), "0.1.0-test");
  EXPECT_TRUE(probe.ready().value());
  EXPECT_EQ(node.node_id(), "n1");
}

TEST_F(CsiServerTest, RegistersWithKubelet) {
  StartAgent();
  EXPECT_FALSE(server_->is_registered());
  grpc::ClientContext ask, accept, refuse;
  pluginregistration::PluginInfo info;
  ASSERT_TRUE(registration_->GetInfo(&ask, {}, &info).ok());
  EXPECT_EQ(info.type(), "CSIPlugin");
  EXPECT_EQ(info.name(), "csi.paceline.dev");
  EXPECT_EQ(info.endpoint(), csi_socket());
  ASSERT_EQ(info.supported_versions_size(), 1);
  EXPECT_EQ(info.supported_versions(0), "1.0.0");

  pluginregistration::RegistrationStatus status;
  pluginregistration::RegistrationStatusResponse response;
  status.set_plugin_registered(true);
  ASSERT_TRUE(registration_->NotifyRegistrationStatus(&accept, status, &response).ok());
  EXPECT_TRUE(server_->is_registered());
  EXPECT_THAT(metrics_->Render(), HasSubstr("paceline_csi_registered 1"));
  status.set_plugin_registered(false);
  status.set_error("too old");
  ASSERT_TRUE(registration_->NotifyRegistrationStatus(&refuse, status, &response).ok());
  EXPECT_FALSE(server_->is_registered());
  EXPECT_EQ(log_.Count("kubelet refused the driver"), 1u) << log_.Text();
}

TEST_F(CsiServerTest, AnswersWithTheCodesOfCsi) {
  StartAgent();
  csi::v1::NodePublishVolumeRequest request = Request({{"type", "hdfs9"}});
  grpc::Status status = Publish(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "unknown type \"hdfs9\"; known types: scratch");
  EXPECT_EQ(log_.Count("volume call failed"), 1u) << log_.Text();
  EXPECT_THAT(
      metrics_->Render(),
      HasSubstr("paceline_csi_call_duration_seconds_count{code=\"InvalidArgument\",method=\"NodePublishVolume\"} 1"));

  request = Request({{"type", "scratch"}});
  request.mutable_volume_capability()->mutable_block();
  EXPECT_EQ(Publish(request).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Publish({}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Unpublish({}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(CsiServerTest, ReplacesTheSocketsOfADeadAgent) {
  for (const std::string& path : {csi_socket(), registration_socket()}) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    close(fd);  // the file stays
  }
  StartAgent();
  csi::v1::NodeGetInfoResponse node;
  grpc::ClientContext context;
  EXPECT_TRUE(node_->NodeGetInfo(&context, {}, &node).ok());
  struct stat info {};
  ASSERT_EQ(stat(csi_socket().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  server_->Shutdown(Duration::zero());
  EXPECT_FALSE(std::filesystem::exists(registration_socket())) << "kubelet sees that the driver went";
}

TEST_F(CsiServerTest, RefusesAPathThatIsNoSocket) {
  WriteTextFile(csi_socket(), "precious");
  publisher_ = std::make_unique<VolumePublisher>(VolumePublisher::Options{folders_.kubelet_dir(), folders_.state_dir()},
                                                 *host_, std::vector<std::unique_ptr<VolumeType>>(), clock_);
  CsiServerOptions options{.node_name = "n1", .version = "0", .csi_socket = csi_socket()};
  EXPECT_EQ(CsiServer::Start(options, *publisher_, clock_, log_.logger(), *metrics_).status().code(),
            StatusCode::kAlreadyExists);
  EXPECT_EQ(ReadTextFile(csi_socket()), "precious");
  options.csi_socket = folders_.root() + "/" + std::string(200, 'x');
  EXPECT_EQ(CsiServer::Start(options, *publisher_, clock_, log_.logger(), *metrics_).status().code(),
            StatusCode::kInvalidArgument);
}

class RealVolumeTest : public CsiServerTest {
 protected:
  void SetUp() override {
    if (!WhyNoMounts().empty()) GTEST_SKIP() << WhyNoMounts();
    StartAgent();
  }
};

TEST_F(RealVolumeTest, ShowsAScratchFolderAtTheTarget) {
  for (const char* medium : {"Disk", "Memory"}) {
    csi::v1::NodePublishVolumeRequest request = Request({{"type", "scratch"}, {"medium", medium}, {"size", "1Mi"}});
    grpc::Status status = Publish(request);
    ASSERT_TRUE(status.ok()) << status.error_message();
    WriteTextFile(request.target_path() + "/data", "bytes");
    struct stat info {};
    ASSERT_EQ(stat(request.target_path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0777u) << medium;

    ASSERT_TRUE(Publish(request).ok()) << "repeated";
    EXPECT_EQ(ReadTextFile(request.target_path() + "/data"), "bytes") << medium;
    ASSERT_TRUE(Unpublish(request).ok());
    EXPECT_FALSE(std::filesystem::exists(request.target_path())) << medium;
    ASSERT_TRUE(publisher_->CleanUp(Deadline::Infinite()).ok());
    EXPECT_EQ(folders_.LeftInState(), "");
  }
}

TEST_F(RealVolumeTest, HoldsAMemoryVolumeToItsSize) {
  csi::v1::NodePublishVolumeRequest request = Request({{"type", "scratch"}, {"medium", "Memory"}, {"size", "64Ki"}});
  ASSERT_TRUE(Publish(request).ok());
  std::ofstream out(request.target_path() + "/data");
  out << std::string(1 << 20, 'x') << std::flush;
  EXPECT_FALSE(out.good()) << "a megabyte does not fit";
  ASSERT_TRUE(Unpublish(request).ok());
}

TEST_F(RealVolumeTest, MakesReadOnlyVolumes) {
  for (const char* medium : {"Disk", "Memory"}) {
    csi::v1::NodePublishVolumeRequest request = Request({{"type", "scratch"}, {"medium", medium}});
    request.set_readonly(true);
    ASSERT_TRUE(Publish(request).ok());
    EXPECT_NE(mkdir((request.target_path() + "/x").c_str(), 0700), 0);
    EXPECT_EQ(errno, EROFS) << medium;
    ASSERT_TRUE(Unpublish(request).ok());
  }
}

TEST_F(RealVolumeTest, KeepsVolumesOverARestartOfTheAgent) {
  csi::v1::NodePublishVolumeRequest request = Request({{"type", "scratch"}, {"medium", "Memory"}});
  ASSERT_TRUE(Publish(request).ok());
  WriteTextFile(request.target_path() + "/data", "bytes");
  server_.reset();
  StartAgent();
  EXPECT_EQ(ReadTextFile(request.target_path() + "/data"), "bytes");
  ASSERT_TRUE(Publish(request).ok());
  EXPECT_EQ(ReadTextFile(request.target_path() + "/data"), "bytes");
  ASSERT_TRUE(Unpublish(request).ok());
  EXPECT_FALSE(std::filesystem::exists(request.target_path()));
}

TEST_F(RealVolumeTest, ServesManyVolumesAtATime) {
  constexpr int kVolumes = 24;
  std::vector<csi::v1::NodePublishVolumeRequest> requests;
  for (int i = 0; i < kVolumes; ++i) {
    csi::v1::NodePublishVolumeRequest request = Request({{"type", "scratch"}, {"medium", i % 2 ? "Memory" : "Disk"}});
    request.set_volume_id("csi-many-" + std::to_string(i));
    request.set_target_path(folders_.AddVolume("uid-7", "v" + std::to_string(i)));
    requests.push_back(request);
  }
  const auto for_each = [&](auto call) {
    std::atomic<int> failures{0};
    {
      std::vector<std::jthread> threads;
      for (const auto& request : requests) threads.emplace_back([&] { failures += call(request).ok() ? 0 : 1; });
    }
    return failures.load();
  };
  EXPECT_EQ(for_each([&](const auto& request) { return Publish(request); }), 0);
  EXPECT_EQ(publisher_->Volumes().size(), static_cast<size_t>(kVolumes));
  EXPECT_EQ(for_each([&](const auto& request) { return Unpublish(request); }), 0);
  ASSERT_TRUE(publisher_->CleanUp(Deadline::Infinite()).ok());
  EXPECT_EQ(folders_.LeftInState(), "");
}

class VersionService final : public containerd::services::version::v1::Version::Service {
  grpc::Status Version(grpc::ServerContext*, const google::protobuf::Empty*,
                       containerd::services::version::v1::VersionResponse* response) override {
    response->set_version("v2.4.2");
    return grpc::Status::OK;
  }
};

TEST(ContainerdVersion, AsksTheSocket) {
  const std::string folder = MakeTemporaryFolder();
  VersionService service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + folder + "/c.sock", grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  RealClock clock;
  Result<std::string> version =
      QueryContainerdVersion(folder + "/c.sock", Deadline::After(clock, std::chrono::seconds(10)));
  ASSERT_TRUE(version.ok()) << version.status().ToString();
  EXPECT_EQ(*version, "v2.4.2");
  EXPECT_EQ(
      QueryContainerdVersion(folder + "/none.sock", Deadline::After(clock, std::chrono::seconds(2))).status().code(),
      StatusCode::kUnavailable);
  server->Shutdown();
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace paceline::agent
