// The whole operator on the fake API server, for tests that play kubelet, the scheduler and the Job controller.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "lib/api/names.h"
#include "lib/kube/rest_client.h"
#include "operator/names.h"
#include "operator/operator.h"
#include "operator/resources.h"
#include "tests/fakes/api_server.h"
#include "tests/fakes/capture_log.h"

namespace paceline::operator_ {

using kube::Json;
using std::chrono::seconds;

// One running operator with connections of its own.
class Replica {
 public:
  Replica(fakes::ApiServer& server, const Clock& clock, Logger& log, const OperatorConfig& config)
      : transport_(server.Connect()),
        lease_transport_(server.Connect()),
        metrics_(MetricsRegistry::Create()),
        client_(kube::NewRestClient(*transport_, clock)),
        lease_client_(kube::NewRestClient(*lease_transport_, clock)) {
    auto made = Operator::Create(config, {*transport_, *client_, *lease_client_, clock, log, *metrics_});
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    if (!made.ok()) return;
    operator_ = std::move(*made);
    thread_ = std::jthread([this](std::stop_token stop) { result_ = operator_->Run(stop); });
  }
  ~Replica() { Stop().IgnoreError(); }  // tests that care stop it themselves
  Status Stop() {
    if (thread_.joinable()) {
      thread_.request_stop();
      thread_.join();
    }
    return result_;
  }
  const Operator& get() const { return *operator_; }
  std::string MetricsPage() { return metrics_->Render(); }

 private:
  std::unique_ptr<net::HttpTransport> transport_, lease_transport_;
  std::unique_ptr<MetricsRegistry> metrics_;
  std::unique_ptr<kube::Client> client_, lease_client_;
  std::unique_ptr<Operator> operator_;
  Status result_;
  std::jthread thread_;
};

class OperatorTest : public ::testing::Test {
 protected:
  OperatorTest() : server_(clock_) {
    for (const kube::Resource& resource :
         {kTrainingJobs, kTrainingRuns, kNodePlans, kIncidents, kImageProfiles, kDependencySnapshots})
      server_.AddResource(resource);
    config_.leader_election = false;
    config_.webhook = false;
    config_.page = false;
    config_.metrics_address = "127.0.0.1";
    config_.metrics_port = 0;
    config_.ns = "default";
  }

  std::unique_ptr<Replica> Start() { return std::make_unique<Replica>(server_, clock_, *log_, config_); }

  ::testing::AssertionResult Eventually(const std::function<bool()>& is_met) {
    const Deadline deadline = Deadline::After(clock_, seconds(20));
    while (!is_met()) {
      if (deadline.Expired(clock_)) return ::testing::AssertionFailure() << "not within 20 s";
      clock_.SleepFor(std::chrono::milliseconds(10), {});
    }
    return ::testing::AssertionSuccess();
  }

  Json TrainingJob(const std::string& name, const Json& spec = Json::object()) {
    Json object = {
        {"apiVersion", api::kApiVersion},
        {"kind", "TrainingJob"},
        {"metadata", {{"name", name}, {"namespace", "team"}, {"creationTimestamp", FormatRfc3339(clock_.WallNow())}}},
        {"spec",
         {{"workers", 2},
          {"template", {{"spec", {{"containers", Json::array({{{"name", "main"}, {"image", "x"}}})}}}}}}}};
    object["spec"].update(spec);
    return server_.Put(kTrainingJobs, object);
  }

  Json Get(const kube::Resource& resource, const std::string& name, const std::string& ns = "team") {
    const Result<Json> found = server_.Find(resource, {ns, name});
    return found.ok() ? *found : Json();
  }
  bool Exists(const kube::Resource& resource, const std::string& name) {
    return server_.Find(resource, {"team", name}).ok();
  }

  static std::string Condition(const Json& object, std::string_view type, const char* field = "status") {
    if (!object.contains("/status/conditions"_json_pointer)) return "";
    for (const Json& condition : object["status"]["conditions"]) {
      if (condition["type"] == type) return condition.value(field, "");
    }
    return "";
  }
  static std::string Phase(const Json& object) {
    return object.is_object() ? object.value("/status/phase"_json_pointer, "") : "";
  }

  // Plays the Job controller: pods of an Indexed Job.
  Json MakePod(const Json& job, int index) {
    Json pod = job["spec"]["template"];
    pod["apiVersion"] = "v1";
    pod["kind"] = "Pod";
    pod["metadata"]["name"] = job["metadata"]["name"].get<std::string>() + "-" + std::to_string(index) + "-abcde";
    pod["metadata"]["namespace"] = "team";
    pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] = std::to_string(index);
    pod["metadata"]["labels"]["batch.kubernetes.io/controller-uid"] = job["metadata"]["uid"];
    pod["metadata"]["ownerReferences"] = Json::array({{{"apiVersion", "batch/v1"},
                                                       {"kind", "Job"},
                                                       {"name", job["metadata"]["name"]},
                                                       {"uid", job["metadata"]["uid"]},
                                                       {"controller", true}}});
    pod["status"] = {{"phase", "Pending"}};
    return server_.Put(kube::kPods, pod);
  }
  void SetStatus(const kube::Resource& resource, const std::string& name, const Json& status) {
    Json object = Get(resource, name);
    object["status"].update(status);
    object["metadata"].erase("resourceVersion");
    server_.Put(resource, object);
  }
  void RunPod(const std::string& name, const std::string& node) {
    Json pod = Get(kube::kPods, name);
    pod["metadata"].erase("resourceVersion");
    pod["spec"]["nodeName"] = node;
    const std::string now = FormatRfc3339(clock_.WallNow());
    pod["status"] = {
        {"phase", "Running"},
        {"conditions", Json::array({{{"type", "PodScheduled"}, {"status", "True"}, {"lastTransitionTime", now}}})},
        {"containerStatuses",
         Json::array({{{"name", "main"}, {"ready", true}, {"state", {{"running", {{"startedAt", now}}}}}}})}};
    server_.Put(kube::kPods, pod);
  }
  void EndPod(const std::string& name, int exit_code) {
    const std::string now = FormatRfc3339(clock_.WallNow());
    SetStatus(
        kube::kPods, name,
        {{"phase", exit_code == 0 ? "Succeeded" : "Failed"},
         {"containerStatuses",
          Json::array(
              {{{"name", "main"},
                {"state", {{"terminated", {{"exitCode", exit_code}, {"startedAt", now}, {"finishedAt", now}}}}}}})}});
  }
  void EndJob(const std::string& name, const char* condition) {
    const std::string now = FormatRfc3339(clock_.WallNow());
    SetStatus(kube::kJobs, name,
              {{"conditions", Json::array({{{"type", condition}, {"status", "True"}, {"lastTransitionTime", now}}})}});
  }
  std::string RunNameOf(const Json& job, int generation = 0) {
    return RunName(job["metadata"]["name"].get<std::string>(), job["metadata"]["uid"].get<std::string>(), generation);
  }
  std::string EventNotes(std::string_view reason) {
    std::string notes;
    for (const Json& event : server_.All(kube::kEvents)) {
      if (event.value("reason", "") == reason) notes += event.value("note", "") + "\n";
    }
    return notes;
  }

  RealClock clock_;
  std::unique_ptr<Logger> log_ = Logger::Discard();
  fakes::ApiServer server_;
  OperatorConfig config_;
};

}  // namespace paceline::operator_
