#include <utility>

#include "lib/base/mutex.h"
#include "lib/kube/config_auth.h"
#include "lib/kube/rate_limiter.h"
#include "lib/kube/rest_client.h"
#include "lib/net/http_client.h"
#include "lib/net/url.h"

namespace paceline::kube {
namespace {

// client-go's buckets.
const std::vector<double> kSeconds{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60};

class LimitedTransport final : public net::HttpTransport {
 public:
  LimitedTransport(std::unique_ptr<net::HttpTransport> transport, const RestOptions& options, std::string host,
                   MetricsRegistry& metrics, const Clock& clock)
      : transport_(std::move(transport)),
        host_(std::move(host)),
        clock_(clock),
        requests_(metrics.CounterFamily(
            {"rest_client_requests_total", "Requests to the API server, by answer", {"code", "method", "host"}})),
        durations_(metrics.HistogramFamily(
            {"rest_client_request_duration_seconds", "Time of requests to the API server", {"verb", "host"}},
            kSeconds)),
        waits_(metrics.HistogramFamily({"rest_client_rate_limiter_duration_seconds",
                                        "Time that requests to the API server waited for our own rate limit",
                                        {"verb", "host"}},
                                       kSeconds)),
        is_limited_(options.qps > 0),
        bucket_(options.burst < 1 ? 1 : options.burst,
                std::chrono::duration_cast<Duration>(std::chrono::duration<double>(is_limited_ ? 1 / options.qps : 1)),
                clock.Now()) {}

  Result<net::HttpResponse> Send(const net::HttpRequest& request, Deadline deadline, std::stop_token stop) override {
    RETURN_IF_ERROR(AwaitTurn(request.method, deadline, stop));
    const TimePoint began = clock_.Now();
    Result<net::HttpResponse> response = transport_->Send(request, deadline, stop);
    durations_.With({request.method, host_}).Observe(ToSeconds(clock_.Now() - began));
    Count(request.method, response);
    return response;
  }

  // How long a watch lasts says nothing about the server: streams are counted, not timed.
  Result<net::HttpResponse> Stream(const net::HttpRequest& request, const net::BodyConsumer& consumer,
                                   Duration idle_timeout, Deadline deadline, std::stop_token stop) override {
    RETURN_IF_ERROR(AwaitTurn(request.method, deadline, stop));
    Result<net::HttpResponse> response = transport_->Stream(request, consumer, idle_timeout, deadline, stop);
    Count(request.method, response);
    return response;
  }

 private:
  Status AwaitTurn(const std::string& method, Deadline deadline, std::stop_token stop) EXCLUDES(mutex_) {
    if (!is_limited_) return {};
    const TimePoint now = clock_.Now();
    Duration wait{0};
    {
      MutexLock lock(mutex_);
      wait = bucket_.Reserve(now);
    }
    waits_.With({method, host_}).Observe(ToSeconds(wait));
    if (wait == Duration::zero()) return {};
    if (!deadline.is_infinite() && now + wait > deadline.when()) {
      return DeadlineExceededError("the client's own rate limit leaves no time for the request");
    }
    return clock_.SleepUntil(now + wait, stop) ? Status() : CancelledError("wait for the client's rate limit");
  }

  void Count(const std::string& method, const Result<net::HttpResponse>& response) {
    requests_.With({response.ok() ? std::to_string(response->status) : "<error>", method, host_}).Add();
  }

  const std::unique_ptr<net::HttpTransport> transport_;
  const std::string host_;
  const Clock& clock_;
  MetricFamily<Counter>& requests_;
  MetricFamily<Histogram>& durations_;
  MetricFamily<Histogram>& waits_;
  const bool is_limited_;

  Mutex mutex_;
  TokenBucket bucket_ GUARDED_BY(mutex_);
};

// Streams are not retried below, so a credential that a stream was refused with is renewed here, for the next attempt.
class RenewingTransport final : public net::HttpTransport {
 public:
  RenewingTransport(std::unique_ptr<net::HttpTransport> transport, std::shared_ptr<Credentials> credentials)
      : transport_(std::move(transport)), credentials_(std::move(credentials)) {}

  Result<net::HttpResponse> Send(const net::HttpRequest& request, Deadline deadline, std::stop_token stop) override {
    return transport_->Send(request, deadline, std::move(stop));
  }

  Result<net::HttpResponse> Stream(const net::HttpRequest& request, const net::BodyConsumer& consumer,
                                   Duration idle_timeout, Deadline deadline, std::stop_token stop) override {
    Result<net::HttpResponse> response = transport_->Stream(request, consumer, idle_timeout, deadline, std::move(stop));
    if (response.ok() && response->status == 401) {
      net::Headers unused;
      // The caller sees the 401; what went wrong with the renewal shows at its next attempt.
      credentials_->Authorize(unused, /*was_rejected=*/true).IgnoreError();
    }
    return response;
  }

 private:
  const std::unique_ptr<net::HttpTransport> transport_;
  const std::shared_ptr<Credentials> credentials_;
};

}  // namespace

std::unique_ptr<net::HttpTransport> NewLimitedTransport(std::unique_ptr<net::HttpTransport> transport,
                                                        const RestOptions& options, std::string host,
                                                        MetricsRegistry& metrics, const Clock& clock) {
  return std::make_unique<LimitedTransport>(std::move(transport), options, std::move(host), metrics, clock);
}

Result<std::unique_ptr<net::HttpTransport>> NewApiTransport(const KubeConfig& config, const RestOptions& options,
                                                            MetricsRegistry& metrics, const Clock& clock) {
  ASSIGN_OR_RETURN(const net::Url url, net::ParseUrl(config.server));
  ASSIGN_OR_RETURN(std::shared_ptr<Credentials> credentials, Credentials::Create(config, clock));
  ASSIGN_OR_RETURN(std::unique_ptr<net::HttpTransport> network,
                   net::NewHttpClient(HttpOptionsFor(config, credentials, options.user_agent), clock));
  std::unique_ptr<net::HttpTransport> renewing =
      std::make_unique<RenewingTransport>(std::move(network), std::move(credentials));
  return NewLimitedTransport(std::move(renewing), options, url.HostHeader(), metrics, clock);
}

}  // namespace paceline::kube
