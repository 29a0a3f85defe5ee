#include "lib/api/incident_advice.h"

#include <algorithm>
#include <iterator>

namespace paceline::api {
namespace {

constexpr std::string_view kVerdictWhere = "Incident, verdict; event of it; job page; pacectl trace diagnose";
constexpr std::string_view kStands = "all of the run's GPUs wait";
constexpr std::string_view kSlow = "every step waits for it";

constexpr Advice kVerdicts[] = {
    {kVerdictWhere, "Unknown", "something holds the run up and what could be seen does not say what", kStands,
     "see what was not visible; `pacectl trace dump` keeps the tables for somebody who knows the job"},
    {kVerdictWhere, "ProcessLost", "a training process has ended while the others go on", kStands,
     "read the log of its container and `kubectl describe pod` (out of memory, evicted, a crash); the gang has to "
     "start "
     "again"},
    {kVerdictWhere, "Mismatch", "the ranks of a communicator called different collectives", kStands,
     "it is the program: look where the named ranks take another branch or another shape; a restart comes back to it"},
    {kVerdictWhere, "NotLaunched", "a rank has not come to the collective that the others are in", kStands,
     "take a stack of that process (py-spy dump): it loads data, saves, or waits for a lock; if it is alone and often, "
     "take its node out"},
    {kVerdictWhere, "HostStuck", "a rank is inside the NCCL call and does not come back from it", kStands,
     "take a stack of that process (gdb, py-spy dump --native); restart it away from its node if it comes again"},
    {kVerdictWhere, "GpuStuck", "data has arrived at a GPU whose kernel does not go on", kStands,
     "look for Xid errors on that node (dmesg, nvidia-smi -q); reset the GPU or take the node out, then restart"},
    {kVerdictWhere, "Compute", "a rank is late because its own work takes longer", kSlow,
     "compare clocks, temperature and load of that GPU and host with its peers; a job that gives it more work looks "
     "the "
     "same"},
    {kVerdictWhere, "ReceiverNotReady", "a rank does not take what its peer wants to send", kStands,
     "look at the receiving process and its node; the sender is well"},
    {kVerdictWhere, "Network", "a link, a network card or a path is slow or down", kStands,
     "look at the counters of the named node's network cards and of its switch port (errors, discards, link speed)"},
    {kVerdictWhere, "IntraNodeLink", "NVLink or PCIe within a node is slow or down", kStands,
     "look at nvidia-smi nvlink -e, nvidia-smi topo -m and dmesg of that node; take it out if errors grow"},
    {kVerdictWhere, "ProxyStarved", "the communication thread of a rank gets too little processor time", kSlow,
     "see what else runs on that node; give the container more CPUs, or pin its data loaders away from NCCL's threads"},
    {kVerdictWhere, "Deadlock", "communicators wait for each other in a circle", kStands,
     "it is the program: all ranks have to use their communicators in the same order; a restart comes back to it"},
};

}  // namespace

const Advice& VerdictAdvice(std::string_view category) {
  const auto* found = std::find_if(std::begin(kVerdicts), std::end(kVerdicts),
                                   [&](const Advice& advice) { return advice.reason == category; });
  return found == std::end(kVerdicts) ? kVerdicts[0] : *found;
}

std::vector<Advice> VerdictMessages() { return {std::begin(kVerdicts), std::end(kVerdicts)}; }

}  // namespace paceline::api
