#include "lib/api/annotations.h"

#include <algorithm>
#include <set>

#include "lib/api/codec.h"
#include "lib/api/field_checker.h"
#include "lib/api/field_reader.h"
#include "lib/api/job_settings_fields.h"
#include "lib/api/names.h"
#include "lib/base/utf8.h"

namespace paceline::api {

namespace {

// Together with the API server's own limit for all annotations of an object.
constexpr size_t kMaxAnnotationBytes = 256 * 1024;

constexpr std::string_view kSystemNames[] = {kJobKindLabel, kJobNameLabel, kJobUidLabel,       kGenerationLabel,
                                             kRankLabel,    kRunLabel,     kInjectedAnnotation};

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// One annotation at a time: reads its value and adds what is wrong with it.
class AnnotationReader {
 public:
  AnnotationReader(std::string name, std::string_view value) : name_(std::move(name)), value_(Trim(value)) {}

  bool Read(bool& out) {
    if (value_ == "true" || value_ == "false") {
      out = value_ == "true";
    } else {
      Fail("must be \"true\" or \"false\"");
    }
    return errors_.empty();
  }

  // Reads into `field` of a fresh T, checks that T, and hands it to `use` when all is well.
  template <typename T, typename M, typename Use>
  void ReadField(M T::*field, const FieldSpec& spec, const Json& json, Use use) {
    ReadContext context;
    context.unknown = UnknownFields::kReject;
    T fresh;
    ReadValue(context, spec, json, fresh.*field);
    if (context.errors.empty()) CheckValue(context.errors, spec, fresh.*field);
    std::vector<FieldError> errors = context.errors.Take();
    if (errors.empty()) return use(std::move(fresh.*field));
    for (const FieldError& error : errors) Fail(error.ToString());
  }

  // A JSON list as it is; otherwise the parts between commas and line ends.
  Json TextOrList() {
    if (!value_.empty() && value_.front() == '[') return JsonList();
    Json list = Json::array();
    size_t start = 0;
    while (start <= value_.size()) {
      const size_t end = std::min(value_.find_first_of(",\n", start), value_.size());
      const std::string_view part = Trim(value_.substr(start, end - start));
      if (!part.empty()) list.push_back(std::string(part));
      start = end + 1;
    }
    return list;
  }

  // Null after an error.
  Json JsonList() {
    Result<Json> parsed = ParseJson(value_);
    if (parsed.ok() && parsed->is_array()) return *parsed;
    Fail(parsed.ok() ? "must be a JSON list" : parsed.status().message() + ": a list such as " + kListExample);
    return Json();
  }

  std::string_view value() const { return value_; }
  void Fail(std::string message) { errors_.push_back({name_, std::move(message)}); }
  bool failed() const { return !errors_.empty(); }
  std::vector<FieldError> TakeErrors() { return std::move(errors_); }

 private:
  static constexpr const char* kListExample = R"([{"name": "main", "uri": "hdfs://ns/path", "mountPath": "/ckpt"}])";

