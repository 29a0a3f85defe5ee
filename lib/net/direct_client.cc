#include "lib/net/direct_client.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <vector>

#include "lib/net/response_parser.h"

namespace paceline::net {
namespace {

constexpr size_t kReadBytes = 64 * 1024;
constexpr size_t kMaxIdle = 16;
// Servers keep idle connections for a minute and more; younger ones are checked and used, older ones are not worth it.
constexpr std::chrono::seconds kMaxIdleAge{55};

Status CheckHeaders(const HttpRequest& request) {
  const auto is_bad = [](std::string_view text, std::string_view bad) {
    return text.find_first_of(bad) != std::string_view::npos;
  };
  constexpr std::string_view kNotInLine("\r\n\0", 3);
  constexpr std::string_view kNotInWord("\r\n\0 \t", 5);
  if (request.method.empty() || is_bad(request.method, kNotInWord) || is_bad(request.target, kNotInWord)) {
    return InvalidArgumentError("the method or target has a blank or control character");
  }
  for (const auto& [name, value] : request.headers) {
    if (name.empty() || is_bad(name, kNotInWord) || name.find(':') != std::string::npos || is_bad(value, kNotInLine)) {
      return InvalidArgumentError(fmt::format("header \"{}\" has a character that is not allowed", name));
    }
  }
  return Status();
}

std::string BasicCredentials(const Url& url) {
  const std::string plain = url.username + ":" + url.password;
  std::string encoded(4 * ((plain.size() + 2) / 3) + 1, '\0');
  const int size =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(encoded.data()),
                      reinterpret_cast<const unsigned char*>(plain.data()), static_cast<int>(plain.size()));
  encoded.resize(static_cast<size_t>(size));
  return "Basic " + encoded;
}

TimePoint After(const Clock& clock, Duration duration) {
  const TimePoint now = clock.Now();
  return duration >= TimePoint::max() - now ? TimePoint::max() : now + duration;
}

}  // namespace

DirectClient::DirectClient(Url url, std::optional<Url> proxy, std::shared_ptr<ClientTlsCache> tls, const Clock& clock)
    : url_(std::move(url)), proxy_(std::move(proxy)), tls_(std::move(tls)), clock_(clock) {}

std::string DirectClient::Head(const HttpRequest& request) const {
  std::string target = url_.path + request.target;
  std::string proxy_line;
  if (proxy_ && !url_.is_https) {  // a proxy that forwards wants the whole URL; one that tunnels never sees the request
    target = "http://" + url_.HostHeader() + target;
    if (!proxy_->username.empty()) proxy_line = "Proxy-Authorization: " + BasicCredentials(*proxy_) + "\r\n";
  }
  std::string head =
      fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\n{}", request.method, target, url_.HostHeader(), proxy_line);
  for (const auto& [name, value] : request.headers) head += name + ": " + value + "\r\n";
  const bool announces_body = request.method == "POST" || request.method == "PUT" || request.method == "PATCH";
  if (!request.body.empty() || announces_body) head += fmt::format("Content-Length: {}\r\n", request.body.size());
  return head + "\r\n";
}

std::unique_ptr<StreamSocket> DirectClient::TakeIdle() {
  while (true) {
    Idle candidate;
    std::list<Idle> expired;  // closing a socket is I/O: after the lock
    {
      MutexLock lock(mutex_);
      if (idle_.empty()) return nullptr;
      candidate = std::move(idle_.front());
      idle_.pop_front();
      if (clock_.Now() - candidate.since > kMaxIdleAge) expired.swap(idle_);  // the others are older still
    }
    if (clock_.Now() - candidate.since <= kMaxIdleAge && candidate.socket->IsIdleAndOpen()) {
      return std::move(candidate.socket);
    }
  }
}

void DirectClient::Keep(std::unique_ptr<StreamSocket> socket) {
  std::list<Idle> surplus;
  MutexLock lock(mutex_);
  idle_.push_front({std::move(socket), clock_.Now()});
  if (idle_.size() > kMaxIdle) surplus.splice(surplus.begin(), idle_, std::prev(idle_.end()));
}

Result<std::unique_ptr<StreamSocket>> DirectClient::Open(const WaitLimit& limit, TimePoint connect_by) {
  const Url& next = proxy_ ? *proxy_ : url_;
  ASSIGN_OR_RETURN(std::unique_ptr<StreamSocket> socket,
                   StreamSocket::Connect(next.host, next.port, limit, connect_by));
  if (!url_.is_https) return socket;
  if (proxy_) RETURN_IF_ERROR(Tunnel(*socket, limit, connect_by));
  ASSIGN_OR_RETURN(std::shared_ptr<ssl_ctx_st> context, tls_->Context());
  RETURN_IF_ERROR(socket->StartTls(std::move(context), tls_->verified_name(), limit, connect_by));
  return socket;
}

