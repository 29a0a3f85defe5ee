#include "snapshotter/connection_keeper.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "lib/base/stop_signal.h"
#include "lib/base/units.h"

namespace paceline::snapshotter {
namespace {

constexpr size_t kMaxMessageBytes = 16 << 10;
constexpr size_t kMaxClients = 16;
constexpr char kKeep = 'K', kTake = 'T', kNothing = 'N', kQuit = 'Q';
constexpr Duration kReachLimit = std::chrono::seconds(10);
constexpr Duration kReachPoll = std::chrono::milliseconds(100);
constexpr std::chrono::milliseconds kPoll{500};
constexpr timeval kPluginLimit{.tv_sec = 10, .tv_usec = 0};

struct Message {
  std::string text;  // "" at the end of the connection
  UniqueFd descriptor;
};

Result<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) return InvalidArgumentError("socket path " + path);
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

Status SendMessage(int socket, std::string text, int descriptor) {
  iovec part = {text.data(), text.size()};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
  if (descriptor >= 0) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
  }
  if (sendmsg(socket, &header, MSG_NOSIGNAL) < 0) return ErrnoStatus(errno, "send to the keeper's socket");
  return Status();
}

Result<Message> ReceiveMessage(int socket) {
  Message message;
  message.text.resize(kMaxMessageBytes);
  iovec part = {message.text.data(), message.text.size()};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t got;
  do {
    got = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return ErrnoStatus(errno, "receive from the keeper's socket");
  message.text.resize(static_cast<size_t>(got));
  const cmsghdr* rights = CMSG_FIRSTHDR(&header);
  if (rights != nullptr && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS) {
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(rights), sizeof descriptor);
    message.descriptor = UniqueFd(descriptor);
  }
  return message;
}

Result<UniqueFd> ListenForPlugins(const std::string& path) {
  ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (error) return ErrnoStatus(error.value(), "folder of " + path);
  if (KeeperClient::Connect(path).ok()) return AlreadyExistsError("a keeper serves " + path);
  UniqueFd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.is_valid()) return ErrnoStatus(errno, "socket");
  unlink(path.c_str());
  const mode_t mask = umask(0177);
  const int bound = bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  umask(mask);
  if (bound != 0 || listen(listener.get(), kMaxClients) != 0) return ErrnoStatus(errno, path);
  return listener;
}

class Keeper {
 public:
  Keeper(const KeeperConfig& config, UniqueFd listener, const Clock& clock, Logger& log)
      : config_(config), listener_(std::move(listener)), clock_(clock), log_(log), lonely_since_(clock.Now()) {}

  void Run(const std::stop_token& stop) {
    while (!stop.stop_requested() && !is_released_) {
      std::vector<pollfd> wanted = {{listener_.get(), POLLIN, 0}};
      for (const UniqueFd& client : clients_) wanted.push_back({client.get(), POLLIN, 0});
      if (poll(wanted.data(), wanted.size(), static_cast<int>(kPoll.count())) < 0 && errno != EINTR) return;
      for (size_t i = clients_.size(); i > 0; --i) {
        if (wanted[i].revents != 0 && !Serve(i - 1)) Leave(i - 1);
      }
      if (wanted[0].revents != 0) Welcome();
      if (!clients_.empty() || clock_.Now() - lonely_since_ < config_.give_up_after) continue;
      log_.Warn("no plugin came, ending", {{"connection", kept_.device.is_valid()}});
      return;
    }
  }

 private:
  void Welcome() {
    UniqueFd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ucred peer = {};
    socklen_t length = sizeof peer;
    const bool is_ours = client.is_valid() && clients_.size() < kMaxClients &&
                         getsockopt(client.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
                         peer.uid == geteuid();
    if (!is_ours) return;
    setsockopt(client.get(), SOL_SOCKET, SO_SNDTIMEO, &kPluginLimit, sizeof kPluginLimit);
    clients_.push_back(std::move(client));
  }

  void Leave(size_t number) {
    clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(number));
    lonely_since_ = clock_.Now();
  }

  // False when the client is to be left.
  bool Serve(size_t number) {
    const int client = clients_[number].get();
    Result<Message> message = ReceiveMessage(client);
    if (!message.ok() || message->text.empty()) return false;
    if (message->text[0] == kKeep && message->descriptor.is_valid()) {
      kept_ = {std::move(message->descriptor), message->text.substr(1)};
      log_.Info("keeping a connection", {{"bytes", kept_.init_request.size()}});
      return SendMessage(client, std::string(1, kKeep), -1).ok();
    }
    is_released_ = message->text[0] == kQuit;
    if (message->text[0] != kTake) return false;
    if (!kept_.device.is_valid()) return SendMessage(client, std::string(1, kNothing), -1).ok();
    return SendMessage(client, kTake + kept_.init_request, kept_.device.get()).ok();
  }

