// Configuration of paceline-operator: the only reader of its flags, file and environment. The Helm chart's values name
// the same keys.
#pragma once

#include <string>
#include <vector>

#include "lib/base/config.h"
#include "lib/blocks/registry/registry_config.h"

namespace paceline::operator_ {

struct OperatorConfig {
  std::string kubeconfig;  // empty: as kubectl looks for one, then in-cluster
  std::string context;
  double api_qps = 100;
  int api_burst = 200;

  std::string ns = "paceline-system";  // ours: Lease, Secret
  std::string identity;                // in the Lease and in events; empty: host name and a random part

  bool leader_election = true;
  std::string lease_name = "paceline-operator";
  // Shorter than client-go's 15 s and 10 s: a crashed leader is followed within the lease plus one retry, and that
  // shall stay well under 20 s on a busy API server.
  Duration lease_duration = std::chrono::seconds(12);
  Duration renew_deadline = std::chrono::seconds(8);
  Duration retry_period = std::chrono::seconds(2);

  int workers = 4;                                      // of each controller
  Duration resync_period = std::chrono::hours(1);       // every object is looked at again
  Duration discovery_period = std::chrono::minutes(1);  // for job kinds whose CRD is not there yet
  Duration agent_silence_limit = std::chrono::minutes(11);
  int64_t run_history_limit = 5;  // of foreign jobs

  Duration incident_host_pause = std::chrono::seconds(30);

  std::string metrics_address = "0.0.0.0";
  int metrics_port = 8080;

  bool page = true;
  std::string page_address = "0.0.0.0";
  int page_port = 8443;
  bool page_tls = true;

  bool webhook = true;
  std::string webhook_address = "0.0.0.0";
  int webhook_port = 9443;
  std::string webhook_certificates = "self-managed";  // or "files"
  std::string webhook_secret = "paceline-webhook-certificate";
  std::vector<std::string> webhook_configurations = {"paceline"};
  std::vector<std::string> webhook_dns_names;  // empty: of the Service "paceline-webhook" in our namespace
  std::vector<std::string> webhook_ip_addresses;
  std::string webhook_certificate_file = "/etc/paceline/webhook/tls.crt";
  std::string webhook_key_file = "/etc/paceline/webhook/tls.key";
  bool stage_volume = true;

  std::string peers_secret;  // empty: somebody else makes the certificates of peers, or there are none
  std::string peers_server_name = "paceline-peers";

  std::string conversion_store;                // empty: the operator converts nothing
  std::string conversion_template;             // file with the pod template of the Jobs
  std::vector<std::string> conversion_images;  // patterns of repositories; empty: all
  int conversions_at_once = 2;
  Duration conversion_time_limit = std::chrono::hours(2);

  Duration install_lookup_limit = std::chrono::seconds(2);
  blocks::RegistryConfig registry;

  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
};

// Describes the fields of `config`, which must outlive the result.
ConfigSpec OperatorConfigSpec(OperatorConfig& config);

}  // namespace paceline::operator_
