#include "agent/plan/plan_store.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "agent/plan/plan_text.h"
#include "lib/api/codec.h"
#include "lib/base/json.h"
#include "lib/base/mutex.h"
#include "lib/kube/apply.h"

namespace paceline::agent {
namespace {

constexpr char kFieldManager[] = "paceline-agent";
constexpr size_t kLargestPlanBytes = 8 * 1024 * 1024;

class ClusterPlanStore final : public PlanStore {
 public:
  ClusterPlanStore(std::string node_name, const kube::Store<kube::ObjectView>& cache, kube::Writer& writer)
      : node_name_(std::move(node_name)), cache_(cache), writer_(writer) {}

  Result<api::NodePlan> Read() override {
    std::shared_ptr<const kube::ObjectView> view = cache_.Get("", node_name_);
    if (view == nullptr) return NotFoundError(fmt::format("NodePlan {} is not there", node_name_));
    ASSIGN_OR_RETURN(Json body, view->Body());
    return api::FromJson<api::NodePlan>(body);
  }

  Result<std::string> WriteStatus(const api::NodePlanStatus& status, Deadline deadline) override {
    api::NodePlan plan;
    plan.status = status;
    const Json object = {{"apiVersion", api::kApiVersion},
                         {"kind", api::kNodePlanKind.kind},
                         {"metadata", {{"name", node_name_}}},
                         {"status", api::ToJson(plan)["status"]}};
    ASSIGN_OR_RETURN(Json stored, kube::Apply(writer_, NodePlanResource(), object, kFieldManager, deadline, "status"));
    return JsonString(stored, "metadata.resourceVersion");
  }

 private:
  const std::string node_name_;
  const kube::Store<kube::ObjectView>& cache_;
  kube::Writer& writer_;
};

class FilePlanStore final : public PlanStore {
 public:
  FilePlanStore(std::string node_name, std::string plan_path, std::string status_path, FileSystem& files)
      : node_name_(std::move(node_name)),
        plan_path_(std::move(plan_path)),
        status_path_(std::move(status_path)),
        files_(files) {}

  Result<api::NodePlan> Read() override {
    ASSIGN_OR_RETURN(std::string text, files_.ReadFile(plan_path_, kLargestPlanBytes));
    Result<api::NodePlan> plan = Parse(text);
    if (!plan.ok()) return plan.status().Annotate(plan_path_);
    MutexLock lock(mutex_);
    if (text != text_) {  // a file has no generation of its own: count its contents
      text_ = text;
      ++generation_;
    }
    plan->metadata.generation = generation_;
    plan->metadata.resource_version = std::to_string(version_);
    plan->status = status_;
    return plan;
  }

  Result<std::string> WriteStatus(const api::NodePlanStatus& status, Deadline /*a file does not wait*/) override {
    api::NodePlan plan;
    plan.metadata.name = node_name_;
    plan.status = status;
    Json object = api::ToJson(plan);
    object.erase("spec");  // this file is the agent's word, not the plan
    const std::string text = DumpJsonPretty(object) + "\n";
    if (status_path_ == "-") {
      std::fwrite(text.data(), 1, text.size(), stdout);
      std::fflush(stdout);
    } else {
      RETURN_IF_ERROR(files_.WriteFileAtomically(status_path_, text));
    }
    MutexLock lock(mutex_);
    status_ = status;
    return std::to_string(++version_);
  }

 private:
  Result<api::NodePlan> Parse(const std::string& text) const {
    ASSIGN_OR_RETURN(Json object, ParsePlanText(text));
    ASSIGN_OR_RETURN(api::NodePlan plan, api::FromJson<api::NodePlan>(object, api::UnknownFields::kReject));
    if (plan.metadata.name.empty()) plan.metadata.name = node_name_;
    const std::vector<api::FieldError> errors = api::Validate(plan);
    if (!errors.empty()) return InvalidArgumentError(api::JoinErrors(errors));
    return plan;
  }

  const std::string node_name_;
  const std::string plan_path_;
  const std::string status_path_;
  FileSystem& files_;
  Mutex mutex_;
  std::string text_ GUARDED_BY(mutex_);
  int64_t generation_ GUARDED_BY(mutex_) = 0;
  int64_t version_ GUARDED_BY(mutex_) = 0;
  api::NodePlanStatus status_ GUARDED_BY(mutex_);
};

}  // namespace

const kube::Resource& NodePlanResource() {
  static const kube::Resource resource{std::string(api::kGroup), std::string(api::kVersion),
                                       std::string(api::kNodePlanKind.plural), std::string(api::kNodePlanKind.kind),
                                       false};
  return resource;
}

std::unique_ptr<PlanStore> NewClusterPlanStore(std::string node_name, const kube::Store<kube::ObjectView>& cache,
                                               kube::Writer& writer) {
  return std::make_unique<ClusterPlanStore>(std::move(node_name), cache, writer);
}

std::unique_ptr<PlanStore> NewFilePlanStore(std::string node_name, std::string plan_path, std::string status_path,
                                            FileSystem& files) {
  return std::make_unique<FilePlanStore>(std::move(node_name), std::move(plan_path), std::move(status_path), files);
}

}  // namespace paceline::agent
