#include "lib/net/http_client.h"

#include <fmt/format.h>

#include <random>

#include "lib/base/mutex.h"
#include "lib/net/client_tls_cache.h"
#include "lib/net/cpprest_client.h"
#include "lib/net/gzip.h"
#include "lib/net/retry.h"
#include "lib/net/url.h"

namespace paceline::net {
namespace {

// "GET /api/v1/pods": what a message is about; queries may be long and hold tokens.
std::string Subject(const HttpRequest& request, const Url& url) {
  return fmt::format("{} {}{}", request.method, url.HostHeader(), request.target.substr(0, request.target.find('?')));
}

bool AsksForGzip(const HttpRequest& request) {
  const auto found = request.headers.find("Accept-Encoding");
  return found != request.headers.end() && found->second.find("gzip") != std::string::npos;
}

bool IsGzip(const HttpResponse& response) {
  const std::string_view encoding = response.Header("Content-Encoding");
  return encoding == "gzip" || encoding == "x-gzip";
}

void ForgetEncoding(HttpResponse* response) {
  response->headers.erase("Content-Encoding");
  response->headers.erase("Content-Length");
}

class HttpClient final : public HttpTransport {
 public:
  HttpClient(HttpClientOptions options, Url url, std::optional<Url> proxy, const Clock& clock)
      : options_(std::move(options)),
        url_(std::move(url)),
        proxy_(std::move(proxy)),
        clock_(clock),
        tls_(std::make_shared<ClientTlsCache>(options_.tls, url_.host)),
        cpprest_(url_, proxy_ ? &*proxy_ : nullptr, tls_, {options_.connect_timeout, options_.max_body_bytes}, clock),
        random_(std::random_device()()) {}

  Result<HttpResponse> Send(const HttpRequest& request, Deadline deadline, std::stop_token stop) override;
  Result<HttpResponse> Stream(const HttpRequest& request, const BodyConsumer& consumer, Duration idle_timeout,
                              Deadline deadline, std::stop_token stop) override;

 private:
  // The request with our own headers and the caller's credentials.
  Result<HttpRequest> Prepare(const HttpRequest& request, bool was_rejected) const;
  Result<HttpResponse> Attempt(const HttpRequest& request, bool was_rejected, Deadline deadline, std::stop_token stop,
                               Exposure* exposure);
  double Random();

  const HttpClientOptions options_;
  const Url url_;
  const std::optional<Url> proxy_;
  const Clock& clock_;
  const std::shared_ptr<ClientTlsCache> tls_;
  CpprestClient cpprest_;
  Mutex mutex_;
  std::mt19937_64 random_ GUARDED_BY(mutex_);
};

double HttpClient::Random() {
  MutexLock lock(mutex_);
  return std::uniform_real_distribution<double>(0, 1)(random_);
}

Result<HttpRequest> HttpClient::Prepare(const HttpRequest& request, bool was_rejected) const {
  if (request.target.empty() || request.target.front() != '/') {
    return InvalidArgumentError(fmt::format("target \"{}\" must start with '/'", request.target));
  }
  HttpRequest prepared = request;
  for (const char* own : {"Connection", "Content-Length", "Host", "Transfer-Encoding"}) prepared.headers.erase(own);
  prepared.headers.emplace("User-Agent", options_.user_agent);
  if (options_.authorize != nullptr) RETURN_IF_ERROR(options_.authorize(prepared.headers, was_rejected));
  return prepared;
}

Result<HttpResponse> HttpClient::Attempt(const HttpRequest& request, bool was_rejected, Deadline deadline,
                                         std::stop_token stop, Exposure* exposure) {
  *exposure = Exposure::kNeverSent;
  if (stop.stop_requested()) return CancelledError("stopped");
  if (deadline.Expired(clock_)) return DeadlineExceededError("no time left to ask");
  ASSIGN_OR_RETURN(const HttpRequest prepared, Prepare(request, was_rejected));
  ASSIGN_OR_RETURN(HttpResponse response, cpprest_.Exchange(prepared, deadline, std::move(stop), exposure));
  if (!AsksForGzip(request) || !IsGzip(response)) return response;

  GzipDecoder decoder;
  std::string body;
  const auto append = [&](std::string_view piece) {
    if (body.size() + piece.size() > options_.max_body_bytes) {
      return ResourceExhaustedError(fmt::format("the body is over the limit of {} bytes", options_.max_body_bytes));
    }
    body += piece;
    return Status();
  };
  RETURN_IF_ERROR(decoder.Feed(response.body, append));
  RETURN_IF_ERROR(decoder.Finish());
  response.body = std::move(body);
  ForgetEncoding(&response);
  return response;
}

Result<HttpResponse> HttpClient::Send(const HttpRequest& request, Deadline deadline, std::stop_token stop) {
  bool was_rejected = false;
  for (int attempts_made = 1;; ++attempts_made) {
    AttemptOutcome outcome;
    Result<HttpResponse> result = Attempt(request, was_rejected, deadline, stop, &outcome.exposure);
    if (result.ok() && result->status == 401 && options_.authorize != nullptr && !was_rejected) {
      was_rejected = true;
      --attempts_made;  // an expired credential is no fault of the server
      continue;
    }
    outcome.failure = result.status();
    if (result.ok()) outcome.response = &*result;
    const std::optional<Duration> wait =
        RetryDelay(options_.retry, request.method, attempts_made, outcome, Random(), clock_.WallNow());
    if (!wait || *wait >= deadline.Remaining(clock_)) return std::move(result).Annotate(Subject(request, url_));
    if (!clock_.SleepFor(*wait, stop)) return CancelledError(Subject(request, url_) + ": stopped");
  }
}

Result<HttpResponse> HttpClient::Stream(const HttpRequest&, const BodyConsumer&, Duration, Deadline, std::stop_token) {
  return UnimplementedError("Stream");
}

}  // namespace

Result<std::unique_ptr<HttpTransport>> NewHttpClient(HttpClientOptions options, const Clock& clock) {
  ASSIGN_OR_RETURN(Url url, ParseUrl(options.base_url));
  std::optional<Url> proxy;
  if (!options.proxy_url.empty()) {
    ASSIGN_OR_RETURN(proxy, ParseUrl(options.proxy_url));
    if (proxy->is_https) return InvalidArgumentError("proxy \"" + options.proxy_url + "\": only http:// proxies work");
  }
  return std::unique_ptr<HttpTransport>(
      std::make_unique<HttpClient>(std::move(options), std::move(url), std::move(proxy), clock));
}

}  // namespace paceline::net