Status DirectClient::Tunnel(StreamSocket& socket, const WaitLimit& limit, TimePoint connect_by) const {
  const std::string host = url_.is_ipv6_literal() ? "[" + url_.host + "]" : url_.host;
  std::string head = fmt::format("CONNECT {0}:{1} HTTP/1.1\r\nHost: {0}:{1}\r\n", host, url_.port);
  if (!proxy_->username.empty()) head += "Proxy-Authorization: " + BasicCredentials(*proxy_) + "\r\n";
  RETURN_IF_ERROR(socket.Write(head + "\r\n", limit, connect_by).Annotate("proxy"));

  ResponseParser parser(ResponseParser::Body::kNone);
  const BodyConsumer no_body = [](std::string_view) { return Status(); };
  // One byte at a time: what follows the answer belongs to the tunnel.
  while (!parser.done()) {
    char byte;
    ASSIGN_OR_RETURN(const size_t got, socket.Read(&byte, 1, limit, connect_by).Annotate("proxy"));
    if (got == 0) return UnavailableError("proxy: it closed the connection");
    RETURN_IF_ERROR(parser.Feed({&byte, got}, no_body).status().Annotate("proxy"));
  }
  const int status = parser.response().status;
  if (status < 200 || status > 299) return UnavailableError(fmt::format("proxy: CONNECT was answered with {}", status));
  return Status();
}

DirectClient::Outcome DirectClient::Run(std::unique_ptr<StreamSocket> socket, const HttpRequest& request,
                                        const PieceConsumer& consumer, const WaitLimit& limit, Duration idle_timeout) {
  Outcome outcome{InternalError("not run")};
  const auto fail = [&outcome](Status status) {
    outcome.response = std::move(status);
    return std::move(outcome);
  };
  const std::string head = Head(request);
  // One packet for the usual small request.
  const bool is_small = request.body.size() <= kReadBytes;
  Status written = socket->Write(is_small ? head + request.body : head, limit, After(clock_, idle_timeout));
  if (written.ok() && !is_small) written = socket->Write(request.body, limit, After(clock_, idle_timeout));
  outcome.was_cut = !written.ok();
  if (!written.ok()) return fail(std::move(written));

  ResponseParser parser(request.method == "HEAD" ? ResponseParser::Body::kNone : ResponseParser::Body::kAsFramed);
  const BodyConsumer on_piece = [&](std::string_view piece) { return consumer(parser.response(), piece); };
  std::vector<char> buffer(kReadBytes);
  size_t unused = 0;
  while (!parser.done()) {
    const TimePoint silence_ends = After(clock_, idle_timeout);
    const Result<size_t> got = socket->Read(buffer.data(), buffer.size(), limit, silence_ends);
    outcome.was_cut = !outcome.has_answer && (got.ok() ? *got == 0 : clock_.Now() < silence_ends);
    if (!got.ok()) return fail(got.status());
    if (*got == 0) {
      if (Status ended = parser.FeedEnd(); !ended.ok()) return fail(std::move(ended));
      break;
    }
    outcome.has_answer = true;
    const Result<size_t> used = parser.Feed({buffer.data(), *got}, on_piece);
    if (!used.ok()) return fail(used.status());
    unused = *got - *used;
  }
  if (parser.keeps_alive() && unused == 0) Keep(std::move(socket));
  outcome.response = parser.TakeResponse();
  return outcome;
}

Result<HttpResponse> DirectClient::Exchange(const HttpRequest& request, const PieceConsumer& consumer,
                                            const Limits& limits, Exposure* exposure) {
  *exposure = Exposure::kNeverSent;
  RETURN_IF_ERROR(CheckHeaders(request));
  const WaitLimit limit(clock_, limits.deadline, limits.stop);
  RETURN_IF_ERROR(limit.Check());
  if (std::unique_ptr<StreamSocket> reused = TakeIdle()) {
    *exposure = Exposure::kMayHaveBeenSeen;
    Outcome outcome = Run(std::move(reused), request, consumer, limit, limits.idle_timeout);
    const bool is_stale = !outcome.response.ok() && outcome.was_cut && limit.Check().ok();
    if (!is_stale || (request.method != "GET" && request.method != "HEAD")) return std::move(outcome.response);
    *exposure = Exposure::kNeverSent;
  }
  ASSIGN_OR_RETURN(std::unique_ptr<StreamSocket> socket, Open(limit, After(clock_, limits.connect_timeout)));
  *exposure = Exposure::kMayHaveBeenSeen;
  return Run(std::move(socket), request, consumer, limit, limits.idle_timeout).response;
}

}  // namespace paceline::net
