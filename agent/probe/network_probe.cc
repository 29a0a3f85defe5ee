#include "agent/probe/network_probe.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/net/http_client.h"
#include "lib/net/url.h"

namespace paceline::agent {
namespace {

// Of one request. Small, since as many are in memory as there are connections, and whoever reads slowly holds one.
constexpr size_t kAnswerBytes = 1u << 20;

struct AddressCloser {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

// Seconds from the first packet to the answer of the peer's kernel, with nothing of its programs in between.
Result<double> ConnectSeconds(const addrinfo& address, Duration limit, const Clock& clock) {
  const UniqueFd fd(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.is_valid()) return ErrnoStatus(errno, "socket");
  const TimePoint start = clock.Now();
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return ErrnoStatus(errno, "connect");
    pollfd wait{fd.get(), POLLOUT, 0};
    const auto limit_ms = std::chrono::duration_cast<std::chrono::milliseconds>(limit).count();
    if (::poll(&wait, 1, static_cast<int>(limit_ms)) <= 0) return DeadlineExceededError("connect: no answer");
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return ErrnoStatus(error, "connect");
  }
  return ToSeconds(clock.Now() - start);
}

Result<double> RoundTripSeconds(const net::Url& url, const NetworkProbeOptions& options, const Clock& clock) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(url.host.c_str(), std::to_string(url.port).c_str(), &hints, &list);
  if (error != 0) return UnavailableError(url.host + ": " + gai_strerror(error));
  const std::unique_ptr<addrinfo, AddressCloser> addresses(list);
  std::vector<double> times;
  for (int i = 0; i < options.connections; ++i) {
    ASSIGN_OR_RETURN(const double seconds, ConnectSeconds(*addresses, options.peer_limit, clock));
    times.push_back(seconds);
  }
  return MiddleOf(std::move(times));
}

// MB per second.
Result<double> Throughput(const std::string& base_url, const NetworkProbeOptions& options, const Clock& clock) {
  net::HttpClientOptions client_options;
  client_options.base_url = base_url;
  client_options.retry.max_attempts = 1;
  client_options.connect_timeout = options.peer_limit;
  client_options.user_agent = "paceline-agent-probe";
  ASSIGN_OR_RETURN(const std::unique_ptr<net::HttpTransport> client, net::NewHttpClient(client_options, clock));
  const net::HttpRequest request{.target = std::string(kProbeDataPath)};
  const Deadline deadline = Deadline::After(clock, options.length + options.peer_limit);
  uint64_t fetched = 0;
  Status failure;
  const double rate = RatePerSecond(clock, options.length, [&] {
    if (!failure.ok() || fetched >= options.most_bytes) return 0.0;
    uint64_t bytes = 0;
    const auto count = [&](std::string_view piece) {
      bytes += piece.size();
      return Status();
    };
    const Result<net::HttpResponse> answer =
        client->Stream(request, count, options.peer_limit, deadline, std::stop_token());
    if (!answer.ok()) failure = answer.status();
    if (answer.ok() && answer->status != 200) failure = net::HttpStatusToStatus(answer->status, base_url);
    fetched += bytes;
    return static_cast<double>(bytes) / 1e6;
  });
  RETURN_IF_ERROR(failure);
  // A way that is faster than the limit has stood still at the end.
  if (fetched >= options.most_bytes) return ResourceExhaustedError("faster than can be measured");
  return rate;
}

Result<Measurement> MeasurePeer(const api::ProbePeer& peer, const NetworkProbeOptions& options, const Clock& clock) {
  const std::string base_url = "http://" + peer.address;
  ASSIGN_OR_RETURN(const net::Url url, net::ParseUrl(base_url));
  // The data first: it says whether the peer is free.
  ASSIGN_OR_RETURN(const double rate, Throughput(base_url, options, clock));
  ASSIGN_OR_RETURN(const double seconds, RoundTripSeconds(url, options, clock));
  const std::string detail = "from " + peer.node;
  return Measurement{
      {FigureOf("networkThroughput", rate, clock, detail), FigureOf("networkRoundTrip", seconds * 1e6, clock, detail)},
      std::nullopt};
}

}  // namespace

Measurement MeasureNetwork(const NetworkProbeOptions& options, const Clock& clock) {
  std::string why = "no peer is named";
  for (const api::ProbePeer& peer : options.peers) {
    Result<Measurement> measured = MeasurePeer(peer, options, clock);
    if (measured.ok()) return *std::move(measured);
    why = peer.node + ": " + measured.status().message();
  }
  return Missing(api::ProbeCheck::kNetwork, api::ProbeGap::kFailed, why);
}

std::map<std::string, net::Handler> ProbeRoutes(std::function<bool()> is_free) {
  std::map<std::string, net::Handler> routes;
  routes["GET " + std::string(kProbeDataPath)] = [is_free = std::move(is_free)](const net::ServerRequest&, Deadline) {
    net::ServerResponse response;
    if (!is_free()) {
      response.status = 503;
      response.body = "busy\n";
      return response;
    }
    response.content_type = "application/octet-stream";
    response.body.assign(kAnswerBytes, 'Z');
    return response;
  };
  return routes;
}

}  // namespace paceline::agent
