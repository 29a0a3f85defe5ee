#include "lib/net/http_server.h"

#include <utility>

#include <fmt/format.h>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>

#include <algorithm>
#include <optional>
#include <set>
#include <thread>

#include "lib/base/mutex.h"
#include "lib/net/handler_pool.h"
#include "lib/net/openssl_handles.h"
#include "lib/net/route_table.h"
#include "lib/net/server_tls_context.h"
#include "lib/net/url.h"

namespace paceline::net {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using Error = boost::system::error_code;

// A connection that ends is read empty for this long, so that the client gets our last answer instead of a reset.
constexpr std::chrono::seconds kLingerTime{2};
constexpr size_t kLingerBytes = 4 * 1024 * 1024;
// What a handler gets beyond its deadline to say so itself.
constexpr std::chrono::milliseconds kHandlerSlack{250};
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr std::chrono::minutes kFullLogPeriod{1};

class Session {
 public:
  virtual ~Session() = default;
  virtual void Begin() = 0;
  // Ends the connection now unless a request is being read or answered; such a one ends after its answer.
  virtual void Drain() = 0;
  virtual void Close() = 0;
};

// Everything but pool, shutdown_mutex_ and empty_ is touched by the one network thread only, or before it starts.
class Server final : public HttpServer {
 public:
  Server(const ServerOptions& options, RouteTable routes, std::unique_ptr<ServerTlsContext> tls, const Clock& clock,
         Logger& log)
      : options(options),
        routes(std::move(routes)),
        tls(std::move(tls)),
        clock(clock),
        log(log),
        pool(options.threads) {}
  ~Server() override { Shutdown(Duration::zero()); }

  Status Listen();
  uint16_t port() const override { return port_; }
  void Shutdown(Duration grace) override;

  bool is_draining() const { return is_draining_; }
  void Remove(const std::shared_ptr<Session>& session);

  const ServerOptions options;
  const RouteTable routes;
  const std::unique_ptr<ServerTlsContext> tls;
  const Clock& clock;
  Logger& log;
  asio::io_context network;
  HandlerPool pool;

 private:
  void Accept();
  void OnAccepted(Error error, tcp::socket socket);

  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> keep_running_;
  tcp::acceptor acceptor_{network};
  asio::steady_timer accept_pause_{network};
  std::set<std::shared_ptr<Session>> sessions_;
  bool is_draining_ = false;
  TimePoint full_logged_{};
  bool was_full_ = false;
  uint16_t port_ = 0;
  std::thread thread_;

