// What a node can do, as far as Paceline cares: file systems for lazy images, FUSE, cgroups, runtime, GPUs.
//
// The agent collects it at start and again now and then, and reports it in its NodePlan's status and at /v1/node;
// `pacectl doctor` reads it from there. Looking changes nothing on the node: no module is loaded, nothing is mounted.
// Pure values and free functions; safe from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/clock.h"

namespace paceline::agent {

enum class Support {
  kNo,
  kYes,
  kUnknown,  // could not be told from here, for instance because the host's module folder is not visible
};

// "yes", "no", "unknown".
std::string_view SupportName(Support support);

// One capability and, for people, where the answer comes from ("built in", "no /dev/fuse").
struct FeatureFact {
  Support support = Support::kUnknown;
  std::string detail;
};

struct GpuDevice {
  std::string model;  // "NVIDIA H200"
  std::string uuid;
  uint64_t memory_bytes = 0;
};

struct GpuFacts {
  std::string driver_version = "none";  // "none" without an NVIDIA driver, which is not an error
  std::string cuda_version;             // highest that the driver supports, "13.0"; empty without a driver
  std::vector<GpuDevice> devices;
  std::string detail;  // why there is no driver or no device
};

struct NodeFacts {
  std::string kernel_release;  // "6.18.44"; "unknown" if it cannot be read
  std::string architecture;    // "x86_64"
  std::string os_image;        // "Debian GNU/Linux 12 (bookworm)"; empty if unknown
  FeatureFact erofs;
  FeatureFact file_backed_erofs;  // an EROFS image mounted from a plain file, without a loop device
  FeatureFact overlayfs;
  FeatureFact fuse;
  std::string cgroup_version;      // "v1", "v2", "hybrid", "unknown"
  std::string containerd_version;  // "v2.4.2"; "unknown" if its socket did not answer
  int cpu_count = 0;               // online
  uint64_t memory_bytes = 0;
  GpuFacts gpu;
};

struct FactSources {
  // What /proc, /sys, /dev, /etc and /lib are looked up below: the host's root mounted into a container, a test's tree.
  std::string root;
  std::string containerd_socket = "/run/containerd/containerd.sock";  // empty: not asked
  std::string nvml_library = "libnvidia-ml.so.1";                     // handed to dlopen
};

// Collects everything. Never fails: what cannot be found out is "unknown" or "none", with the reason in `detail`.
// Blocks on files of the kernel and, until `deadline`, on containerd; a driver call into NVML has no limit of its own.
NodeFacts CollectNodeFacts(const FactSources& sources, Deadline deadline);

}  // namespace paceline::agent
