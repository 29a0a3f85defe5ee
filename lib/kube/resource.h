// Names of API resources and objects: what goes into a URL. Pure values.
#pragma once

#include <compare>
#include <string>

namespace paceline::kube {

// One resource type of the API server.
struct Resource {
  std::string group;    // "" for the core group
  std::string version;  // "v1"
  std::string plural;   // "pods"
  std::string kind;     // "Pod"
  bool is_namespaced = true;

  // "v1" or "batch/v1", as in apiVersion.
  std::string ApiVersion() const { return group.empty() ? version : group + "/" + version; }
  // "pods" or "jobs.batch", for messages and metrics.
  std::string Display() const { return group.empty() ? plural : plural + "." + group; }
  auto operator<=>(const Resource&) const = default;
};

// One object within a resource; `ns` is empty for cluster-scoped ones.
struct ObjectKey {
  std::string ns;
  std::string name;

  // "ns/name" or "name".
  std::string ToString() const { return ns.empty() ? name : ns + "/" + name; }
  auto operator<=>(const ObjectKey&) const = default;
};

// The built-in resources that Paceline touches.
inline const Resource kPods{"", "v1", "pods", "Pod", true};
inline const Resource kNodes{"", "v1", "nodes", "Node", false};
inline const Resource kServices{"", "v1", "services", "Service", true};
inline const Resource kSecrets{"", "v1", "secrets", "Secret", true};
inline const Resource kConfigMaps{"", "v1", "configmaps", "ConfigMap", true};
inline const Resource kNamespaces{"", "v1", "namespaces", "Namespace", false};
inline const Resource kCoreEvents{"", "v1", "events", "Event", true};
inline const Resource kEvents{"events.k8s.io", "v1", "events", "Event", true};
inline const Resource kJobs{"batch", "v1", "jobs", "Job", true};
inline const Resource kLeases{"coordination.k8s.io", "v1", "leases", "Lease", true};
inline const Resource kMutatingWebhooks{"admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations",
                                        "MutatingWebhookConfiguration", false};
inline const Resource kCustomResourceDefinitions{"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                                                 "CustomResourceDefinition", false};

}  // namespace paceline::kube
