#include "lib/net/cpprest_client.h"

#include <utility>

// cpprest's macro U breaks templates of Boost and OpenSSL; this is the name that turns it off.
#define _TURN_OFF_PLATFORM_STRING  // NOLINT(bugprone-reserved-identifier)
#include <cpprest/containerstream.h>
#include <cpprest/http_client.h>
#include <cpprest/producerconsumerstream.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pplx/threadpool.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace paceline::net {
namespace {

namespace rest = web::http;
using BodyBuffer = concurrency::streams::container_buffer<std::vector<uint8_t>>;

// The library's own timer measures silence, not the call, and is re-armed by every byte. It is set out of the way; the
// waiting thread below ends a call by cancelling it.
constexpr std::chrono::hours kLibraryTimeout{24};
// Connections for requests that must not be sent twice are at most this old, so that one which the server has dropped
// in the meantime is hardly ever picked. No server in use closes an idle connection sooner.
constexpr std::chrono::seconds kFreshConnectionAge{5};

// What the library's threads tell the waiting thread. Shared, because after a cancelled call the library may come back
// to it at any later time.
struct Progress {
  Mutex mutex;
  CondVar changed;
  bool connected GUARDED_BY(mutex) = false;  // the request's head is written
  bool over_limit GUARDED_BY(mutex) = false;
  bool done GUARDED_BY(mutex) = false;
  std::string failure GUARDED_BY(mutex);  // non-empty: the library's message
  rest::http_response response GUARDED_BY(mutex);
  BodyBuffer body;  // written by the library until `done`

  void Finish(std::string error) {
    MutexLock lock(mutex);
    failure = std::move(error);
    done = true;
    changed.NotifyAll();
  }
};

bool HasToken(std::string_view text) {
  return !text.empty() && text.find_first_of("\r\n \t:") == std::string_view::npos &&
         text.find('\0') == std::string_view::npos;
}

// A body that the library cannot rewind. It replays a request by itself when a pooled connection turns out to be
// closed, also a POST that the server may have acted on; without a way to rewind it reports the failure instead.
concurrency::streams::istream OneWayBody(const std::string& body) {
  concurrency::streams::producer_consumer_buffer<uint8_t> buffer;
  if (!body.empty()) buffer.putn_nocopy(reinterpret_cast<const uint8_t*>(body.data()), body.size()).wait();
  buffer.close(std::ios_base::out).wait();
  return buffer.create_istream();
}

bool IsSafeToReplay(const std::string& method) {
  return method == "GET" || method == "HEAD" || method == "PUT" || method == "DELETE";
}

Status FillRequest(const HttpRequest& from, const std::string& server_name, rest::http_request* to) {
  for (const auto& [name, value] : from.headers) {
    if (!HasToken(name) || value.find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos) {
      return InvalidArgumentError(fmt::format("header \"{}\" has a character that is not allowed", name));
    }
    to->headers().add(name, value);
  }
  // The library takes the name for SNI and verification from here.
  if (!server_name.empty()) to->headers()["Host"] = server_name;
  if (from.body.empty() && IsSafeToReplay(from.method)) return Status();
  const auto type = from.headers.find("Content-Type");
  const std::string content_type = type == from.headers.end() ? "application/octet-stream" : type->second;
  if (IsSafeToReplay(from.method)) {
    to->set_body(concurrency::streams::bytestream::open_istream(std::string(from.body)), from.body.size(),
                 content_type);
  } else {
    to->set_body(OneWayBody(from.body), from.body.size(), content_type);
  }
  return Status();
}

HttpResponse TakeResponse(Progress& progress) {
  HttpResponse out;
  MutexLock lock(progress.mutex);
  out.status = progress.response.status_code();
  for (const auto& [name, value] : progress.response.headers()) out.headers[name] = value;
  const std::vector<uint8_t>& body = progress.body.collection();
  out.body.assign(body.begin(), body.end());
  return out;
}

// "message (OpenSSL's or the system's words)"; the library keeps the reason in the error code only.
std::string Describe(const rest::http_exception& error) {
  const int code = error.error_code().value();
  if (code == 0) return error.what();
  const char* reason = ERR_reason_error_string(static_cast<unsigned int>(code));
  return fmt::format("{} ({})", error.what(), reason != nullptr ? reason : error.error_code().message());
}

// The library reports where it failed in words only.
bool FailedBeforeSending(std::string_view message) {
  return message.find("Failed to connect") != std::string_view::npos ||
         message.find("esolv") != std::string_view::npos || message.find("SSL handshake") != std::string_view::npos ||
         message.find("proxy") != std::string_view::npos;
}

}  // namespace