  Mutex shutdown_mutex_;
  CondVar empty_;
  bool is_shut_down_ GUARDED_BY(shutdown_mutex_) = false;
  bool is_empty_ GUARDED_BY(shutdown_mutex_) = false;
};

beast::tcp_stream& TcpOf(beast::tcp_stream& stream) { return stream; }
beast::tcp_stream& TcpOf(beast::ssl_stream<beast::tcp_stream>& stream) { return stream.next_layer(); }

std::string ClientName(beast::ssl_stream<beast::tcp_stream>& stream) {
  const X509Ptr certificate(SSL_get1_peer_certificate(stream.native_handle()));
  return certificate == nullptr ? "" : CommonName(X509_get_subject_name(certificate.get()));
}

// asio opens sockets without it, and a program that we start must not keep a connection open.
void CloseOnExec(int fd) { fcntl(fd, F_SETFD, FD_CLOEXEC); }

ServerResponse PlainAnswer(int status, std::string_view text) {
  ServerResponse response;
  response.status = status;
  response.body = std::string(text) + "\n";
  return response;
}

bool IsValidHeader(std::string_view name, std::string_view value) {
  return !name.empty() && name.find_first_of(std::string_view("\r\n\0 :", 5)) == std::string_view::npos &&
         value.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos;
}

bool IsForbiddenHeader(const std::string& name) {
  const HeaderLess less;
  for (const char* own : {"Connection", "Content-Length", "Transfer-Encoding", "Content-Type"}) {
    if (!less(name, own) && !less(own, name)) return true;
  }
  return false;
}

// Splits the target of a request; false when it is not a path.
bool ReadTarget(std::string_view target, ServerRequest* out) {
  if (target.substr(0, 7) == "http://" || target.substr(0, 8) == "https://") {  // absolute form, as proxies send it
    const size_t path = target.find('/', target.find("//") + 2);
    target = path == std::string_view::npos ? std::string_view("/") : target.substr(path);
  }
  const size_t question = target.find('?');
  Result<std::string> path = UrlDecode(target.substr(0, question));
  if (!path.ok() || path->empty() || path->front() != '/' || path->find('\0') != std::string::npos) return false;
  out->path = *std::move(path);
  if (question != std::string_view::npos) out->query = std::string(target.substr(question + 1));
  return true;
}

ServerResponse RunHandler(const Handler& handler, const ServerRequest& request, Deadline deadline, Logger& log) {
  try {
    return handler(request, deadline);
  } catch (const std::exception& error) {
    // Handlers do not throw, but what they call may; one bad request must not end the process.
    log.Error("handler failed", {{"path", request.path}, {"error", error.what()}});
    return PlainAnswer(500, "internal error");
  }
}

template <typename Stream>
class Connection final : public Session, public std::enable_shared_from_this<Connection<Stream>> {
 public:
  template <typename... StreamArgs>
  explicit Connection(Server& server, StreamArgs&&... args)
      : server_(server),
        stream_(std::forward<StreamArgs>(args)...),
        buffer_(server.options.max_header_bytes + 64 * 1024),
        handler_timer_(server.network) {}

  void Begin() override;
  void Drain() override {
    if (is_idle_) Close();
  }
  void Close() override {
    Error ignored;
    TcpOf(stream_).socket().close(ignored);
    handler_timer_.cancel();
    ++answer_due_;
    server_.Remove(self());
  }

 private:
  using Self = std::shared_ptr<Connection>;
  Self self() { return this->shared_from_this(); }
  void Expire(Duration after) {
    TcpOf(stream_).expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(after));
  }

  void AwaitRequest();
  void ReadHead();
  void OnHead(Error error);
  void ReadBody();
  void OnReadFailure(Error error);
  void Dispatch();
  void Respond(ServerResponse response, bool keeps_alive);
  void Finish();
  void DrainSocket();

  Server& server_;
  Stream stream_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  std::string peer_address_;
  std::string client_name_;
  bool is_idle_ = true;  // nothing of a request has come yet
  bool is_first_ = true;
  bool is_head_ = false;     // the request's method is HEAD
  uint64_t answer_due_ = 0;  // number of the request whose answer is awaited; late answers carry an older one
  asio::steady_timer handler_timer_;
  char scratch_[4096];
  size_t drained_bytes_ = 0;
};

template <typename Stream>
void Connection<Stream>::Begin() {
  Error error;
  const tcp::endpoint peer = TcpOf(stream_).socket().remote_endpoint(error);
  if (!error) {
    asio::ip::address address = peer.address();
    if (address.is_v6() && address.to_v6().is_v4_mapped()) {
      address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
    }
    peer_address_ = address.to_string();
  }
  TcpOf(stream_).socket().set_option(tcp::no_delay(true), error);
  if constexpr (std::is_same_v<Stream, beast::tcp_stream>) {
    AwaitRequest();
  } else {
    Expire(server_.options.read_timeout);
    stream_.async_handshake(asio::ssl::stream_base::server, [self = self()](Error failed) {
      if (failed) return self->Close();
      self->client_name_ = ClientName(self->stream_);
      self->AwaitRequest();
    });
  }
}

template <typename Stream>
void Connection<Stream>::AwaitRequest() {
  if (buffer_.size() > 0) return ReadHead();  // the client sent the next request already
  if (server_.is_draining()) return Finish();
  is_idle_ = true;
  Expire(is_first_ ? server_.options.read_timeout : server_.options.idle_timeout);
  stream_.async_read_some(buffer_.prepare(4096), [self = self()](Error error, size_t got) {
    if (error) return error == asio::error::eof ? self->Finish() : self->Close();
    self->buffer_.commit(got);
    self->ReadHead();
  });
}

