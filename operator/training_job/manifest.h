// The objects that one start of a TrainingJob is made of: a headless Service, which gives the workers names, and an
// Indexed Job, whose failure of one worker ends all. Pure; callers: apply.cc.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "lib/api/training_job.h"

namespace paceline::operator_ {

// Written on the Job, read back by observe.cc.
inline constexpr std::string_view kRestartsAnnotation = "paceline.dev/restarts";
// When this start was asked for: the failure that it follows, or the resumption. Absent: the creation of the
// TrainingJob.
inline constexpr std::string_view kRequestedAtAnnotation = "paceline.dev/requested-at";

struct StartSpec {
  int64_t generation = 0;
  int64_t restarts = 0;
  std::optional<WallTime> requested_at;

  friend bool operator==(const StartSpec&, const StartSpec&) = default;
};

// Resolves every worker that has an address yet, ready or not: workers look for rank 0 before anybody is ready.
nlohmann::json ServiceManifest(const api::TrainingJob& job);

// The pod template is the user's with our labels and, in every container, the rendezvous and identity variables that it
// does not set itself.
nlohmann::json JobManifest(const api::TrainingJob& job, const StartSpec& start);

}  // namespace paceline::operator_
