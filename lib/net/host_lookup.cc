#include "lib/net/host_lookup.h"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <cstring>
#include <memory>
#include <system_error>
#include <thread>

#include "lib/base/mutex.h"
#include "lib/net/url.h"

namespace paceline::net {
namespace {

// Shared by the caller and the thread that may outlive it.
struct Lookup {
  std::string host;
  std::string port;
  UniqueFd finished;  // an eventfd
  Mutex mutex;
  int error GUARDED_BY(mutex) = 0;  // of getaddrinfo
  std::vector<SocketAddress> found GUARDED_BY(mutex);
};

int Resolve(const std::string& host, const std::string& port, int flags, std::vector<SocketAddress>* out) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &list);
  if (error != 0) return error;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    SocketAddress address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.size = entry->ai_addrlen;
    out->push_back(address);
  }
  return 0;
}

void RunLookup(const std::shared_ptr<Lookup>& lookup) {
  std::vector<SocketAddress> found;
  const int error = Resolve(lookup->host, lookup->port, AI_ADDRCONFIG, &found);
  {
    MutexLock lock(lookup->mutex);
    lookup->error = error;
    lookup->found = std::move(found);
  }
  eventfd_write(lookup->finished.get(), 1);
}

Result<std::vector<SocketAddress>> Check(const std::string& host, int error, std::vector<SocketAddress> found) {
  if (error != 0) return UnavailableError(fmt::format("look up {}: {}", host, gai_strerror(error)));
  if (found.empty()) return UnavailableError(fmt::format("look up {}: no address", host));
  return found;
}

}  // namespace

Result<std::vector<SocketAddress>> LookUpHost(const std::string& host, uint16_t port, const WaitLimit& limit,
                                              TimePoint give_up) {
  if (IsIpLiteral(host)) {
    std::vector<SocketAddress> found;
    const int error = Resolve(host, std::to_string(port), AI_NUMERICHOST, &found);
    return Check(host, error, std::move(found));
  }
  auto lookup = std::make_shared<Lookup>();
  lookup->host = host;
  lookup->port = std::to_string(port);
  lookup->finished.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!lookup->finished.is_valid()) return ErrnoStatus(errno, "eventfd");
  try {
    std::thread(RunLookup, lookup).detach();
  } catch (const std::system_error& error) {
    return ResourceExhaustedError(fmt::format("look up {}: {}", host, error.what()));
  }
  RETURN_IF_ERROR(limit.Await(lookup->finished.get(), POLLIN, give_up, "the lookup of the host's name timed out"));
  MutexLock lock(lookup->mutex);
  return Check(host, lookup->error, std::move(lookup->found));
}

}  // namespace paceline::net