template <typename Stream>
void Connection<Stream>::ReadHead() {
  is_idle_ = false;
  is_first_ = false;
  is_head_ = false;
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(server_.options.max_header_bytes));
  parser_->body_limit(server_.options.max_body_bytes);
  Expire(server_.options.read_timeout);
  http::async_read_header(stream_, buffer_, *parser_, [self = self()](Error error, size_t) { self->OnHead(error); });
}

template <typename Stream>
void Connection<Stream>::OnHead(Error error) {
  if (error) return OnReadFailure(error);
  const auto expectation = parser_->get().find(http::field::expect);
  if (expectation == parser_->get().end()) return ReadBody();
  if (!beast::iequals(expectation->value(), "100-continue"))
    return Respond(PlainAnswer(417, "expectation failed"), false);
  auto go_on = std::make_shared<http::response<http::empty_body>>(http::status::continue_, 11);
  http::async_write(stream_, *go_on, [self = self(), go_on](Error failed, size_t) {
    if (failed) return self->Close();
    self->ReadBody();
  });
}

template <typename Stream>
void Connection<Stream>::ReadBody() {
  Expire(server_.options.read_timeout);
  http::async_read(stream_, buffer_, *parser_, [self = self()](Error error, size_t) {
    if (error) return self->OnReadFailure(error);
    self->Dispatch();
  });
}

template <typename Stream>
void Connection<Stream>::OnReadFailure(Error error) {
  if (error == http::error::end_of_stream) return Finish();
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return Respond(PlainAnswer(431, "the request's header is too large"), false);
  }
  if (error == http::error::body_limit) return Respond(PlainAnswer(413, "the request's body is too large"), false);
  if (error == http::error::partial_message) return Close();
  if (error.category() == http::make_error_code(http::error::bad_version).category()) {
    return Respond(PlainAnswer(400, "malformed request"), false);
  }
  Close();  // time-out, reset, cut
}

template <typename Stream>
void Connection<Stream>::Dispatch() {
  auto message = parser_->release();
  const bool keeps_alive = message.keep_alive();
  auto request = std::make_shared<ServerRequest>();
  request->method = std::string(message.method_string());
  is_head_ = message.method() == http::verb::head;
  const auto target = message.target();
  if (!ReadTarget({target.data(), target.size()}, request.get())) {
    return Respond(PlainAnswer(400, "malformed target"), keeps_alive);
  }
  const RouteTable::Match match = server_.routes.Find(request->method, request->path);
  if (match.handler == nullptr) {
    if (match.allowed_methods.empty()) return Respond(PlainAnswer(404, "not found"), keeps_alive);
    ServerResponse refusal = PlainAnswer(405, "method not allowed");
    refusal.headers["Allow"] = match.allowed_methods;
    return Respond(std::move(refusal), keeps_alive);
  }
  for (const auto& field : message) {
    auto [entry, is_new] = request->headers.emplace(field.name_string(), field.value());
    if (!is_new) entry->second.append(", ").append(field.value().data(), field.value().size());
  }
  request->body = std::move(message.body());
  request->peer_address = peer_address_;
  request->client_certificate_cn = client_name_;

  const Deadline deadline = Deadline::After(server_.clock, server_.options.handler_timeout);
  const uint64_t number = ++answer_due_;
  TcpOf(stream_).expires_never();
  handler_timer_.expires_after(
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(server_.options.handler_timeout + kHandlerSlack));
  handler_timer_.async_wait([self = self(), number](Error error) {
    if (error || self->answer_due_ != number) return;
    ++self->answer_due_;
    self->Respond(PlainAnswer(503, "the handler took too long"), false);
  });
  server_.pool.Post([self = self(), request, handler = match.handler, deadline, number, keeps_alive] {
    Server& server = self->server_;
    ServerResponse response = deadline.Expired(server.clock) ? PlainAnswer(503, "too busy")
                                                             : RunHandler(*handler, *request, deadline, server.log);
    asio::post(server.network, [self, number, keeps_alive, response = std::move(response)]() mutable {
      if (self->answer_due_ != number) return;
      self->handler_timer_.cancel();
      self->Respond(std::move(response), keeps_alive);
    });
  });
}

