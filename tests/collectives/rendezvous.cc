#include "tests/collectives/rendezvous.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>

namespace paceline::collectives {

namespace {

constexpr int kSocketBytes = 64 * 1024;  // small, so that a slow link is felt soon
constexpr int kConnectTries = 600;       // with 100 ms between them

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Result<AddressList> Resolve(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return InvalidArgumentError("no port in \"" + address + "\"");
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(address.substr(0, colon).c_str(), address.substr(colon + 1).c_str(), &hints, &found);
  if (error != 0) return UnavailableError(address + ": " + ::gai_strerror(error));
  return AddressList(found, &::freeaddrinfo);
}

Status SetOptions(int fd) {
  const int one = 1;
  const bool is_set = ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0 &&
                      ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kSocketBytes, sizeof kSocketBytes) == 0 &&
                      ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kSocketBytes, sizeof kSocketBytes) == 0;
  return is_set ? Status() : ErrnoStatus(errno, "setsockopt");
}

Result<UniqueFd> NewSocket() {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.is_valid()) return ErrnoStatus(errno, "socket");
  RETURN_IF_ERROR(SetOptions(fd.get()));
  return fd;
}

}  // namespace

Result<UniqueFd> Listen(const std::string& address) {
  ASSIGN_OR_RETURN(AddressList list, Resolve(address));
  ASSIGN_OR_RETURN(UniqueFd fd, NewSocket());
  const int one = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (::bind(fd.get(), list->ai_addr, list->ai_addrlen) != 0 || ::listen(fd.get(), 1024) != 0) {
    return ErrnoStatus(errno, "listen on " + address);
  }
  return fd;
}

uint16_t PortOf(const UniqueFd& listener) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.sin_port);
}

Result<UniqueFd> ConnectTo(const std::string& address) {
  int error = 0;
  for (int attempt = 0; attempt < kConnectTries; attempt++) {
    Result<AddressList> list = Resolve(address);
    ASSIGN_OR_RETURN(UniqueFd fd, NewSocket());
    if (list.ok() && ::connect(fd.get(), (*list)->ai_addr, (*list)->ai_addrlen) == 0) return fd;
    error = list.ok() ? errno : EHOSTUNREACH;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return ErrnoStatus(error, "connect to " + address);
}

Result<UniqueFd> Rendezvous::Connect(uint32_t to, const Greeting& greeting) {
  if (to >= addresses_.size()) return InvalidArgumentError("no address of rank " + std::to_string(to));
  ASSIGN_OR_RETURN(UniqueFd fd, ConnectTo(addresses_[to]));
  if (::send(fd.get(), &greeting, sizeof greeting, MSG_NOSIGNAL) != sizeof greeting) {
    return ErrnoStatus(errno, "greet " + addresses_[to]);
  }
  return fd;
}

Result<UniqueFd> Rendezvous::Accept(const Greeting& greeting) {
  while (true) {
    if (const auto found = accepted_.find(greeting); found != accepted_.end()) {
      UniqueFd fd = std::move(found->second);
      accepted_.erase(found);
      return fd;
    }
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd.is_valid()) return ErrnoStatus(errno, "accept");
    RETURN_IF_ERROR(SetOptions(fd.get()));
    Greeting got;
    if (::recv(fd.get(), &got, sizeof got, MSG_WAITALL) != sizeof got) continue;  // somebody else's probe
    accepted_[got] = std::move(fd);
  }
}

}  // namespace paceline::collectives
