#include "lib/blocks/registry/registry_exchange.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/net/retry.h"

namespace paceline::blocks {
namespace {

constexpr size_t kMaxCollectedBytes = 8 << 20;  // manifests may have 4 MiB
constexpr size_t kMaxFailureBytes = 64 << 10;
constexpr int kMaxHops = 5;
constexpr std::chrono::seconds kHostsLifetime{30};
constexpr std::chrono::seconds kMirrorRest{10};
// Signed addresses live for minutes to an hour.
constexpr std::chrono::seconds kRedirectLifetime{300};
constexpr size_t kManyRedirects = 4096;

std::string HostKey(const RegistryHost& host) {
  return (host.url.is_https ? "https://" : "http://") + host.url.HostHeader() + host.url.path;
}

bool MayUse(const RegistryHost& host, RegistryCall::Use use) {
  if (host.is_upstream) return true;
  return (use == RegistryCall::Use::kPull && host.can_pull) || (use == RegistryCall::Use::kResolve && host.can_resolve);
}

// Another host, or the same one later, cannot change these.
bool EndsTheCall(StatusCode code) {
  return code == StatusCode::kCancelled || code == StatusCode::kDeadlineExceeded ||
         code == StatusCode::kResourceExhausted || code == StatusCode::kAborted;
}

std::string Subject(const RegistryHost& host, const RegistryCall& call) {
  const std::string path = call.location ? "(upload)" : call.path;
  return fmt::format("{} {}/{}/{}", call.method, host.url.HostHeader(), call.repository,
                     path.substr(0, path.find('?')));
}

TlsFiles TlsOf(const RegistryHost& host) { return {host.skip_verification, host.ca_files, host.client_files}; }

}  // namespace

RegistryExchange::RegistryExchange(RegistryOptions options, std::optional<net::Url> proxy, const FileSystem& files,
                                   const Clock& clock)
    : options_(std::move(options)),
      files_(files),
      clock_(clock),
      pool_(std::move(proxy), clock),
      authorizer_(
          options_.credentials,
          [this](const net::Url& service, const net::HttpRequest& request, Deadline deadline, std::stop_token stop) {
            return AskTokenService(service, request, deadline, std::move(stop));
          },
          clock),
      random_(MakeRandomSource()) {}

Result<std::unique_ptr<RegistryExchange>> RegistryExchange::New(RegistryOptions options, const FileSystem& files,
                                                                const Clock& clock) {
  std::optional<net::Url> proxy;
  if (!options.proxy_url.empty()) {
    ASSIGN_OR_RETURN(proxy, net::ParseUrl(options.proxy_url));
  }
  return std::unique_ptr<RegistryExchange>(new RegistryExchange(std::move(options), std::move(proxy), files, clock));
}

double RegistryExchange::Random() {
  MutexLock lock(mutex_);
  return random_();
}

Result<RegistryExchange::Hosts> RegistryExchange::HostsOf(const RegistryCall& call) {
  {
    MutexLock lock(mutex_);
    const auto found = hosts_.find(call.registry);
    if (found != hosts_.end() && clock_.Now() - found->second.read_at < kHostsLifetime) return found->second.hosts;
  }
  const auto& plain = options_.plain_http;
  HostDefaults defaults;
  defaults.is_plain_http = std::find(plain.begin(), plain.end(), call.registry) != plain.end();
  defaults.skip_verification = options_.skip_verification;
  defaults.ca_files = options_.ca_files;
  ASSIGN_OR_RETURN(std::vector<RegistryHost> loaded,
                   LoadHosts(files_, options_.hosts_root, call.registry, call.api_host, defaults));
  Hosts hosts = std::make_shared<const std::vector<RegistryHost>>(std::move(loaded));
  MutexLock lock(mutex_);
  hosts_[call.registry] = {hosts, clock_.Now()};
  return hosts;
}

bool RegistryExchange::IsResting(const RegistryHost& host) {
  MutexLock lock(mutex_);
  const auto found = resting_until_.find(HostKey(host));
  return found != resting_until_.end() && clock_.Now() < found->second;
}

void RegistryExchange::NoteFailure(const RegistryHost& host, std::optional<Duration> retry_after) {
  if (host.is_upstream) return;  // there is nobody to ask instead
  const Duration rest = std::min(std::max<Duration>(kMirrorRest, retry_after.value_or(Duration::zero())),
                                 std::max<Duration>(kMirrorRest, options_.retry.max_retry_after));
  MutexLock lock(mutex_);
  resting_until_[HostKey(host)] = clock_.Now() + rest;
}

void RegistryExchange::NoteSuccess(const RegistryHost& host) {
  if (host.is_upstream) return;
  MutexLock lock(mutex_);
  resting_until_.erase(HostKey(host));
}

std::optional<Address> RegistryExchange::KnownRedirect(const std::string& key) {
  MutexLock lock(mutex_);
  const auto found = redirects_.find(key);
  if (found == redirects_.end() || clock_.Now() >= found->second.expires_at) return std::nullopt;
  return found->second.address;
}

void RegistryExchange::KeepRedirect(const std::string& key, const Address& address) {
  MutexLock lock(mutex_);
  if (redirects_.size() >= kManyRedirects) redirects_.clear();
  redirects_[key] = {address, clock_.Now() + kRedirectLifetime};
}

void RegistryExchange::DropRedirect(const std::string& key) {
  MutexLock lock(mutex_);
  redirects_.erase(key);
}

Address RegistryExchange::AddressOf(const RegistryHost& host, const RegistryCall& call) const {
  if (call.location) return *call.location;
  Address address;
  address.url = host.url;
  address.url.path.clear();
  address.target = host.url.path + "/";
  if (!call.repository.empty()) address.target += call.repository + "/";
  address.target += call.path;
  if (!host.is_upstream) {
    address.target += (call.path.find('?') == std::string::npos ? "?ns=" : "&ns=") + net::UrlEncode(call.registry);
  }
  return address;
}

Result<net::HttpResponse> RegistryExchange::Exchange(const Address& at, const RegistryHost& host,
                                                     net::HttpRequest request, const AnswerSink* sink,
                                                     const Limits& limits) {
  request.headers.emplace("User-Agent", options_.user_agent);
  // Ranges and digests are of the bytes as stored.
  request.headers.emplace("Accept-Encoding", "identity");
  request.target = at.target;
  bool has_begun = false;
  std::string collected;
  const auto consume = [&](const net::HttpResponse& head, std::string_view piece) -> Status {
    const bool is_ok = head.status >= 200 && head.status < 300;
    if (is_ok && sink != nullptr) {
      if (!has_begun) RETURN_IF_ERROR(sink->begin(head));
      has_begun = true;
      return sink->take(piece);
    }
    const size_t limit = is_ok ? kMaxCollectedBytes : kMaxFailureBytes;
    if (collected.size() + piece.size() > limit) {
      return is_ok ? ResourceExhaustedError(fmt::format("the answer is over {} bytes", limit))
                   : UnavailableError(fmt::format("HTTP status {} with a body over {} bytes", head.status, limit));
    }
    collected += piece;
    return Status();
  };
  const Duration connect = host.dial_timeout > Duration::zero() ? host.dial_timeout : options_.connect_limit;
  const std::shared_ptr<net::DirectClient> client = pool_.For(at.url, TlsOf(host));
  net::Exposure exposure;
  ASSIGN_OR_RETURN(
      net::HttpResponse response,
      client->Exchange(request, consume, {connect, options_.idle_limit, limits.deadline, limits.stop}, &exposure));
  const bool is_ok = response.status >= 200 && response.status < 300;
  if (is_ok && sink != nullptr) {
    if (!has_begun) RETURN_IF_ERROR(sink->begin(response));
    if (sink->finish != nullptr) RETURN_IF_ERROR(sink->finish());
  }
  response.body = std::move(collected);
  return response;
}

Result<net::HttpResponse> RegistryExchange::AskTokenService(const net::Url& service, const net::HttpRequest& request,
                                                            Deadline deadline, std::stop_token stop) {
  RegistryHost host;
  host.url = service;
  host.skip_verification = options_.skip_verification;
  host.ca_files = options_.ca_files;
  return Exchange({service, request.target}, host, request, nullptr, {deadline, std::move(stop)});
}

Result<net::HttpResponse> RegistryExchange::Follow(const RegistryHost& host, const RegistryCall& call,
                                                   const Address& start, const std::string& authorization,
                                                   const AnswerSink* sink, const Limits& limits) {
  net::HttpRequest request;
  request.method = call.method;
  request.headers = call.headers;
  request.body = call.body;
  // The storage behind a registry is not the registry: neither its credentials nor its headers nor its client
  // certificate are for it.
  RegistryHost elsewhere;
  elsewhere.skip_verification = host.skip_verification;
  elsewhere.ca_files = host.ca_files;
  elsewhere.dial_timeout = host.dial_timeout;
  Address at = start;
  for (int hop = 0; hop <= kMaxHops; ++hop) {
    const bool is_home = at.IsSameOrigin(host.url);
    net::HttpRequest attempt = request;
    if (call.more_headers != nullptr) {
      for (const auto& [name, value] : call.more_headers()) attempt.headers[name] = value;
    }
    if (is_home) {
      for (const auto& [name, value] : host.headers) attempt.headers.emplace(name, value);
      if (!authorization.empty()) attempt.headers["Authorization"] = authorization;
    }
    ASSIGN_OR_RETURN(net::HttpResponse response,
                     Exchange(at, is_home ? host : elsewhere, std::move(attempt), sink, limits));
    const bool may_follow = call.method == "GET" || call.method == "HEAD";
    if (!IsRedirect(response.status) || !may_follow) return response;
    ASSIGN_OR_RETURN(at, ResolveLocation(at.url, at.target, response.Header("Location")));
    const bool is_blob = call.path.starts_with("blobs/") && call.method == "GET";
    if (is_blob) KeepRedirect(HostKey(host) + "/" + call.repository + "/" + call.path, at);
  }
  return UnavailableError(fmt::format("more than {} redirects", kMaxHops));
}

Result<RegistryAnswer> RegistryExchange::AskHost(const RegistryHost& host, const RegistryCall& call,
                                                 const AnswerSink* sink, const Limits& limits) {
  const Address home = AddressOf(host, call);
  const std::string redirect_key = HostKey(host) + "/" + call.repository + "/" + call.path;
  if (const std::optional<Address> known = KnownRedirect(redirect_key); known && call.method == "GET") {
    Result<net::HttpResponse> response = Follow(host, call, *known, "", sink, limits);
    const bool is_good = response.ok() && response->status >= 200 && response->status < 300;
    if (is_good) return RegistryAnswer{*std::move(response), home};
    if (!response.ok() && EndsTheCall(response.status().code())) return response.status();
    DropRedirect(redirect_key);  // expired, most likely
  }
  // Only the registry itself gets its credentials; a mirror has its own, under its own name.
  const AuthSubject subject = {host.url, host.is_upstream ? call.registry : host.url.HostHeader(), call.repository,
                               call.use == RegistryCall::Use::kPush ? "pull,push" : "pull"};
  ASSIGN_OR_RETURN(std::string authorization, authorizer_.UpFront(subject, limits.deadline, limits.stop));
  for (bool was_renewed = false;;) {
    ASSIGN_OR_RETURN(net::HttpResponse response, Follow(host, call, home, authorization, sink, limits));
    if (response.status != 401 || was_renewed) return RegistryAnswer{std::move(response), home};
    was_renewed = !authorization.empty();
    ASSIGN_OR_RETURN(std::string next, authorizer_.Answer(subject, response.Header("WWW-Authenticate"), authorization,
                                                          limits.deadline, limits.stop));
    if (next.empty()) return RegistryAnswer{std::move(response), home};
    authorization = std::move(next);
  }
}

RegistryExchange::Round RegistryExchange::AskAll(const std::vector<RegistryHost>& hosts, const RegistryCall& call,
                                                 const AnswerSink* sink, const Limits& limits) {
  Round round;
  for (const RegistryHost& host : hosts) {
    if (!MayUse(host, call.use) || (!host.is_upstream && IsResting(host))) continue;
    Result<RegistryAnswer> answer = AskHost(host, call, sink, limits);
    if (answer.ok() && answer->response.status >= 200 && answer->response.status < 300) {
      NoteSuccess(host);
      round.answer = *std::move(answer);
      return round;
    }
    const std::string subject = Subject(host, call);
    round.retry_after.reset();
    if (answer.ok()) {
      const net::HttpResponse& response = answer->response;
      round.failure = RegistryFailure(response, subject);
      round.may_repeat = IsRetryableStatus(response.status);
      round.retry_after = net::ParseRetryAfter(response.Header("Retry-After"), clock_.WallNow());
    } else {
      round.failure = answer.status().Annotate(subject);
      const StatusCode code = answer.status().code();
      round.may_repeat = code == StatusCode::kUnavailable || code == StatusCode::kDataLoss;
      if (EndsTheCall(code)) return round;
    }
    if (round.may_repeat) NoteFailure(host, round.retry_after);
  }
  return round;
}

Result<RegistryAnswer> RegistryExchange::Run(const RegistryCall& call, const AnswerSink* sink, Deadline deadline,
                                             std::stop_token stop) {
  ASSIGN_OR_RETURN(const Hosts hosts, HostsOf(call));
  for (int rounds_made = 1;; ++rounds_made) {
    Round round = AskAll(*hosts, call, sink, {deadline, stop});
    if (round.answer) return *std::move(round.answer);
    if (!round.may_repeat || !call.is_repeatable) return round.failure;
    const std::optional<Duration> wait = NextRound(options_.retry, rounds_made, round.retry_after, Random());
    if (!wait || *wait >= deadline.Remaining(clock_)) return round.failure;
    if (!clock_.SleepFor(*wait, stop)) return CancelledError("stopped while waiting to ask again");
  }
}

}  // namespace paceline::blocks
