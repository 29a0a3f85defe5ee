// Decides what becomes of the install command of a job in one of its pods: in front of the program by the wrapper, with
// or without a snapshot's key, by the container's shell where no volume may be had, or not at all when nobody knows
// what the container runs.
//
// Used by the pod webhook. Thread-safe; blocks for the registry and the API server, bounded.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "lib/api/job_settings.h"
#include "lib/base/clock.h"
#include "lib/kube/client.h"
#include "operator/dependencies/image_facts.h"
#include "operator/dependencies/injected_install.h"

namespace paceline::operator_ {

struct InstallRequest {
  const nlohmann::json& pod;
  std::string ns;
  const api::DependencySettings& settings;
  std::string architecture;   // of the nodes where the pod may land; empty when there are several
  std::string why_no_volume;  // empty: it may have volumes
};

struct PlannedInstall {
  std::optional<InjectedInstall> install;
  std::string not_cacheable;  // why the install runs in every pod; empty when a snapshot may do it, or none is wanted
  std::string not_installed;  // why nothing is put before the program
};

class InstallPlanner {
 public:
  // All three must outlive it; `images` may be null: then no image can be looked up.
  InstallPlanner(ImageLookup* images, kube::Reader& server, Duration limit, const Clock& clock)
      : images_(images), server_(server), limit_(limit), clock_(clock) {}

  PlannedInstall Plan(const InstallRequest& request, Deadline deadline) const;

 private:
  Result<InstallKey> MakeKey(const InstallRequest& request, const nlohmann::json& container,
                             const Result<ImageFacts>& image, Deadline deadline) const;

  ImageLookup* const images_;
  kube::Reader& server_;
  const Duration limit_;  // of look-ups for one pod
  const Clock& clock_;
};

}  // namespace paceline::operator_
