#include "agent/facts/node_facts.h"

#include "agent/facts/containerd_version.h"
#include "agent/facts/kernel_facts.h"
#include "agent/facts/nvml.h"

namespace paceline::agent {

std::string_view SupportName(Support support) {
  switch (support) {
    case Support::kNo: return "no";
    case Support::kYes: return "yes";
    case Support::kUnknown: return "unknown";
  }
  return "unknown";
}

NodeFacts CollectNodeFacts(const FactSources& sources, Deadline deadline) {
  NodeFacts facts;
  CollectKernelFacts(RealFileSystem(sources.root), &facts);
  facts.gpu = QueryGpus(sources.nvml_library);
  facts.containerd_version = "unknown";
  if (!sources.containerd_socket.empty()) {
    Result<std::string> version = QueryContainerdVersion(sources.containerd_socket, deadline);
    if (version.ok()) facts.containerd_version = *version;
  }
  return facts;
}

}  // namespace paceline::agent
