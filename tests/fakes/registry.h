// An OCI registry on loopback, plain HTTP, that can be told to misbehave as real ones and the proxies before them do:
// ranges, tokens, redirects, overload, cut bodies, wrong bytes. Content lies in memory. What it does when nothing is
// switched on is held to that of a real registry by tests/registry/registry_contract_test.cc.
//
// Thread-safe; switches count from the next request on.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "lib/net/http.h"
#include "tests/fakes/scripted_peer.h"

namespace paceline::fakes {

struct RegistrySwitches {
  enum class Auth { kNone, kBasic, kBearer };
  Auth auth = Auth::kNone;
  std::string username = "user", password = "secret";
  Duration token_lifetime = std::chrono::seconds(60);  // by the registry's clock; tokens older than that give 401
  bool hides_scope = false;                            // the challenge names none

  bool ignores_range = false;     // 200 and the whole blob
  bool shifts_ranges = false;     // 206 with other bytes than were asked for, truly labelled
  bool mislabels_ranges = false;  // 206 with the right bytes and a Content-Range that does not say so
  bool corrupts_blobs = false;    // one bit of each answer is flipped
  bool corrupts_manifests = false;
  int cuts_left = 0;  // so many blob answers end after `cut_after_bytes` of their body
  size_t cut_after_bytes = 0;
  int failures_left = 0;  // so many requests get `failure_status`
  int failure_status = 503;
  std::string retry_after;       // of those; "" for none
  bool redirects_blobs = false;  // to another port, with a signature that lives `redirect_lifetime`
  Duration redirect_lifetime = std::chrono::minutes(10);
  bool lacks_referrers = false;  // 404 to the referrers API, no OCI-Subject
  bool requires_ns = false;      // answers 400 without ?ns=, as a mirror may
  bool is_read_only = false;
  int upload_cuts_left = 0;  // so many PATCHes take half of their body and then cut the connection
  Duration latency{0};
};

class Registry {
 public:
  struct Request {
    std::string method, target;
    net::Headers headers;
    std::string body;
    bool at_storage = false;  // on the port that redirects lead to
    std::string Path() const { return target.substr(0, target.find('?')); }
  };

  explicit Registry(const Clock& clock);
  ~Registry();

  std::string address() const;  // "127.0.0.1:PORT"
  std::string storage_address() const;

  void Set(const RegistrySwitches& switches) EXCLUDES(mutex_);
  RegistrySwitches switches() const EXCLUDES(mutex_);
  // Every token given so far is worth nothing from now on.
  void RevokeTokens() EXCLUDES(mutex_);

  // Returns the digest.
  std::string AddBlob(std::string bytes) EXCLUDES(mutex_);
  std::string AddManifest(const std::string& repository, const std::string& tag, const std::string& media_type,
                          std::string bytes) EXCLUDES(mutex_);
  bool HasBlob(const std::string& digest) const EXCLUDES(mutex_);
  void RemoveBlob(const std::string& digest) EXCLUDES(mutex_);

  // All so far, also those that failed.
  std::vector<Request> requests() const EXCLUDES(mutex_);
  size_t CountRequests(std::string_view method, std::string_view path_prefix) const EXCLUDES(mutex_);
  void ForgetRequests() EXCLUDES(mutex_);

 private:
  struct Answer {
    int status = 200;
    net::Headers headers;
    std::string body;
    std::string cut_at = "";  // not empty: only so much of the answer is sent ("head", or a number of body bytes)
  };
  struct Manifest {
    std::string media_type, bytes;
  };

  void Serve(ScriptedPeer::Link& link, bool at_storage);
  Answer Handle(const Request& request) EXCLUDES(mutex_);
  Answer HandleLocked(const Request& request) REQUIRES(mutex_);
  Answer Storage(const Request& request) REQUIRES(mutex_);
  Answer GiveToken(const Request& request) REQUIRES(mutex_);
  bool IsAllowed(const Request& request) const REQUIRES(mutex_);
  Answer Unauthorized(const std::string& repository, bool writes) const REQUIRES(mutex_);
  Answer Blob(const Request& request, const std::string& digest) REQUIRES(mutex_);
  Answer BlobBytes(const Request& request, const std::string& bytes) REQUIRES(mutex_);
  Answer ManifestCall(const Request& request, const std::string& repository, const std::string& selector)
      REQUIRES(mutex_);
  Answer PutManifest(const Request& request, const std::string& repository, const std::string& selector)
      REQUIRES(mutex_);
  Answer Upload(const Request& request, const std::string& repository, const std::string& id) REQUIRES(mutex_);
  Answer Referrers(const Request& request, const std::string& repository, const std::string& digest) REQUIRES(mutex_);

  const Clock& clock_;
  mutable Mutex mutex_;
  RegistrySwitches switches_ GUARDED_BY(mutex_);
  std::map<std::string, std::string> blobs_ GUARDED_BY(mutex_);
  std::map<std::string, Manifest> manifests_ GUARDED_BY(mutex_);  // "repository@digest"
  std::map<std::string, std::string> tags_ GUARDED_BY(mutex_);    // "repository:tag" to digest
  std::map<std::string, std::string> uploads_ GUARDED_BY(mutex_);
  std::map<std::string, TimePoint> tokens_ GUARDED_BY(mutex_);  // and when they end
  int next_id_ GUARDED_BY(mutex_) = 1;
  std::vector<Request> requests_ GUARDED_BY(mutex_);
  std::unique_ptr<ScriptedPeer> storage_;  // its thread uses all above
  std::unique_ptr<ScriptedPeer> api_;
};

}  // namespace paceline::fakes
