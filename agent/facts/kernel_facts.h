// The part of the node's facts that comes from files of the kernel and the system: /proc, /sys, /dev, /lib/modules.
// Called by CollectNodeFacts and by tests over generated trees. Pure but for reading; safe from any thread.
#pragma once

#include <string>
#include <string_view>

#include "agent/facts/node_facts.h"
#include "lib/base/filesystem.h"

namespace paceline::agent {

// Fills every field but containerd_version and gpu. Blocks on files only.
void CollectKernelFacts(const FileSystem& files, NodeFacts* facts);

// A kernel release as numbers: "6.12.0-rc1+deb" is {6, 12}. Zeros when it does not start with two numbers.
struct KernelVersion {
  int major = 0;
  int minor = 0;
  auto operator<=>(const KernelVersion&) const = default;
};
KernelVersion ParseKernelVersion(std::string_view release);

// Number of CPUs in a kernel list such as "0-3,8,10-11"; 0 when it is malformed.
int CountCpuList(std::string_view list);

// PRETTY_NAME of /etc/os-release, "Debian GNU/Linux 12 (bookworm)"; empty when it is not there.
std::string ParseOsImage(std::string_view os_release);

// MemTotal of /proc/meminfo in bytes; 0 when it is not there.
uint64_t ParseMemTotal(std::string_view meminfo);

}  // namespace paceline::agent
