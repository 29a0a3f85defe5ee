// Where the node's plan comes from and where its status goes: the API server in a cluster, two files on bare metal and
// in tests. The reconciler sees only this. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "lib/api/node_plan.h"
#include "lib/base/clock.h"
#include "lib/base/filesystem.h"
#include "lib/base/result.h"
#include "lib/kube/cache.h"
#include "lib/kube/client.h"

namespace paceline::agent {

class PlanStore {
 public:
  virtual ~PlanStore() = default;

  // The plan as last seen, with the status that was last seen. kNotFound when there is no plan (yet), kInvalidArgument
  // when there is one that cannot be read. Does not wait for the network.
  virtual Result<api::NodePlan> Read() = 0;

  // Replaces what this agent said before. Blocks until `deadline`; kNotFound when the plan is gone. Returns the version
  // of the plan that holds the status.
  virtual Result<std::string> WriteStatus(const api::NodePlanStatus& status, Deadline deadline) = 0;
};

// NodePlan as a resource of the API server.
const kube::Resource& NodePlanResource();

// The NodePlan of this node, read from `cache` (which follows that one object) and written by server-side apply. The
// arguments must outlive the store.
std::unique_ptr<PlanStore> NewClusterPlanStore(std::string node_name, const kube::Store<kube::ObjectView>& cache,
                                               kube::Writer& writer);

// A NodePlan as YAML or JSON in `plan_path`, read again at each Read; unknown fields in it are an error. The status
// goes to `status_path` as JSON, replaced in one step, or to stdout when that is "-". `files` must outlive the store.
std::unique_ptr<PlanStore> NewFilePlanStore(std::string node_name, std::string plan_path, std::string status_path,
                                            FileSystem& files);

}  // namespace paceline::agent
