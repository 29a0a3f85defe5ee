#include "lib/api/stage_advice.h"

#include <iterator>

namespace paceline::api {
namespace {

constexpr double kUnevenRatio = 1.5;
constexpr double kUnevenSeconds = 1;

constexpr std::string_view kWhere = "pacectl run explain, job page";
constexpr std::string_view kCost = "all nodes and GPUs that the start holds wait so long";

// In the order of StageName.
constexpr Advice kStages[] = {
    {kWhere, "Queued", "the job waited before its pods were made", "no GPU is held yet, but the job is late",
     "look at its queue or quota, or at the job's controller"},
    {kWhere, "Scheduling", "the pods waited for nodes", "workers that have nodes already hold them in vain",
     "`kubectl describe pod` says which resource is missing"},
    {kWhere, "Image", "the nodes pulled the image", kCost,
     "keep it smaller or warm it on the nodes before (spec.startup.image.prefetch)"},
    {kWhere, "ContainerStart", "the containers started slowly", kCost,
     "look at volumes (FailedMount events) and at the node's load"},
    {kWhere, "Dependencies", "dependencies were installed on every worker", kCost,
     "let a snapshot restore them (spec.startup.dependencies)"},
    {kWhere, "Checkpoint", "the checkpoint was read slowly", kCost, "mount it through spec.checkpoints"},
    {kWhere, "CommunicatorReady", "communicators came up slowly", kCost,
     "look at the rendezvous and at the slowest worker's network"},
    {kWhere, "FirstStep", "the program itself took the time, from its start to its first step", kCost,
     "look at imports, data loading and compilation"},
};
static_assert(std::size(kStages) == static_cast<size_t>(StageName::kFirstStep) + 1);

}  // namespace

const Advice& StageAdvice(StageName name) { return kStages[static_cast<size_t>(name)]; }

bool IsUneven(const Stage& stage) {
  if (!stage.max_seconds || !stage.p50_seconds || stage.workers < 3) return false;
  return *stage.max_seconds >= kUnevenRatio * *stage.p50_seconds &&
         *stage.max_seconds - *stage.p50_seconds >= kUnevenSeconds;
}

std::vector<Advice> StartupMessages() {
  std::vector<Advice> all(std::begin(kStages), std::end(kStages));
  all.insert(all.end(), {kUnevenStage, kFallbackAdvice, kStartupCostAdvice});
  return all;
}

}  // namespace paceline::api
