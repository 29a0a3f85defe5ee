#include "cli/session.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lib/api/codec.h"
#include "lib/kube/rest_client.h"

namespace paceline::cli {

Result<std::unique_ptr<Session>> Session::Connect(const SessionOptions& options, const Clock& clock) {
  kube::LoadOptions load;
  load.kubeconfig = options.kubeconfig;
  load.context = options.context;
  Result<kube::KubeConfig> config = kube::LoadKubeConfig(load);
  if (!config.ok()) return config.status().Annotate("find the cluster");
  std::unique_ptr<Session> session(new Session(std::move(*config), Deadline::After(clock, options.timeout)));
  session->ns_ = options.ns.empty() ? session->config_.ns : options.ns;
  session->metrics_ = MetricsRegistry::Create();
  ASSIGN_OR_RETURN(session->transport_,
                   kube::NewApiTransport(session->config_, {.user_agent = "pacectl"}, *session->metrics_, clock));
  Result<std::string> version = kube::ServerVersion(*session->transport_, session->deadline_);
  if (!version.ok()) {
    return version.status().Annotate(
        fmt::format("reach the API server {} (from {})", session->config_.server, session->config_.source));
  }
  session->server_version_ = *version;
  session->client_ = kube::NewRestClient(*session->transport_, clock);
  return session;
}

kube::Resource ResourceOf(const api::KindInfo& kind) {
  return {std::string(api::kGroup), std::string(api::kVersion), std::string(kind.plural), std::string(kind.kind),
          kind.scope == api::Scope::kNamespaced};
}

namespace {

// One object that cannot be read must not hide the others: it is left out, as kubectl would show it with empty columns.
template <typename T>
Result<std::vector<T>> ListOf(kube::Client& client, const api::KindInfo& kind, const std::string& ns,
                              Deadline deadline) {
  const kube::Resource resource = ResourceOf(kind);
  Result<kube::ObjectList> list = client.List(resource, {.ns = ns}, deadline);
  if (!list.ok() && list.status().code() == StatusCode::kNotFound) {
    return list.status().Annotate(fmt::format(
        "the cluster does not know {}: install Paceline's chart (helm install paceline deploy/helm/paceline)",
        resource.Display()));
  }
  if (!list.ok()) return list.status();
  std::vector<T> objects;
  for (const kube::Json& item : list->items) {
    Result<T> object = api::FromJson<T>(item);
    if (object.ok()) objects.push_back(std::move(*object));
  }
  return objects;
}

}  // namespace

Result<std::vector<api::TrainingRun>> Session::ListRuns(const std::string& ns) {
  return ListOf<api::TrainingRun>(*client_, api::kTrainingRunKind, ns, deadline_);
}

Result<std::vector<api::TrainingJob>> Session::ListJobs(const std::string& ns) {
  return ListOf<api::TrainingJob>(*client_, api::kTrainingJobKind, ns, deadline_);
}

Result<std::vector<api::NodePlan>> Session::ListNodePlans() {
  return ListOf<api::NodePlan>(*client_, api::kNodePlanKind, "", deadline_);
}

Result<net::HttpResponse> Session::Get(const std::string& target, Deadline deadline) {
  return transport_->Send({.target = target}, deadline);
}

}  // namespace paceline::cli
