#include "operator/config.h"

namespace paceline::operator_ {
namespace {

void AddCluster(ConfigSpec& spec, OperatorConfig& config) {
  spec.Add("kubernetes.kubeconfig", &config.kubeconfig,
           "Path of a kubeconfig. Empty: $KUBECONFIG, ~/.kube/config, then the pod's service account.");
  spec.Add("kubernetes.context", &config.context, "Context of the kubeconfig. Empty: its current one.");
  spec.Add("kubernetes.qps", &config.api_qps, "Requests per second to the API server; 0 for no limit.").Range(0, 1e6);
  spec.Add("kubernetes.burst", &config.api_burst, "Requests that may go out at once.").Positive();
  spec.Add("namespace", &config.ns, "Namespace of the operator: of its Lease and its webhook's Secret.")
      .Env("POD_NAMESPACE");
  spec.Add("identity", &config.identity, "Name in the Lease and in events. Empty: the host's name and a random part.")
      .Env("POD_NAME");
}

void AddLeaderElection(ConfigSpec& spec, OperatorConfig& config) {
  spec.Add("leaderElection.enabled", &config.leader_election,
           "Elect a leader among the replicas. Switch off for one replica only.");
  spec.Add("leaderElection.leaseName", &config.lease_name, "Name of the Lease.");
  spec.Add("leaderElection.leaseDuration", &config.lease_duration, "A leader not heard of for so long is replaced.")
      .Positive();
  spec.Add("leaderElection.renewDeadline", &config.renew_deadline, "A leader that cannot renew for so long gives up.")
      .Positive();
  spec.Add("leaderElection.retryPeriod", &config.retry_period, "Between two tries to get or renew the Lease.")
      .Positive();
}

void AddControllers(ConfigSpec& spec, OperatorConfig& config) {
  spec.Add("controllers.workers", &config.workers, "Objects that each controller works on at the same time.")
      .Range(1, 64);
  spec.Add("controllers.resyncPeriod", &config.resync_period, "Every object is looked at again after so long.")
      .Positive();
  spec.Add("controllers.discoveryPeriod", &config.discovery_period,
           "How often the API server is asked for job kinds that it did not have.")
      .Positive();
  spec.Add("controllers.agentSilenceLimit", &config.agent_silence_limit,
           "A node's agent that reported nothing for so long counts as dead: no volumes are planned for its node.")
      .Positive();
  spec.Add("controllers.runHistoryLimit", &config.run_history_limit,
           "Ended TrainingRuns to keep of each job that is not a TrainingJob (those say it in their spec).")
      .Range(1, 1000);
}

void AddIncidents(ConfigSpec& spec, OperatorConfig& config) {
  spec.Add("incidents.hostPause", &config.incident_host_pause,
           "A rank whose process runs may keep the others waiting for so long before that is an incident: an "
           "evaluation, a checkpoint. One that reads or writes more than 1 MiB/s may for as long as it does.");
}

void AddServers(ConfigSpec& spec, OperatorConfig& config) {
  spec.Add("metrics.address", &config.metrics_address, "Address of /metrics, /healthz and /readyz.");
  spec.Add("metrics.port", &config.metrics_port, "Port of /metrics, /healthz and /readyz; 0 picks a free one.")
      .Range(0, 65535);
  spec.Add("page.enabled", &config.page, "Serve the job page: runs, waterfalls, incidents, for a token of Kubernetes.");
  spec.Add("page.address", &config.page_address, "Address of the job page.");
  spec.Add("page.port", &config.page_port, "Port of the job page; 0 picks a free one.").Range(0, 65535);
  spec.Add("page.tls", &config.page_tls,
           "Serve the job page by HTTPS, with the webhook's certificate (without the webhook it is not served then). "
           "Switch off only where nothing but a proxy on the same host reaches the port: tokens pass through it.");
  spec.Add("webhook.enabled", &config.webhook, "Serve the pod webhook.");
  spec.Add("webhook.address", &config.webhook_address, "Address of the webhook.");
  spec.Add("webhook.port", &config.webhook_port, "Port of the webhook; 0 picks a free one.").Range(0, 65535);
  spec.Add("webhook.certificates", &config.webhook_certificates,
           "self-managed: made by the operator, kept in a Secret. files: read from certificateFile and keyFile, as "
           "cert-manager mounts them.")
      .OneOf({"self-managed", "files"});
  spec.Add("webhook.secret", &config.webhook_secret, "self-managed: the Secret, which must exist.");
  spec.Add("webhook.configurations", &config.webhook_configurations,
           "self-managed: the MutatingWebhookConfigurations that get the CA.");
  spec.Add("webhook.dnsNames", &config.webhook_dns_names,
           "self-managed: names in the certificate. Empty: those of the Service paceline-webhook in the namespace.");
  spec.Add("webhook.ipAddresses", &config.webhook_ip_addresses, "self-managed: addresses in the certificate.");
  spec.Add("webhook.certificateFile", &config.webhook_certificate_file, "files: PEM chain.");
  spec.Add("webhook.keyFile", &config.webhook_key_file, "files: PEM key.");
  spec.Add(
      "webhook.stageVolume", &config.stage_volume,
      "Give pods of training jobs the volume at /run/paceline, where every node that they may land on has an agent.");
}

void AddPeers(ConfigSpec& spec, OperatorConfig& config) {
  spec.Add(
      "peers.secret", &config.peers_secret,
      "Secret, which must exist, for the CA and the certificate with which the snapshotters of nodes share chunks. "
      "Made and renewed by the operator. Empty: none is made.");
  spec.Add("peers.serverName", &config.peers_server_name, "Name in that certificate, as the snapshotters expect it.");
}

void AddConversion(ConfigSpec& spec, OperatorConfig& config) {
  spec.Add("conversion.store", &config.conversion_store,
           "Where images of jobs with spec.startup.image.convert: Auto are converted to: docker://REGISTRY/REPOSITORY "
           "or file:///FOLDER, as the converter's pods reach it. Empty: nothing is converted.");
  spec.Add("conversion.podTemplate", &config.conversion_template,
           "JSON file with the PodTemplateSpec of the Jobs that convert; its first container runs pacectl, and its "
           "args are put behind the operator's. The Jobs run in the operator's namespace.");
  spec.Add("conversion.images", &config.conversion_images,
           "Repositories whose images may be converted, such as registry.example.com/team/train; with '*' at the end, "
           "all that begin so. Empty: all.");
  spec.Add("conversion.atOnce", &config.conversions_at_once, "Conversions that run at the same time.").Range(1, 100);
  spec.Add("conversion.timeLimit", &config.conversion_time_limit,
           "A conversion that takes longer is ended; the next try goes on with the layer that it was at.")
      .Positive();
}

void AddDependencies(ConfigSpec& spec, OperatorConfig& config) {
  spec.Add("dependencies.lookupLimit", &config.install_lookup_limit,
           "How long the webhook may look for the image and the inputs of a pod that installs dependencies. Shorter "
           "than the webhook's own timeout.")
      .Positive();
  blocks::AddRegistryFields(spec, &config.registry);
}

}  // namespace

ConfigSpec OperatorConfigSpec(OperatorConfig& config) {
  ConfigSpec spec("paceline-operator", "Watches training jobs and tells where their startup time goes.");
  AddCluster(spec, config);
  AddLeaderElection(spec, config);
  AddControllers(spec, config);
  AddIncidents(spec, config);
  AddServers(spec, config);
  AddPeers(spec, config);
  AddConversion(spec, config);
  AddDependencies(spec, config);
  spec.Add("log.level", &config.log_level, "Least level that is logged.");
  spec.Add("log.format", &config.log_format, "text for people, json for collectors.");
  spec.AddCheck([&config]() -> Status {
    if (config.ns.empty()) return InvalidArgumentError("namespace: must not be empty");
    if (config.webhook && config.webhook_certificates == "self-managed" && config.webhook_secret.empty()) {
      return InvalidArgumentError("webhook.secret: must not be empty with webhook.certificates: self-managed");
    }
    if (config.conversion_store.empty() != config.conversion_template.empty()) {
      return InvalidArgumentError("conversion.store, conversion.podTemplate: one has no effect without the other");
    }
    return Status();
  });
  return spec;
}

}  // namespace paceline::operator_
