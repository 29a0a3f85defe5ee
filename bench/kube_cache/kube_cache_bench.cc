// Mirrors pods and nodes with lib/kube's caches and measures itself; the counterpart of `peer informer`, with the same
// options, signals and output, so that `run` can treat both alike.
//
//   kube-cache-bench --kubeconfig FILE [--encoding protobuf|json] [--mode list|stream] --seen FILE
//
// One line of JSON when synced and at each SIGUSR1; at SIGTERM it writes when it saw which version of a pod.
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "lib/kube/cache.h"
#include "lib/kube/rest_client.h"
#include "lib/net/http_client.h"

namespace paceline::kube {
namespace {

double CpuSeconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

long MemoryMib(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string name; status >> name;) {
    long kib = 0;
    if (name == field + ":" && status >> kib) return kib / 1024;
    std::getline(status, name);
  }
  return 0;
}

struct Sighting {
  std::string version;
  WallTime when;
};

struct Recorder {
  std::atomic<uint64_t> events{0};
  std::vector<Sighting> seen;  // by the pod cache's thread, read after it has ended
};

void Say(const char* phase, const Clock& clock, TimePoint began, const Recorder& recorder) {
  std::printf(
      "{\"phase\":\"%s\",\"seconds\":%.3f,\"cpu_seconds\":%.3f,\"peak_mib\":%ld,\"rss_mib\":%ld,\"events\":%llu}\n",
      phase, ToSeconds(clock.Now() - began), CpuSeconds(), MemoryMib("VmHWM"), MemoryMib("VmRSS"),
      static_cast<unsigned long long>(recorder.events.load()));
  std::fflush(stdout);
}

Status WriteSightings(const Recorder& recorder, const std::string& path) {
  std::ofstream file(path);
  for (const Sighting& sighting : recorder.seen) {
    file << sighting.version << ' ' << sighting.when.time_since_epoch().count() << '\n';
  }
  return file.flush() ? Status() : UnavailableError("cannot write " + path);
}

// Pods and nodes, mirrored.
struct Mirror {
  PodCache pods;
  NodeCache nodes;
};
// The same as objects of any kind, in JSON: what custom resources cost.
struct ObjectMirror {
  ObjectCache pods;
  ObjectCache nodes;
};

template <typename Caches>
Status Measure(const std::map<std::string, std::string>& flags, CacheEnvironment environment, Encoding encoding,
               const sigset_t& signals) {
  const Clock& clock = environment.clock;
  const ListMode mode = flags.at("mode") == "stream" ? ListMode::kStream : ListMode::kList;
  Recorder recorder;
  const TimePoint began = clock.Now();
  const ReflectorOptions pods{.resource = kPods, .preferred_encoding = encoding, .list_mode = mode};
  const ReflectorOptions nodes{.resource = kNodes, .preferred_encoding = encoding, .list_mode = mode};
  Caches caches{{pods, environment}, {nodes, environment}};
  caches.pods.AddHandler([&](const auto& change) {
    if (change.before == nullptr || change.after == nullptr) return;
    recorder.seen.push_back({change.meta().resource_version.str(), clock.WallNow()});
    ++recorder.events;
  });
  caches.nodes.AddHandler([&](const auto& change) {
    if (change.before != nullptr && change.after != nullptr) ++recorder.events;
  });
  caches.pods.Start();
  caches.nodes.Start();
  const Deadline deadline = Deadline::After(clock, std::chrono::minutes(5));
  RETURN_IF_ERROR(caches.pods.WaitForSync(deadline));
  RETURN_IF_ERROR(caches.nodes.WaitForSync(deadline));
  Say("synced", clock, began, recorder);
  for (int received = 0; ::sigwait(&signals, &received) == 0 && received != SIGTERM;) {
    if (received == SIGUSR2) ::malloc_trim(0);
    Say("reading", clock, began, recorder);
  }
  caches.pods.Stop();
  caches.nodes.Stop();
  return WriteSightings(recorder, flags.at("seen"));
}

Status Run(const std::map<std::string, std::string>& flags) {
  // Before any thread is made, so that all of them leave these signals to Measure.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGUSR1, SIGUSR2, SIGTERM}) sigaddset(&signals, number);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  RETURN_IF_ERROR(net::InitHttpThreads(4));

  const RealClock clock;
  const auto log = Logger::ToStderr("kube-cache-bench", LogLevel::kWarn, LogFormat::kText);
  const auto metrics = MetricsRegistry::Create();
  ASSIGN_OR_RETURN(const KubeConfig config, LoadKubeConfig({.kubeconfig = flags.at("kubeconfig")}));
  ASSIGN_OR_RETURN(const auto transport, NewApiTransport(config, {}, *metrics, clock));
  const CacheEnvironment environment{*transport, clock, *log, *metrics};
  const std::string& encoding = flags.at("encoding");
  if (encoding == "objects") return Measure<ObjectMirror>(flags, environment, Encoding::kJson, signals);
  return Measure<Mirror>(flags, environment, encoding == "json" ? Encoding::kJson : Encoding::kProtobuf, signals);
}

}  // namespace
}  // namespace paceline::kube

int main(int argc, char** argv) {
  std::map<std::string, std::string> flags{
      {"kubeconfig", ""}, {"encoding", "protobuf"}, {"mode", "list"}, {"seen", "/dev/null"}};
  for (int i = 1; i + 1 < argc; i += 2) flags[std::string(argv[i]).substr(2)] = argv[i + 1];
  const paceline::Status status = paceline::kube::Run(flags);
  if (status.ok()) return 0;
  std::fprintf(stderr, "kube-cache-bench: %s\n", status.ToString().c_str());
  return 1;
}
