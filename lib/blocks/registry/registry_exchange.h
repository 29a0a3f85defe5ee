// One call to a registry, whatever it takes: mirrors in order and the registry itself last, credentials, redirects,
// rounds with back-off until the deadline. RegistryClient says what to ask; this knows how to get an answer.
//
// Thread-safe; calls run on the calling thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "lib/base/filesystem.h"
#include "lib/base/mutex.h"
#include "lib/blocks/registry/authorizer.h"
#include "lib/blocks/registry/connection_pool.h"
#include "lib/blocks/registry/hosts_file.h"
#include "lib/blocks/registry/http_rules.h"

namespace paceline::blocks {

struct RegistryOptions {
  std::string hosts_root;                         // folder of hosts.toml folders; "" for none
  std::shared_ptr<CredentialSource> credentials;  // null: anonymous
  std::vector<std::string> plain_http;            // registries ("127.0.0.1:5000") that are asked without TLS
  bool skip_verification = false;
  std::vector<std::string> ca_files;  // trusted besides the system's
  std::string proxy_url;              // "http://..."; "" for none
  RetryRules retry;
  Duration connect_limit = std::chrono::seconds(10);
  Duration idle_limit = std::chrono::seconds(30);  // longest silence within an answer
  std::string user_agent = "paceline";
};

struct RegistryCall {
  // Of the hosts: mirrors that may serve content, mirrors that may say what a tag means, or the registry itself alone.
  enum class Use { kPull, kResolve, kUpstream, kPush };

  Use use = Use::kPull;
  std::string registry;    // as in ImageReference
  std::string api_host;    // ImageReference::ApiHost
  std::string repository;  // "" for the API's root
  std::string method = "GET";
  std::string path;  // below /v2/REPOSITORY/: "blobs/sha256:..."
  // An upload's own address instead of `path`, from an earlier answer. At the registry itself.
  std::optional<Address> location;
  net::Headers headers;
  std::function<net::Headers()> more_headers;  // asked for before each attempt; may be null
  std::string_view body;                       // borrowed for the call
  bool is_repeatable = true;
};

// Takes the body of a 2xx answer. In each attempt anew, `begin` runs before the first piece and `finish` (may be null)
// after the last; a failure of any ends the attempt. kUnavailable, kDataLoss and kUnimplemented mean that another host
// may do better; the first two also that another round may.
struct AnswerSink {
  std::function<Status(const net::HttpResponse& head)> begin;
  std::function<Status(std::string_view piece)> take;
  std::function<Status()> finish;
};

// A 2xx answer and who gave it.
struct RegistryAnswer {
  net::HttpResponse response;  // the body is collected when there was no sink, up to 8 MiB
  Address asked;               // of the registry host, before redirects: what a Location is relative to
};

class RegistryExchange {
 public:
  // `files` and `clock` are borrowed. kInvalidArgument for a bad proxy URL.
  static Result<std::unique_ptr<RegistryExchange>> New(RegistryOptions options, const FileSystem& files,
                                                       const Clock& clock);

  // Blocks until a 2xx answer, a failure that stays (kNotFound, kPermissionDenied, ... with the registry's words), the
  // deadline or the stop. `sink` may be null. Secrets (tokens, redirect addresses) are in no message.
  Result<RegistryAnswer> Run(const RegistryCall& call, const AnswerSink* sink, Deadline deadline, std::stop_token stop);

 private:
  using Hosts = std::shared_ptr<const std::vector<RegistryHost>>;
  struct Limits {
    Deadline deadline;
    std::stop_token stop;
  };
  struct KnownHosts {
    Hosts hosts;
    TimePoint read_at;
  };
  struct Redirect {
    Address address;
    TimePoint expires_at;
  };
  // What one round over the hosts came to.
  struct Round {
    std::optional<RegistryAnswer> answer;
    Status failure;
    bool may_repeat = false;
    std::optional<Duration> retry_after;
  };

  RegistryExchange(RegistryOptions options, std::optional<net::Url> proxy, const FileSystem& files, const Clock& clock);

  Result<Hosts> HostsOf(const RegistryCall& call) EXCLUDES(mutex_);
  Round AskAll(const std::vector<RegistryHost>& hosts, const RegistryCall& call, const AnswerSink* sink,
               const Limits& limits);
  Result<RegistryAnswer> AskHost(const RegistryHost& host, const RegistryCall& call, const AnswerSink* sink,
                                 const Limits& limits);
  // Follows redirects from `start`.
  Result<net::HttpResponse> Follow(const RegistryHost& host, const RegistryCall& call, const Address& start,
                                   const std::string& authorization, const AnswerSink* sink, const Limits& limits);
  Result<net::HttpResponse> Exchange(const Address& at, const RegistryHost& host, net::HttpRequest request,
                                     const AnswerSink* sink, const Limits& limits);
  Result<net::HttpResponse> AskTokenService(const net::Url& service, const net::HttpRequest& request, Deadline deadline,
                                            std::stop_token stop);
  Address AddressOf(const RegistryHost& host, const RegistryCall& call) const;
  bool IsResting(const RegistryHost& host) EXCLUDES(mutex_);
  void NoteFailure(const RegistryHost& host, std::optional<Duration> retry_after) EXCLUDES(mutex_);
  void NoteSuccess(const RegistryHost& host) EXCLUDES(mutex_);
  std::optional<Address> KnownRedirect(const std::string& key) EXCLUDES(mutex_);
  void KeepRedirect(const std::string& key, const Address& address) EXCLUDES(mutex_);
  void DropRedirect(const std::string& key) EXCLUDES(mutex_);
  double Random() EXCLUDES(mutex_);

  const RegistryOptions options_;
  const FileSystem& files_;
  const Clock& clock_;
  ConnectionPool pool_;
  Authorizer authorizer_;
  Mutex mutex_;
  RandomSource random_ GUARDED_BY(mutex_);
  std::map<std::string, KnownHosts> hosts_ GUARDED_BY(mutex_);         // by registry
  std::map<std::string, TimePoint> resting_until_ GUARDED_BY(mutex_);  // mirrors that failed, by host
  std::map<std::string, Redirect> redirects_ GUARDED_BY(mutex_);       // of blobs, by host and path
};

}  // namespace paceline::blocks
