#include "lib/kube/webhook.h"

#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "lib/base/base64.h"
#include "lib/base/json.h"
#include "lib/base/utf8.h"
#include "lib/kube/json_fields.h"

namespace paceline::kube {
namespace {

constexpr int kMaxDepth = 100;
constexpr size_t kMaxWarningCharacters = 120;
constexpr std::string_view kReviewVersion = "admission.k8s.io/v1";

std::string CutWarning(const std::string& warning) {
  const std::string valid = ReplaceInvalidUtf8(warning);
  size_t end = 0;
  for (size_t count = 0; end < valid.size() && count < kMaxWarningCharacters; ++count) {
    end += Utf8SequenceLength(std::string_view(valid).substr(end));
  }
  return valid.substr(0, end);
}

class Webhook {
 public:
  Webhook(const std::string& name, AdmissionHandler handler, const Clock& clock, Logger& log, MetricsRegistry& registry)
      : name_(name),
        handler_(std::move(handler)),
        clock_(clock),
        log_(log),
        requests_(registry.CounterFamily(
            {"controller_runtime_webhook_requests_total", "Admission requests by HTTP status", {"webhook", "code"}})),
        in_flight_(
            registry
                .GaugeFamily(
                    {"controller_runtime_webhook_requests_in_flight", "Admission requests being served", {"webhook"}})
                .With({name})),
        seconds_(
            registry
                .HistogramFamily(
                    {"controller_runtime_webhook_latency_seconds", "Time to answer an admission request", {"webhook"}},
                    {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10})
                .With({name})) {
    for (const char* code : {"200", "400", "500"}) requests_.With({name, code});
  }

  net::ServerResponse Serve(const net::ServerRequest& request, Deadline deadline) {
    const TimePoint started = clock_.Now();
    in_flight_.Add(1);
    net::ServerResponse response = Answer(request, deadline);
    in_flight_.Add(-1);
    seconds_.Observe(ToSeconds(clock_.Now() - started));
    requests_.With({name_, std::to_string(response.status)}).Add();
    return response;
  }

 private:
  net::ServerResponse Answer(const net::ServerRequest& request, Deadline deadline) {
    if (request.method != "POST") return Refuse(405, "only POST is served here");
    Result<AdmissionRequest> admission = DecodeAdmissionReview(request.body);
    if (!admission.ok()) return Refuse(400, admission.status().message());
    Result<AdmissionResponse> decision = Decide(*admission, deadline);
    if (!decision.ok()) {
      log_.Error(
          "admission failed, pod goes unchanged where the policy is Ignore",
          {{"webhook", name_}, {"namespace", admission->ns}, {"name", admission->name}, {"error", decision.status()}});
      return Refuse(500, decision.status().ToString());
    }
    net::ServerResponse response;
    response.content_type = "application/json";
    response.body = EncodeAdmissionReview(admission->uid, *decision);
    return response;
  }

  // Handlers walk JSON that a stranger wrote; nlohmann throws on a type that they did not expect.
  Result<AdmissionResponse> Decide(const AdmissionRequest& admission, Deadline deadline) const {
    try {
      return handler_(admission, deadline);
    } catch (const std::exception& e) {
      return InternalError(std::string("admission handler: ") + e.what());
    }
  }

  static net::ServerResponse Refuse(int status, const std::string& why) {
    net::ServerResponse response;
    response.status = status;
    response.body = ReplaceInvalidUtf8(why) + "\n";
    return response;
  }

  const std::string name_;
  const AdmissionHandler handler_;
  const Clock& clock_;
  Logger& log_;
  MetricFamily<Counter>& requests_;
  Gauge& in_flight_;
  Histogram& seconds_;
};

}  // namespace

Result<AdmissionRequest> DecodeAdmissionReview(std::string_view body) {
  Result<Json> parsed = ParseJson(body, kMaxDepth);
  if (!parsed.ok()) return parsed.status().Annotate("admission review");
  const Json& review = *parsed;
  if (StringField(review, "apiVersion") != kReviewVersion || StringField(review, "kind") != "AdmissionReview") {
    return InvalidArgumentError("admission review: not an AdmissionReview of " + std::string(kReviewVersion));
  }
  const Json* request = ObjectField(review, "request");
  if (request == nullptr) return InvalidArgumentError("admission review: no request");
  AdmissionRequest admission;
  admission.uid = StringField(*request, "uid");
  if (admission.uid.empty()) return InvalidArgumentError("admission review: request without uid");
  if (const Json* kind = ObjectField(*request, "kind"); kind != nullptr) {
    admission.group = StringField(*kind, "group");
    admission.version = StringField(*kind, "version");
    admission.kind = StringField(*kind, "kind");
  }
  admission.operation = StringField(*request, "operation");
  admission.ns = StringField(*request, "namespace");
  admission.name = StringField(*request, "name");
  if (const Json* user = ObjectField(*request, "userInfo"); user != nullptr) {
    admission.username = StringField(*user, "username");
  }
  admission.is_dry_run = BoolField(*request, "dryRun");
  const Json* object = ObjectField(*request, "object");
  if (object == nullptr && admission.operation != "DELETE") {
    return InvalidArgumentError("admission review: request without object");
  }
  admission.object = std::make_shared<const Json>(object != nullptr ? *object : Json(nullptr));
  return admission;
}

std::string EncodeAdmissionReview(const std::string& uid, const AdmissionResponse& response) {
  Json answer = {{"uid", uid}, {"allowed", response.is_allowed}};
  if (!response.message.empty()) answer["status"] = {{"message", response.message}};
  if (response.is_allowed && response.patch != nullptr && response.patch->is_array() && !response.patch->empty()) {
    answer["patchType"] = "JSONPatch";
    answer["patch"] = EncodeBase64(DumpJson(*response.patch));
  }
  for (const std::string& warning : response.warnings) answer["warnings"].push_back(CutWarning(warning));
  return DumpJson({{"apiVersion", kReviewVersion}, {"kind", "AdmissionReview"}, {"response", answer}});
}

net::Handler NewAdmissionHandler(const std::string& name, AdmissionHandler handler, const Clock& clock, Logger& log,
                                 MetricsRegistry& metrics) {
  auto webhook = std::make_shared<Webhook>(name, std::move(handler), clock, log, metrics);
  return [webhook](const net::ServerRequest& request, Deadline deadline) { return webhook->Serve(request, deadline); };
}

}  // namespace paceline::kube
