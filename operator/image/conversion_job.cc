#include "operator/image/conversion_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/api/names.h"
#include "lib/base/json.h"
#include "lib/blocks/registry/image_reference.h"
#include "lib/kube/apply.h"
#include "operator/names.h"
#include "operator/resources.h"
#include "operator/training_run/explain.h"

namespace paceline::operator_ {
namespace {

constexpr int64_t kReportVersion = 1;
constexpr size_t kMaxReportBytes = 4096;
constexpr size_t kMaxDetailBytes = 600;
// Where kubelet takes a container's last words from.
constexpr std::string_view kReportFile = "/dev/termination-log";
// For Jobs whose operator never came back.
constexpr int64_t kForgetSeconds = 24 * 3600;

StatusCode CodeOf(std::string_view name) {
  for (const StatusCode code :
       {StatusCode::kInvalidArgument, StatusCode::kNotFound, StatusCode::kAlreadyExists, StatusCode::kPermissionDenied,
        StatusCode::kAborted, StatusCode::kUnavailable, StatusCode::kDeadlineExceeded, StatusCode::kCancelled,
        StatusCode::kResourceExhausted, StatusCode::kDataLoss, StatusCode::kUnimplemented}) {
    if (name == StatusCodeName(code)) return code;
  }
  return StatusCode::kInternal;
}

std::vector<std::string> Arguments(const api::ImageProfileSpec& spec, const ConversionJobSettings& settings) {
  std::vector<std::string> arguments = {"image",
                                        "convert",
                                        "docker://" + spec.image + "@" + spec.digest,
                                        "--store",
                                        settings.store,
                                        "--report",
                                        std::string(kReportFile)};
  if (!spec.platform.empty()) arguments.insert(arguments.end(), {"--platform", spec.platform});
  return arguments;
}

Json PodTemplate(const api::ImageProfile& profile, const ConversionJobSettings& settings) {
  Json pod = *settings.pod_template;
  pod["metadata"]["labels"][std::string(kConversionLabel)] = "true";
  Json& spec = pod["spec"];
  spec["restartPolicy"] = "Never";
  Json& container = spec["containers"][0];
  Json arguments = Arguments(profile.spec, settings);
  if (const Json* own = FindJson(container, "args"); own != nullptr && own->is_array()) {
    for (const Json& argument : *own) arguments.push_back(argument);
  }
  container["args"] = std::move(arguments);
  container["terminationMessagePath"] = kReportFile;
  container["terminationMessagePolicy"] = "FallbackToLogsOnError";
  return pod;
}

bool IsTrue(const std::vector<kube::Condition>& conditions, std::string_view type) {
  return kube::IsConditionTrue(conditions, type);
}

// The last words of the pod's first container.
void ReadLastWords(const kube::PodView& pod, ConversionJobFacts* facts) {
  if (pod.status.containers.empty() || !pod.status.containers.front().state.terminated) return;
  const kube::ContainerTerminated& ended = *pod.status.containers.front().state.terminated;
  const Result<ConversionReport> report = ParseConversionReport(ended.message);
  if (report.ok()) {
    facts->report = *report;
    return;
  }
  if (ended.exit_code == 0) return;
  facts->failure = ended.reason.str();
  facts->failure_detail = ended.message.empty() ? fmt::format("the converter ended with exit code {} ({})",
                                                              ended.exit_code, ended.reason.view())
                                                : std::string(ended.message.view().substr(0, kMaxDetailBytes));
}

}  // namespace

Result<std::shared_ptr<const Json>> ParseConversionTemplate(std::string_view text) {
  ASSIGN_OR_RETURN(Json pod, ParseJson(text));
  const Json* container = FindJson(pod, "spec.containers.0");
  if (container == nullptr || !container->is_object()) {
    return InvalidArgumentError("the pod template has no container: {\"spec\": {\"containers\": [{...}]}}");
  }
  const Json* metadata = FindJson(pod, "metadata");
  const Json* labels = FindJson(pod, "metadata.labels");
  const bool is_odd = (metadata != nullptr && !metadata->is_object()) || (labels != nullptr && !labels->is_object());
  if (is_odd) return InvalidArgumentError("the pod template's metadata or labels are no objects");
  return std::make_shared<const Json>(std::move(pod));
}

Json ConversionJobManifest(const api::ImageProfile& profile, const ConversionJobSettings& settings) {
  const Json labels = {{std::string(kConversionLabel), "true"}, {std::string(kManagedByLabel), kManagedByValue}};
  // Not blockOwnerDeletion: that needs rights on the finalizers of profiles.
  const Json owner = {{"apiVersion", api::kApiVersion},
                      {"kind", api::kImageProfileKind.kind},
                      {"name", profile.metadata.name},
                      {"uid", profile.metadata.uid},
                      {"controller", true}};
  return {{"apiVersion", "batch/v1"},
          {"kind", "Job"},
          {"metadata",
           {{"name", ConversionJobName(profile.metadata.name)},
            {"namespace", settings.ns},
            {"labels", labels},
            {"ownerReferences", Json::array({owner})}}},
          {"spec",
           {// The operator tries again, later each time, and tells why.
            {"backoffLimit", 0},
            {"activeDeadlineSeconds", std::chrono::duration_cast<std::chrono::seconds>(settings.time_limit).count()},
            {"ttlSecondsAfterFinished", kForgetSeconds},
            {"template", PodTemplate(profile, settings)}}}};
}

ConversionJobFacts ReadConversionJob(const Json& job, const Json* pod, const api::ImageProfile& profile) {
  ConversionJobFacts facts;
  const Result<kube::JobView> view = kube::ViewFromJson<kube::JobView>(job);
  if (!view.ok()) return facts;  // which the server never sends: it counts as running
  facts.uid = view->meta.uid.str();
  const kube::OwnerReference* owner = view->meta.Controller();
  facts.is_ours = owner != nullptr && owner->uid == profile.metadata.uid;
  facts.is_being_deleted = kube::IsBeingDeleted(job);
  if (IsTrue(view->status.conditions, "Complete")) facts.end = ConversionJobEnd::kSucceeded;
  const kube::Condition* failed = kube::FindCondition(view->status.conditions, "Failed");
  if (failed != nullptr && failed->status == "True") {
    facts.end = ConversionJobEnd::kFailed;
    facts.failure = failed->reason.str();
    facts.failure_detail = failed->message.str();
  }
  if (pod == nullptr) return facts;
  const Result<kube::PodView> pod_view = kube::ViewFromJson<kube::PodView>(*pod);
  if (!pod_view.ok()) return facts;
  if (facts.end == ConversionJobEnd::kNone) {
    if (const auto why = WhyNotStarted(*pod_view, {})) facts.waiting = why->message;
  } else if (facts.failure != "DeadlineExceeded") {
    ReadLastWords(*pod_view, &facts);
  }
  return facts;
}

Result<ConversionReport> ParseConversionReport(std::string_view text) {
  const auto none = [](const std::string& why) { return DataLossError("no conversion report: " + why); };
  if (text.size() > kMaxReportBytes) return none("too long");
  const Result<Json> json = ParseJson(text);
  if (!json.ok() || !json->is_object()) return none("no JSON object");
  if (JsonIntOr(*json, "version", 0).value_or(0) != kReportVersion) return none("of another version");
  ConversionReport report;
  if (const Json* error = FindJson(*json, "error"); error != nullptr) {
    const std::string code = JsonStringOr(*json, "error.code", "").value_or("");
    report.error = Status(CodeOf(code), JsonStringOr(*json, "error.message", "").value_or(""));
    return report;
  }
  report.image = JsonStringOr(*json, "image", "").value_or("");
  report.source = JsonStringOr(*json, "source", "").value_or("");
  if (!blocks::IsSha256Digest(report.image) || !blocks::IsSha256Digest(report.source)) return none("without digests");
  report.source_bytes = std::max<int64_t>(JsonIntOr(*json, "sourceBytes", 0).value_or(0), 0);
  report.stored_bytes = std::max<int64_t>(JsonIntOr(*json, "storedBytes", 0).value_or(0), 0);
  report.seconds = JsonDoubleOr(*json, "seconds", 0).value_or(0);
  return report;
}

}  // namespace paceline::operator_
