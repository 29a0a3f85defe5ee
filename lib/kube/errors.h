// The API server's errors: the one mapping from an HTTP status and its Kubernetes Status body to our Status.
//   kNotFound 404 · kAlreadyExists 409 AlreadyExists · kAborted 409 Conflict, 410 Gone/Expired · kInvalidArgument 400,
//   405, 413, 415, 422 · kPermissionDenied 401, 403 · kUnavailable 429, 500, 502, 503 · kDeadlineExceeded 504, 408
// Pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"
#include "lib/net/http.h"

namespace paceline::kube {

// metav1.Status, as far as we act on it.
struct ApiStatus {
  struct Cause {
    std::string reason;
    std::string message;
    std::string field;
  };
  int code = 0;
  std::string reason;  // "Conflict", "AlreadyExists", "Expired", "Invalid", ...
  std::string message;
  std::vector<Cause> causes;
  int retry_after_seconds = 0;
  std::string continue_token;  // a 410 on a page of a list: where an inconsistent list may go on
};

// Reads a Status body; a body that is none (a proxy's HTML, nothing at all) gives code and the body's beginning.
ApiStatus ParseApiStatus(int http_status, std::string_view body);
// The same for a Status in protobuf (the ERROR event of a watch), without the envelope.
ApiStatus ParseApiStatusProtobuf(std::string_view message);

// "what: server's message (field: cause; ...)". `what` names verb and object: "create pods default/a".
Status ToStatus(const ApiStatus& api_status, std::string_view what);
// Ok for 2xx.
Status ToStatus(const net::HttpResponse& response, std::string_view what);

// 410, or the reasons Gone and Expired: the resource version or page token is too old.
bool IsExpired(const ApiStatus& api_status);
// The server does not have this resource version yet: list without one.
bool IsResourceVersionTooLarge(const ApiStatus& api_status);

}  // namespace paceline::kube