  std::string name_;
  std::string_view value_;
  std::vector<FieldError> errors_;
};

// TrainingJob.spec's fields, so that an annotation is checked as the field that it stands for.
struct AnnotatedFields {
  std::vector<Checkpoint> checkpoints;
  std::vector<std::string> paths;
  std::string text;
};

void ReadCheckpoints(AnnotationReader& reader, JobSettings& settings) {
  const Json list = reader.JsonList();
  if (reader.failed()) return;
  reader.ReadField(&AnnotatedFields::checkpoints, kCheckpointsField, list, [&](std::vector<Checkpoint> checkpoints) {
    std::set<std::string> mount_paths;
    for (const Checkpoint& checkpoint : checkpoints) {
      if (!mount_paths.insert(checkpoint.mount_path).second) {
        return reader.Fail("must not mount two directories at the same mountPath");
      }
    }
    settings.checkpoints = std::move(checkpoints);
  });
}

void ReadDependencies(AnnotationReader& reader, std::string_view name, JobSettings& settings) {
  DependencySettings dependencies = settings.startup.dependencies.value_or(DependencySettings{});
  if (name == kDependenciesInstallAnnotation) {
    constexpr FieldSpec kInstall = {.required = true, .max_length = 16384};
    reader.ReadField(&AnnotatedFields::text, kInstall, Json(std::string(reader.value())),
                     [&](std::string text) { dependencies.install = std::move(text); });
  } else {
    const bool is_capture = name == kDependenciesCaptureAnnotation;
    const Json list = reader.TextOrList();
    if (reader.failed()) return;
    reader.ReadField(&AnnotatedFields::paths, is_capture ? kCaptureField : kInputsField, list,
                     [&](std::vector<std::string> paths) {
                       (is_capture ? dependencies.capture : dependencies.inputs) = std::move(paths);
                     });
  }
  if (!reader.failed()) settings.startup.dependencies = std::move(dependencies);
}

void ReadOne(AnnotationReader& reader, std::string_view name, AnnotatedSettings& out) {
  if (name == kEnabledAnnotation) {
    reader.Read(out.is_enabled);
  } else if (name == kImagePrefetchAnnotation) {
    reader.Read(out.settings.startup.image.prefetch);
  } else if (name == kImageConvertAnnotation) {
    reader.ReadField(&ImageSettings::convert, {}, Json(std::string(reader.value())),
                     [&](ConvertMode mode) { out.settings.startup.image.convert = mode; });
  } else if (name == kTraceAnnotation) {
    reader.Read(out.settings.tracing.enabled);
  } else if (name == kCheckpointsAnnotation) {
    ReadCheckpoints(reader, out.settings);
  } else if (name == kStragglerPolicyAnnotation) {
    reader.ReadField(&AnnotatedFields::text, kStragglerPolicyField, Json(std::string(reader.value())),
                     [&](std::string text) { out.settings.straggler_policy = std::move(text); });
  } else if (name == kDependenciesInstallAnnotation || name == kDependenciesInputsAnnotation ||
             name == kDependenciesCaptureAnnotation) {
    ReadDependencies(reader, name, out.settings);
  } else {
    const std::string_view nearest = NearestName(name, UserAnnotations());
    reader.Fail(nearest.empty() ? "unknown annotation"
                                : "unknown annotation; did you mean " + std::string(nearest) + "?");
  }
}

bool IsSystemName(std::string_view name) {
  return std::find(std::begin(kSystemNames), std::end(kSystemNames), name) != std::end(kSystemNames);
}

// Checks that need all annotations.
void CheckTogether(AnnotatedSettings& out, size_t feature_annotations) {
  std::optional<DependencySettings>& dependencies = out.settings.startup.dependencies;
  if (dependencies && dependencies->install.empty()) {
    const bool is_capture = dependencies->inputs.empty();
    out.errors.push_back({std::string(is_capture ? kDependenciesCaptureAnnotation : kDependenciesInputsAnnotation),
                          "has no effect without " + std::string(kDependenciesInstallAnnotation)});
    dependencies.reset();
  }
  const bool has_enabled_error = std::any_of(out.errors.begin(), out.errors.end(),
                                             [](const FieldError& e) { return e.path == kEnabledAnnotation; });
  if (feature_annotations > 0 && !out.is_enabled && !has_enabled_error) {
    out.errors.push_back(
        {std::string(kEnabledAnnotation), "must be \"true\" for the other annotations to have an effect"});
  }
}

}  // namespace

const std::vector<std::string_view>& UserAnnotations() {
  static const std::vector<std::string_view> names = {kEnabledAnnotation,
                                                      kImagePrefetchAnnotation,
                                                      kImageConvertAnnotation,
                                                      kDependenciesInstallAnnotation,
                                                      kDependenciesInputsAnnotation,
                                                      kDependenciesCaptureAnnotation,
                                                      kCheckpointsAnnotation,
                                                      kTraceAnnotation,
                                                      kStragglerPolicyAnnotation};
  return names;
}

AnnotatedSettings ParseAnnotations(const std::map<std::string, std::string>& job_annotations,
                                   const std::map<std::string, std::string>& template_annotations) {
  std::map<std::string, std::string> merged = template_annotations;
  merged.insert(job_annotations.begin(), job_annotations.end());  // keeps what the template said
  AnnotatedSettings out;
  size_t feature_annotations = 0;
  bool is_switched_off = false;
  for (auto it = merged.lower_bound(std::string(kPrefix)); it != merged.end(); ++it) {
    const auto& [name, value] = *it;
    if (name.compare(0, kPrefix.size(), kPrefix) != 0) break;
    if (IsSystemName(name)) continue;
    AnnotationReader reader(TruncateUtf8(name, 317), value);
    if (value.size() > kMaxAnnotationBytes) {
      reader.Fail("must have at most 256 KiB");
    } else {
      ReadOne(reader, name, out);
    }
    for (FieldError& error : reader.TakeErrors()) out.errors.push_back(std::move(error));
    if (name != kEnabledAnnotation) ++feature_annotations;
    is_switched_off = is_switched_off || (name == kEnabledAnnotation && Trim(value) == "false");
  }
  CheckTogether(out, is_switched_off ? 0 : feature_annotations);
  return out;
}

}  // namespace paceline::api