  const KeeperConfig& config_;
  const UniqueFd listener_;
  const Clock& clock_;
  Logger& log_;
  TimePoint lonely_since_;
  bool is_released_ = false;
  std::vector<UniqueFd> clients_;
  fusefs::Connection kept_;
};

}  // namespace

ConfigSpec DescribeKeeperConfig(KeeperConfig* config) {
  ConfigSpec spec("paceline-snapshotter keep", "Keeps the mounts of the plugin alive while that is away.");
  spec.Add("socket", &config->socket, "Unix socket for the plugin.");
  spec.Add("giveUpAfter", &config->give_up_after,
           "After so long without a plugin the connection is closed: reads of lazy images fail then.")
      .Positive();
  spec.Add("log.level", &config->log_level, "Least important lines that are logged.");
  spec.Add("log.format", &config->log_format, "Form of the log lines.");
  return spec;
}

Status RunKeeper(const KeeperConfig& config, const Clock& clock, Logger& log, std::stop_token stop) {
  ASSIGN_OR_RETURN(UniqueFd listener, ListenForPlugins(config.socket));
  log.Info("waiting for a plugin", {{"socket", config.socket}});
  Keeper(config, std::move(listener), clock, log).Run(stop);
  unlink(config.socket.c_str());
  return Status();
}

Result<KeeperClient> KeeperClient::Connect(const std::string& socket_path) {
  ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(socket_path));
  UniqueFd client(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!client.is_valid()) return ErrnoStatus(errno, "socket");
  for (const int limit : {SO_SNDTIMEO, SO_RCVTIMEO}) {
    setsockopt(client.get(), SOL_SOCKET, limit, &kPluginLimit, sizeof kPluginLimit);
  }
  if (connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return UnavailableError("no keeper at " + socket_path + ": " + strerror(errno));
  }
  return KeeperClient(std::move(client));
}

Result<std::optional<fusefs::Connection>> KeeperClient::Take() {
  RETURN_IF_ERROR(SendMessage(socket_.get(), std::string(1, kTake), -1));
  ASSIGN_OR_RETURN(Message message, ReceiveMessage(socket_.get()));
  if (message.text == std::string(1, kNothing)) return std::optional<fusefs::Connection>();
  if (message.text.empty() || message.text[0] != kTake || !message.descriptor.is_valid()) {
    return DataLossError("the keeper gave no answer that makes sense");
  }
  fusefs::Connection connection;
  connection.device = std::move(message.descriptor);
  connection.init_request = message.text.substr(1);
  return std::optional<fusefs::Connection>(std::move(connection));
}

Status KeeperClient::Keep(const fusefs::Connection& connection) {
  RETURN_IF_ERROR(SendMessage(socket_.get(), kKeep + connection.init_request, connection.device.get()));
  ASSIGN_OR_RETURN(const Message message, ReceiveMessage(socket_.get()));
  return message.text == std::string(1, kKeep) ? Status() : DataLossError("the keeper did not take the connection");
}

Status KeeperClient::Release() { return SendMessage(socket_.get(), std::string(1, kQuit), -1); }

Status SpawnKeeper(const std::string& program, const KeeperConfig& config) {
  std::vector<std::string> words = {
      program, "keep", "--socket", config.socket, "--give-up-after", FormatDuration(config.give_up_after)};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0) return ErrnoStatus(errno, "start the keeper");
  if (child == 0) {
    // Its parent ends at once, so nothing that ends us or waits for our children sees it.
    if (fork() != 0) _exit(0);
    setsid();
    RestoreSignalsForChild();
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return Status();
}

Result<KeeperClient> ReachKeeper(const KeeperConfig& config, bool spawns, const Clock& clock,
                                 const std::stop_token& stop) {
  Result<KeeperClient> keeper = KeeperClient::Connect(config.socket);
  if (keeper.ok()) return keeper;
  if (spawns) RETURN_IF_ERROR(SpawnKeeper("/proc/self/exe", config));
  const Deadline deadline = Deadline::After(clock, kReachLimit);
  while (!keeper.ok() && !deadline.Expired(clock) && clock.SleepFor(kReachPoll, stop)) {
    keeper = KeeperClient::Connect(config.socket);
  }
  return keeper;
}

bool IsAlive(const fusefs::Connection& connection) {
  pollfd device = {connection.device.get(), POLLIN, 0};
  return poll(&device, 1, 0) >= 0 && (device.revents & (POLLERR | POLLNVAL)) == 0;
}

}  // namespace paceline::snapshotter
