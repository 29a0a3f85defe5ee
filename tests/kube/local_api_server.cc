#include "tests/kube/local_api_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "lib/base/unique_fd.h"
#include "lib/kube/config_exec.h"
#include "lib/kube/rest_client.h"

extern char** environ;

namespace paceline::kube {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

int FreePort() {
  const UniqueFd probe(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{.sin_family = AF_INET};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(probe.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) return 0;
  if (::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.sin_port);
}

std::string Loopback(int port) { return "http://127.0.0.1:" + std::to_string(port); }

void Kill(pid_t* pid) {
  if (*pid <= 0) return;
  ::kill(*pid, SIGKILL);
  while (::waitpid(*pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  *pid = -1;
}

}  // namespace

LocalApiServer::LocalApiServer(std::string programs, std::string folder, const Clock& clock)
    : programs_(std::move(programs)), folder_(std::move(folder)), clock_(clock) {}

LocalApiServer::~LocalApiServer() {
  Kill(&server_);
  Kill(&etcd_);
}

Result<std::unique_ptr<LocalApiServer>> LocalApiServer::Start(const std::string& folder, const Clock& clock) {
  const Deadline soon = Deadline::After(clock, 30s);
  ASSIGN_OR_RETURN(std::string programs, RunProgram(std::string(PACELINE_SOURCE_DIR) + "/tests/testbed/build",
                                                    {"--path", "kubernetes-1.34"}, {}, soon, clock));
  while (!programs.empty() && programs.back() == '\n') programs.pop_back();
  if (!fs::exists(programs + "/kube-apiserver"))
    return NotFoundError("kubernetes-1.34 is not built: scripts/testbed build");
  std::unique_ptr<LocalApiServer> server(new LocalApiServer(std::move(programs), folder, clock));
  fs::create_directories(folder);
  RETURN_IF_ERROR(RunProgram("openssl", {"genrsa", "-out", folder + "/sa.key", "2048"}, {}, soon, clock).status());
  std::ofstream(folder + "/tokens.csv") << "test,test,test,\"system:masters\"\n";
  server->port_ = FreePort();
  server->config_.server = "https://127.0.0.1:" + std::to_string(server->port_);
  server->config_.token = "test";
  server->config_.ca.path = folder + "/certs/apiserver.crt";
  RETURN_IF_ERROR(server->StartEtcd());
  RETURN_IF_ERROR(server->StartApiServer());
  return server;
}

Result<pid_t> LocalApiServer::Spawn(const std::string& name, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), programs_ + "/" + name);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const std::string log = folder_ + "/" + name + ".log";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return ErrnoStatus(error, arguments[0]);
  return pid;
}

Status LocalApiServer::StartEtcd() {
  etcd_port_ = FreePort();
  const std::string client = Loopback(etcd_port_), peer = Loopback(FreePort());
  ASSIGN_OR_RETURN(etcd_, Spawn("etcd", {"--name=e", "--data-dir=" + folder_ + "/etcd",
                                         "--listen-client-urls=" + client, "--advertise-client-urls=" + client,
                                         "--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
                                         "--initial-cluster=e=" + peer, "--unsafe-no-fsync", "--log-level=error"}));
  return {};
}

Status LocalApiServer::StartApiServer() {
  ASSIGN_OR_RETURN(
      server_,
      Spawn("kube-apiserver",
            {"--etcd-servers=" + Loopback(etcd_port_), "--bind-address=127.0.0.1",
             "--secure-port=" + std::to_string(port_), "--cert-dir=" + folder_ + "/certs",
             "--token-auth-file=" + folder_ + "/tokens.csv", "--service-account-issuer=https://kubernetes.default.svc",
             "--service-account-signing-key-file=" + folder_ + "/sa.key",
             "--service-account-key-file=" + folder_ + "/sa.key", "--service-cluster-ip-range=10.0.0.0/24",
             "--authorization-mode=RBAC", "--endpoint-reconciler-type=none",
             "--disable-admission-plugins=ServiceAccount", "--profiling=false"}));
  return AwaitReady();
}

void LocalApiServer::KillApiServer() { Kill(&server_); }

Status LocalApiServer::AwaitReady() {
  const auto metrics = MetricsRegistry::Create();
  const Deadline deadline = Deadline::After(clock_, 3min);
  net::HttpRequest request;
  request.target = "/readyz";
  Status last;
  while (!deadline.Expired(clock_)) {
    clock_.SleepFor(200ms, {});
    const auto transport = NewApiTransport(config_, {}, *metrics, clock_);
    if (!transport.ok()) return transport.status();
    const auto response = (*transport)->Send(request, Deadline::After(clock_, 5s));
    if (response.ok() && response->status == 200) return {};
    last = response.status();
  }
  return DeadlineExceededError("kube-apiserver is not ready: " + last.message());
}

}  // namespace paceline::kube
