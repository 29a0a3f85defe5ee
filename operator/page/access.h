// Who may see what on the job page: the API server is asked, by TokenReview who a bearer token is, and by
// SubjectAccessReview whether that user may read the objects that are shown. Nobody sees more than kubectl would show
// them. Answers are kept for a short time, so that a page that refreshes does not ask each time. Thread-safe.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "lib/base/result.h"
#include "lib/net/http.h"

namespace paceline::operator_ {

struct PageUser {
  std::string name;
  std::string uid;
  std::vector<std::string> groups;

  friend bool operator==(const PageUser&, const PageUser&) = default;
};

// What somebody wants to read.
struct PageRequest {
  std::string group;     // "" for the core group
  std::string resource;  // "trainingruns"
  std::string verb;      // "list"
  std::string ns;        // empty: in all namespaces, or cluster-scoped
};

class PageAccess {
 public:
  // Both must outlive the object. An answer is trusted for `keep`.
  PageAccess(net::HttpTransport& transport, const Clock& clock, Duration keep = std::chrono::seconds(30))
      : transport_(transport), clock_(clock), keep_(keep) {}

  // The user behind an "Authorization: Bearer ..." header. kPermissionDenied when there is none or the token is not
  // good, kUnavailable and the like when the API server cannot say. Blocks until `deadline`.
  Result<PageUser> UserOf(std::string_view authorization, Deadline deadline) EXCLUDES(mutex_);

  // Ok when the user may; kPermissionDenied with the API server's reason when not. Blocks until `deadline`.
  Status Check(const PageUser& user, const PageRequest& request, Deadline deadline) EXCLUDES(mutex_);

 private:
  template <typename Answer>
  struct Kept {
    Answer answer;
    TimePoint until;
  };
  Result<std::string> Ask(const char* path, std::string body, Deadline deadline);

  net::HttpTransport& transport_;
  const Clock& clock_;
  const Duration keep_;
  Mutex mutex_;
  std::map<std::string, Kept<PageUser>> users_ GUARDED_BY(mutex_);  // by token
  std::map<std::string, Kept<Status>> checks_ GUARDED_BY(mutex_);
};

}  // namespace paceline::operator_