template <typename Stream>
void Connection<Stream>::Respond(ServerResponse response, bool keeps_alive) {
  bool is_sane =
      response.status >= 200 && response.status <= 599 && IsValidHeader("Content-Type", response.content_type);
  for (const auto& [name, value] : response.headers) is_sane = is_sane && IsValidHeader(name, value);
  if (!is_sane) response = PlainAnswer(500, "bad status or header from the handler");
  keeps_alive = keeps_alive && !server_.is_draining();

  auto message = std::make_shared<http::response<http::string_body>>(static_cast<http::status>(response.status), 11);
  const bool has_body = response.status != 204 && response.status != 304;
  for (const auto& [name, value] : response.headers) {
    if (!IsForbiddenHeader(name)) message->set(name, value);
  }
  if (has_body) {
    if (!response.content_type.empty()) message->set(http::field::content_type, response.content_type);
    message->content_length(response.body.size());
    if (!is_head_) message->body() = std::move(response.body);
  }
  message->keep_alive(keeps_alive);
  // A second more for each MiB: a large answer on a slow line is not a stuck client.
  Expire(server_.options.read_timeout + std::chrono::seconds(message->body().size() >> 20));
  http::async_write(stream_, *message, [self = self(), message, keeps_alive](Error error, size_t) {
    if (error) return self->Close();
    if (!keeps_alive) return self->Finish();
    self->AwaitRequest();
  });
}

template <typename Stream>
void Connection<Stream>::Finish() {
  is_idle_ = false;
  Expire(kLingerTime);
  if constexpr (std::is_same_v<Stream, beast::tcp_stream>) {
    DrainSocket();
  } else {
    stream_.async_shutdown([self = self()](Error) { self->DrainSocket(); });
  }
}

// Says that we are done and reads what the client still sends: closing with unread bytes would reset the connection,
// and the reset can overtake our answer.
template <typename Stream>
void Connection<Stream>::DrainSocket() {
  Error error;
  TcpOf(stream_).socket().shutdown(tcp::socket::shutdown_send, error);
  if (error) return Close();
  TcpOf(stream_).async_read_some(asio::buffer(scratch_), [self = self()](Error failed, size_t got) {
    self->drained_bytes_ += got;
    if (failed || self->drained_bytes_ > kLingerBytes) return self->Close();
    self->DrainSocket();
  });
}

Status Server::Listen() {
  Error error;
  const asio::ip::address address = asio::ip::make_address(options.address, error);
  if (error) return InvalidArgumentError(fmt::format("listen address \"{}\": {}", options.address, error.message()));
  const tcp::endpoint endpoint(address, options.port);
  acceptor_.open(endpoint.protocol(), error);
  if (!error) CloseOnExec(acceptor_.native_handle());
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error && address.is_v6()) acceptor_.set_option(asio::ip::v6_only(false), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error)
    return UnavailableError(fmt::format("listen on {}:{}: {}", options.address, options.port, error.message()));
  port_ = acceptor_.local_endpoint(error).port();
  keep_running_.emplace(network.get_executor());
  Accept();
  thread_ = std::thread([this] { network.run(); });
  return Status();
}

void Server::Accept() {
  acceptor_.async_accept([this](Error error, tcp::socket socket) { OnAccepted(error, std::move(socket)); });
}

