#include "lib/net/http_client.h"

#include <fmt/format.h>

#include <random>

#include "lib/base/mutex.h"
#include "lib/net/client_tls_cache.h"
#include "lib/net/cpprest_client.h"
#include "lib/net/direct_client.h"
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

// Decodes a body when that was asked for and the server did it, and hands it to the sink that fits: the caller's
// consumer for a body that is streamed, a bounded string for one that is collected.
class BodyReceiver {
 public:
  // `consumer` may be null: then every body is collected.
  BodyReceiver(bool asked_for_gzip, const BodyConsumer* consumer, size_t max_collected_bytes)
      : asked_for_gzip_(asked_for_gzip), consumer_(consumer), max_collected_bytes_(max_collected_bytes) {}

  Status OnPiece(const HttpResponse& head, std::string_view piece) {
    const bool is_streamed = consumer_ != nullptr && head.status >= 200 && head.status < 300;
    const BodyConsumer collect = [this](std::string_view part) { return Collect(part); };
    const BodyConsumer& sink = is_streamed ? *consumer_ : collect;
    if (!asked_for_gzip_ || !IsGzip(head)) return sink(piece);
    if (decoder_ == nullptr) decoder_ = std::make_unique<GzipDecoder>();
    return decoder_->Feed(piece, sink);
  }

  // Completes `response` when its body has ended.
  Status Finish(HttpResponse* response) {
    if (decoder_ != nullptr) RETURN_IF_ERROR(decoder_->Finish());
    response->body = std::move(collected_);
    if (asked_for_gzip_ && IsGzip(*response)) {
      response->headers.erase("Content-Encoding");
      response->headers.erase("Content-Length");
    }
    return Status();
  }

 private:
  Status Collect(std::string_view part) {
    if (collected_.size() + part.size() > max_collected_bytes_) {
      return ResourceExhaustedError(fmt::format("the body is over the limit of {} bytes", max_collected_bytes_));
    }
    collected_ += part;
    return Status();
  }

  const bool asked_for_gzip_;
  const BodyConsumer* const consumer_;
  const size_t max_collected_bytes_;
  std::unique_ptr<GzipDecoder> decoder_;
  std::string collected_;
};

class HttpClient final : public HttpTransport {
 public:
  HttpClient(HttpClientOptions options, Url url, std::optional<Url> proxy, const Clock& clock)
      : options_(std::move(options)),
        url_(std::move(url)),
        proxy_(std::move(proxy)),
        clock_(clock),
        tls_(std::make_shared<ClientTlsCache>(options_.tls, url_.host)),
        needs_direct_(url_.is_ipv6_literal() || (proxy_ && proxy_->is_ipv6_literal())),
        cpprest_(url_, proxy_ ? &*proxy_ : nullptr, tls_, {options_.connect_timeout, options_.max_body_bytes}, clock),
        direct_(url_, proxy_, tls_, clock),
        random_(std::random_device()()) {}

  Result<HttpResponse> Send(const HttpRequest& request, Deadline deadline, std::stop_token stop) override;
  Result<HttpResponse> Stream(const HttpRequest& request, const BodyConsumer& consumer, Duration idle_timeout,
                              Deadline deadline, std::stop_token stop) override;

 private:
  // The request with our own headers and the caller's credentials.
  Result<HttpRequest> Prepare(const HttpRequest& request, bool was_rejected) const;
  Result<HttpResponse> Attempt(const HttpRequest& request, bool was_rejected, Deadline deadline, std::stop_token stop,
                               Exposure* exposure);
  // Over DirectClient; a null `consumer` collects the body.
  Result<HttpResponse> Directly(const HttpRequest& prepared, const BodyConsumer* consumer, Duration idle_timeout,
                                Deadline deadline, std::stop_token stop, Exposure* exposure);
  double Random();

  const HttpClientOptions options_;
  const Url url_;
  const std::optional<Url> proxy_;
  const Clock& clock_;
  const std::shared_ptr<ClientTlsCache> tls_;
  const bool needs_direct_;  // cpprestsdk cannot resolve an IPv6 literal
  CpprestClient cpprest_;
  DirectClient direct_;
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
  if (needs_direct_) return Directly(prepared, nullptr, Duration::max(), deadline, std::move(stop), exposure);

  ASSIGN_OR_RETURN(HttpResponse response, cpprest_.Exchange(prepared, deadline, std::move(stop), exposure));
  BodyReceiver receiver(AsksForGzip(request), nullptr, options_.max_body_bytes);
  if (AsksForGzip(request) && IsGzip(response)) {
    const std::string encoded = std::exchange(response.body, "");
    RETURN_IF_ERROR(receiver.OnPiece(response, encoded));
    RETURN_IF_ERROR(receiver.Finish(&response));
  }
  return response;
}

Result<HttpResponse> HttpClient::Directly(const HttpRequest& prepared, const BodyConsumer* consumer,
                                          Duration idle_timeout, Deadline deadline, std::stop_token stop,
                                          Exposure* exposure) {
  BodyReceiver receiver(AsksForGzip(prepared), consumer, options_.max_body_bytes);
  const auto on_piece = [&](const HttpResponse& head, std::string_view piece) { return receiver.OnPiece(head, piece); };
  const DirectClient::Limits limits = {options_.connect_timeout, idle_timeout, deadline, std::move(stop)};
  ASSIGN_OR_RETURN(HttpResponse response, direct_.Exchange(prepared, on_piece, limits, exposure));
  RETURN_IF_ERROR(receiver.Finish(&response));
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

Result<HttpResponse> HttpClient::Stream(const HttpRequest& request, const BodyConsumer& consumer, Duration idle_timeout,
                                        Deadline deadline, std::stop_token stop) {
  for (bool was_rejected = false;; was_rejected = true) {
    Result<HttpRequest> prepared = Prepare(request, was_rejected);
    if (!prepared.ok()) return prepared.status().Annotate(Subject(request, url_));
    Exposure exposure;
    Result<HttpResponse> result = Directly(*prepared, &consumer, idle_timeout, deadline, stop, &exposure);
    const bool may_renew = options_.authorize != nullptr && !was_rejected;
    if (result.ok() && result->status == 401 && may_renew) continue;
    return std::move(result).Annotate(Subject(request, url_));
  }
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