struct CpprestClient::State {
  Url url;
  std::shared_ptr<ClientTlsCache> tls;
  ExchangeLimits limits;
  const Clock& clock;
  rest::client::http_client_config config;
  std::string base;

  Mutex mutex;
  std::shared_ptr<rest::client::http_client> reads GUARDED_BY(mutex);
  std::shared_ptr<rest::client::http_client> writes GUARDED_BY(mutex);
  TimePoint writes_made GUARDED_BY(mutex);

  State(const ExchangeLimits& l, const Clock& c) : limits(l), clock(c) {}

  // A client of the library is a pool of connections.
  std::shared_ptr<rest::client::http_client> Pick(const std::string& method) {
    MutexLock lock(mutex);
    if (IsSafeToReplay(method)) {
      if (reads == nullptr) reads = std::make_shared<rest::client::http_client>(base, config);
      return reads;
    }
    const TimePoint now = clock.Now();
    if (writes == nullptr || now - writes_made >= kFreshConnectionAge) {
      writes = std::make_shared<rest::client::http_client>(base, config);
      writes_made = now;
    }
    return writes;
  }

  void DropConnections() {
    MutexLock lock(mutex);
    reads.reset();
    writes.reset();
  }

  // Ok when the answer (or the library's failure) is there; otherwise why the call ends without it.
  Status Wait(Progress& progress, Deadline deadline, const std::stop_token& stop) {
    const TimePoint connect_by = clock.Now() + limits.connect_timeout;
    MutexLock lock(progress.mutex);
    while (!progress.done) {
      if (progress.over_limit) {
        return ResourceExhaustedError(fmt::format("the body is over the limit of {} bytes", limits.max_body_bytes));
      }
      if (stop.stop_requested()) return CancelledError("stopped");
      const TimePoint now = clock.Now();
      if (now >= deadline.when()) return DeadlineExceededError("no answer in time");
      if (!progress.connected && now >= connect_by) return UnavailableError("connect timed out");
      const TimePoint until = progress.connected ? deadline.when() : std::min(deadline.when(), connect_by);
      progress.changed.WaitUntil(lock, clock, until, stop);
    }
    return Status();
  }

  Result<HttpResponse> Conclude(Progress& progress, Exposure* exposure) {
    std::string failure;
    {
      MutexLock lock(progress.mutex);
      failure = progress.failure;
      if (progress.connected || !FailedBeforeSending(failure)) *exposure = Exposure::kMayHaveBeenSeen;
    }
    if (!failure.empty()) {
      const std::string reason = tls->TakeFailure();
      return UnavailableError(reason.empty() ? failure : fmt::format("{}: {}", failure, reason));
    }
    HttpResponse response = TakeResponse(progress);
    if (response.status < 200) {
      // The library takes an informational answer for the final one, which then waits in the pooled connection.
      DropConnections();
      return UnavailableError(fmt::format("unexpected informational answer {}", response.status));
    }
    if (response.body.size() > limits.max_body_bytes) {
      return ResourceExhaustedError(fmt::format("the body is over the limit of {} bytes", limits.max_body_bytes));
    }
    return response;
  }
};

