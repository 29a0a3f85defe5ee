#include "tests/fakes/scripted_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "lib/base/check.h"

namespace paceline::fakes {

std::optional<std::string> ScriptedPeer::Link::Read(size_t bytes) {
  std::string out(bytes, '\0');
  for (size_t done = 0; done < bytes;) {
    const ssize_t got = recv(fd_.get(), out.data() + done, bytes - done, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    done += static_cast<size_t>(got);
  }
  return out;
}

std::string ScriptedPeer::Link::ReadSome() {
  std::string out(4096, '\0');
  while (true) {
    const ssize_t got = recv(fd_.get(), out.data(), out.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    out.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return out;
  }
}

void ScriptedPeer::Link::AwaitEnd() {
  while (!ReadSome().empty()) {
  }
}

bool ScriptedPeer::Link::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return true;
}

void ScriptedPeer::Link::Cut() { shutdown(fd_.get(), SHUT_RDWR); }

ScriptedPeer::ScriptedPeer(std::function<void(Link&)> serve)
    : serve_(std::move(serve)), listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  CHECK(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  CHECK(listen(listener_.get(), 64) == 0);
  CHECK(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::jthread([this](std::stop_token stop) { Accept(std::move(stop)); });
}

ScriptedPeer::~ScriptedPeer() {
  acceptor_.request_stop();
  shutdown(listener_.get(), SHUT_RDWR);
  acceptor_.join();
  CutAll();
  std::list<Session> sessions;
  {
    MutexLock lock(mutex_);
    sessions.swap(sessions_);
  }
  sessions.clear();  // joins
}

void ScriptedPeer::Accept(std::stop_token stop) {
  while (!stop.stop_requested()) {
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd.is_valid()) return;
    auto link = std::make_shared<Link>(std::move(fd));
    MutexLock lock(mutex_);
    sessions_.push_back({link, std::jthread([this, link] {
                           serve_(*link);
                           link->Cut();
                         })});
  }
}

int ScriptedPeer::connections() const {
  MutexLock lock(mutex_);
  return static_cast<int>(sessions_.size());
}

void ScriptedPeer::CutAll() {
  MutexLock lock(mutex_);
  for (const Session& session : sessions_) session.link->Cut();
}

}  // namespace paceline::fakes
