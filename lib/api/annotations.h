// Reads the paceline.dev/* annotations of a foreign job into the structs that TrainingJob.spec carries.
//
// The webhook and the run controller call this with the job's annotations and with those of the pod template; the
// template wins. A bad annotation never stops the job: it is reported and its field keeps the default. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/api/job_settings.h"
#include "lib/api/meta.h"

namespace paceline::api {

struct AnnotatedSettings {
  bool is_enabled = false;         // paceline.dev/enabled: "true"
  JobSettings settings;            // defaults where an annotation is absent or bad
  std::vector<FieldError> errors;  // path is the annotation's name
};

// `template_annotations` override `job_annotations` key by key. Unknown names under paceline.dev/ are errors that name
// the nearest known one; labels and marks that Paceline itself writes are accepted.
AnnotatedSettings ParseAnnotations(const std::map<std::string, std::string>& job_annotations,
                                   const std::map<std::string, std::string>& template_annotations = {});

// The annotations that a user can write, in the order of the documentation.
const std::vector<std::string_view>& UserAnnotations();

}  // namespace paceline::api
