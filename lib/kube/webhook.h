// The server side of a Kubernetes admission webhook (AdmissionReview v1): decodes, calls a handler that is a pure
// function, encodes. It cannot lock a cluster out: a malformed review is 400, a handler that fails is 500, both of
// which the failure policy of the configuration (ours: Ignore) turns into "admitted unchanged".
//
// Serve it by net::HttpServer; NewAdmissionHandler gives the route's handler. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/log.h"
#include "lib/base/metrics.h"
#include "lib/kube/client.h"
#include "lib/net/http_server.h"

namespace paceline::kube {

struct AdmissionRequest {
  std::string uid;
  std::string group, version, kind;  // of the object
  std::string operation;             // CREATE, UPDATE, ...
  std::string ns;                    // authoritative; the object's own may be empty
  std::string name;                  // empty with generateName
  std::string username;
  bool is_dry_run = false;             // no side effect is allowed
  std::shared_ptr<const Json> object;  // never null; an object for all operations but DELETE
};

struct AdmissionResponse {
  bool is_allowed = true;
  std::string message;                // why not, or empty
  std::shared_ptr<const Json> patch;  // JSON patch operations; null or empty array: unchanged
  std::vector<std::string> warnings;  // shown by kubectl; each cut to 120 characters
};

// Decides from the request alone, within `deadline`. A Status becomes a 500 answer.
using AdmissionHandler = std::function<Result<AdmissionResponse>(const AdmissionRequest& request, Deadline deadline)>;

// kInvalidArgument for anything that is not an AdmissionReview v1 with a request, is not valid UTF-8, or nests deeper
// than 100.
Result<AdmissionRequest> DecodeAdmissionReview(std::string_view body);
// The AdmissionReview that answers `uid`.
std::string EncodeAdmissionReview(const std::string& uid, const AdmissionResponse& response);

// The HTTP handler for one webhook. `name` is the label of the metrics controller_runtime_webhook_requests_total,
// _requests_in_flight and _latency_seconds (convention: the path). `clock`, `log` and `metrics` must outlive the
// result.
net::Handler NewAdmissionHandler(const std::string& name, AdmissionHandler handler, const Clock& clock, Logger& log,
                                 MetricsRegistry& metrics);

}  // namespace paceline::kube