CpprestClient::CpprestClient(const Url& url, const Url* proxy, std::shared_ptr<ClientTlsCache> tls,
                             const ExchangeLimits& limits, const Clock& clock)
    : state_(std::make_unique<State>(limits, clock)) {
  state_->url = url;
  state_->tls = tls;
  state_->base = (url.is_https ? "https://" : "http://") + url.HostHeader() + url.path;
  auto& config = state_->config;
  config.set_timeout(kLibraryTimeout);
  config.set_max_redirects(0);
  config.set_validate_certificates(!tls->skips_verification());
  config.set_ssl_context_callback([tls](boost::asio::ssl::context& context) {
    if (tls->Configure(context.native_handle()).ok()) return;
    // There is no way to say no from here: leave a context with which no handshake succeeds. The reason is in `tls`.
    SSL_CTX_set_min_proto_version(context.native_handle(), TLS1_3_VERSION);
    SSL_CTX_set_max_proto_version(context.native_handle(), TLS1_2_VERSION);
  });
  if (proxy != nullptr) {
    web::web_proxy through(web::uri("http://" + proxy->HostHeader()));
    if (!proxy->username.empty()) through.set_credentials({proxy->username, proxy->password});
    config.set_proxy(through);
  }
}

CpprestClient::~CpprestClient() = default;

Status InitHttpThreads(int threads) {
  if (threads < 1) return InvalidArgumentError("the HTTP thread pool needs at least one thread");
  try {
    crossplat::threadpool::initialize_with_threads(static_cast<size_t>(threads));
  } catch (const std::exception& error) {
    return AbortedError(fmt::format("HTTP thread pool: {}", error.what()));
  }
  return Status();
}

Result<HttpResponse> CpprestClient::Exchange(const HttpRequest& request, Deadline deadline, std::stop_token stop,
                                             Exposure* exposure) {
  *exposure = Exposure::kNeverSent;
  rest::http_request message(request.method);
  try {
    message.set_request_uri(web::uri(request.target));
  } catch (const web::uri_exception& error) {
    return InvalidArgumentError(fmt::format("target \"{}\": {}", request.target, error.what()));
  }
  const bool overrides_name = state_->url.is_https && state_->tls->verified_name() != state_->url.host;
  RETURN_IF_ERROR(FillRequest(request, overrides_name ? state_->tls->verified_name() : "", &message));

  auto progress = std::make_shared<Progress>();
  message.set_response_stream(progress->body.create_ostream());
  const size_t max_body_bytes =
      request.method == "HEAD" ? std::numeric_limits<size_t>::max() : state_->limits.max_body_bytes;
  const auto note = [progress, max_body_bytes](uint64_t body_bytes) {
    MutexLock lock(progress->mutex);
    progress->connected = true;
    progress->over_limit = progress->over_limit || body_bytes > max_body_bytes;
    progress->changed.NotifyAll();
  };
  message.set_progress_handler([note](rest::message_direction::direction direction, uint64_t bytes) {
    note(direction == rest::message_direction::download ? bytes : 0);
  });

  pplx::cancellation_token_source cancel;
  const std::shared_ptr<rest::client::http_client> client = state_->Pick(request.method);
  client->request(message, cancel.get_token())
      .then([note](const pplx::task<rest::http_response>& headers) {
        rest::http_response response = headers.get();
        note(response.headers().content_length());
        return response.content_ready();
      })
      .then([progress, client](const pplx::task<rest::http_response>& body) {
        try {
          rest::http_response response = body.get();
          {
            MutexLock lock(progress->mutex);
            progress->response = response;
          }
          progress->Finish("");
        } catch (const rest::http_exception& error) {
          progress->Finish(Describe(error));
        } catch (const std::exception& error) {
          progress->Finish(error.what());
        }
      });

  const Status ended = state_->Wait(*progress, deadline, stop);
  if (!ended.ok()) {
    cancel.cancel();
    MutexLock lock(progress->mutex);
    if (progress->connected) *exposure = Exposure::kMayHaveBeenSeen;
    return ended;
  }
  return state_->Conclude(*progress, exposure);
}

}  // namespace paceline::net
