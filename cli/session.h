// One command's connection to the API server: configuration, transport, client and a deadline for the whole command.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/api/names.h"
#include "lib/api/node_plan.h"
#include "lib/api/training_job.h"
#include "lib/api/training_run.h"
#include "lib/base/clock.h"
#include "lib/base/metrics.h"
#include "lib/kube/client.h"
#include "lib/kube/config.h"
#include "lib/net/http.h"

namespace paceline::cli {

struct SessionOptions {
  std::string kubeconfig;
  std::string context;
  std::string ns;  // empty: the context's namespace
  Duration timeout = std::chrono::seconds(30);
};

// How the API server names one of our kinds.
kube::Resource ResourceOf(const api::KindInfo& kind);

class Session {
 public:
  // Loads the configuration and asks the server for its version, so that every command fails early, in one way, when
  // the cluster is not there. Blocks for at most the timeout.
  static Result<std::unique_ptr<Session>> Connect(const SessionOptions& options, const Clock& clock);

  const std::string& ns() const { return ns_; }
  const std::string& server_version() const { return server_version_; }
  const std::string& server_url() const { return config_.server; }
  Deadline deadline() const { return deadline_; }
  kube::Client& client() { return *client_; }

  // Objects of one namespace, or of all for an empty `ns`. kNotFound ("CRDs not installed") says how to install them.
  Result<std::vector<api::TrainingRun>> ListRuns(const std::string& ns);
  Result<std::vector<api::TrainingJob>> ListJobs(const std::string& ns);
  Result<std::vector<api::NodePlan>> ListNodePlans();
  // GETs a path of the API server as it is, whatever the status of the answer. Thread-safe.
  Result<net::HttpResponse> Get(const std::string& target, Deadline deadline);

 private:
  Session(kube::KubeConfig config, Deadline deadline) : config_(std::move(config)), deadline_(deadline) {}

  kube::KubeConfig config_;
  Deadline deadline_;
  std::string ns_;
  std::string server_version_;
  std::unique_ptr<MetricsRegistry> metrics_;  // the transport counts into it; nobody scrapes a command
  std::unique_ptr<net::HttpTransport> transport_;
  std::unique_ptr<kube::Client> client_;
};

}  // namespace paceline::cli