void Server::OnAccepted(Error error, tcp::socket socket) {
  if (error == asio::error::operation_aborted || is_draining_) return;
  if (error) {  // out of descriptors, say: do not spin
    accept_pause_.expires_after(kAcceptPause);
    accept_pause_.async_wait([this](Error cancelled) {
      if (!cancelled && !is_draining_) Accept();
    });
    return;
  }
  if (sessions_.size() >= static_cast<size_t>(options.max_connections)) {
    const TimePoint now = clock.Now();
    if (!was_full_ || now - full_logged_ >= kFullLogPeriod) {
      log.Warn("too many connections, new ones are closed", {{"limit", options.max_connections}});
      was_full_ = true;
      full_logged_ = now;
    }
    socket.close(error);
    return Accept();
  }
  CloseOnExec(socket.native_handle());
  std::shared_ptr<Session> session;
  if (tls == nullptr) {
    session = std::make_shared<Connection<beast::tcp_stream>>(*this, std::move(socket));
  } else {
    const std::shared_ptr<SSL_CTX> current = tls->Current();
    SSL_CTX_up_ref(current.get());
    asio::ssl::context context(current.get());  // takes over the reference; the stream takes one of its own
    session = std::make_shared<Connection<beast::ssl_stream<beast::tcp_stream>>>(*this, std::move(socket), context);
  }
  sessions_.insert(session);
  session->Begin();
  Accept();
}

void Server::Remove(const std::shared_ptr<Session>& session) {
  sessions_.erase(session);
  if (!is_draining_ || !sessions_.empty()) return;
  MutexLock lock(shutdown_mutex_);
  is_empty_ = true;
  empty_.NotifyAll();
}

void Server::Shutdown(Duration grace) {
  {
    MutexLock lock(shutdown_mutex_);
    if (std::exchange(is_shut_down_, true)) return;
  }
  if (!thread_.joinable()) return;  // never listened
  asio::post(network, [this] {
    is_draining_ = true;
    Error ignored;
    acceptor_.close(ignored);
    accept_pause_.cancel();
    for (const std::shared_ptr<Session>& session : std::set(sessions_)) session->Drain();
    MutexLock lock(shutdown_mutex_);
    is_empty_ = is_empty_ || sessions_.empty();
    empty_.NotifyAll();
  });
  const Deadline deadline = Deadline::After(clock, grace);
  {
    MutexLock lock(shutdown_mutex_);
    while (!is_empty_ && !deadline.Expired(clock)) empty_.WaitUntil(lock, clock, deadline.when());
  }
  asio::post(network, [this] {
    for (const std::shared_ptr<Session>& session : std::set(sessions_)) session->Close();
    keep_running_.reset();
  });
  // A handler that does not honour its deadline holds this up; its answer goes nowhere.
  pool.Stop();
  thread_.join();
}

Status CheckOptions(const ServerOptions& options) {
  if (options.threads < 1 || options.max_connections < 1) {
    return InvalidArgumentError("a server needs at least one thread and one connection");
  }
  if (options.max_header_bytes < 512 || options.max_header_bytes > 16 * 1024 * 1024) {
    return InvalidArgumentError("max_header_bytes must be from 512 bytes to 16 MiB");
  }
  if (options.read_timeout <= Duration::zero() || options.idle_timeout <= Duration::zero() ||
      options.handler_timeout <= Duration::zero()) {
    return InvalidArgumentError("the server's time-outs must be positive");
  }
  return Status();
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::Start(const ServerOptions& options,
                                                      std::map<std::string, Handler> routes,
                                                      std::unique_ptr<ServerTls> tls, const Clock& clock, Logger& log) {
  RETURN_IF_ERROR(CheckOptions(options));
  ASSIGN_OR_RETURN(RouteTable table, RouteTable::Make(std::move(routes)));
  std::unique_ptr<ServerTlsContext> context;
  if (tls != nullptr) {
    ASSIGN_OR_RETURN(context, ServerTlsContext::Start(std::move(*tls), clock, log));
  }
  auto server = std::make_unique<Server>(options, std::move(table), std::move(context), clock, log);
  RETURN_IF_ERROR(server->Listen());
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace paceline::net
