// docs/metrics.md from the metric families that the programs really make, and a check that none in the sources is
// missing from it.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <thread>

#include "agent/csi/csi_server.h"
#include "agent/csi/deps_metrics.h"
#include "agent/csi/scratch_volume.h"
#include "agent/health/health_watch.h"
#include "agent/mount_metrics.h"
#include "agent/node_api.h"
#include "agent/probe/node_prober.h"
#include "agent/trace/collector.h"
#include "fuse-hdfs/mount_metrics.h"
#include "lib/base/version.h"
#include "lib/kube/cache.h"
#include "lib/kube/config.h"
#include "lib/kube/controller.h"
#include "lib/kube/rest_client.h"
#include "lib/kube/webhook.h"
#include "operator/operator.h"
#include "operator/resources.h"
#include "operator/webhook/certificate_expiry.h"
#include "snapshotter/plugin/plugin_metrics.h"
#include "tests/agent/node_folders.h"
#include "tests/fakes/api_server.h"
#include "tests/pages/page.h"

namespace paceline::pages {
namespace {

using Families = std::map<std::string, MetricsRegistry::Description>;

void Take(const std::vector<MetricsRegistry::Description>& from, Families& into) {
  for (const auto& family : from) into[family.name] = family;
}

// The real operator on the fake API server, with everything that has metrics switched on.
Families OperatorFamilies() {
  const RealClock clock;
  const auto log = Logger::Discard();
  fakes::ApiServer server(clock);
  for (const kube::Resource& resource :
       {operator_::kTrainingJobs, operator_::kTrainingRuns, operator_::kNodePlans, operator_::kIncidents,
        operator_::kImageProfiles, operator_::kDependencySnapshots}) {
    server.AddResource(resource);
  }
  const auto metrics = MetricsRegistry::Create();
  const auto transport = kube::NewLimitedTransport(server.Connect(), {}, "server", *metrics, clock);
  const auto lease_transport = server.Connect();
  const auto client = kube::NewRestClient(*transport, clock);
  const auto lease_client = kube::NewRestClient(*lease_transport, clock);
  operator_::OperatorConfig config;
  config.webhook = false;  // its handler is made below: a certificate is all that serving would add
  config.page = false;
  config.metrics_address = "127.0.0.1";
  config.metrics_port = 0;
  config.ns = "default";
  auto made = operator_::Operator::Create(config, {*transport, *client, *lease_client, clock, *log, *metrics});
  EXPECT_TRUE(made.ok()) << made.status().ToString();
  if (!made.ok()) return {};
  operator_::WithExpiryMetric(nullptr, *metrics);
  const net::Handler webhook = kube::NewAdmissionHandler("/mutate-pods", nullptr, clock, *log, *metrics);
  std::jthread thread([&](std::stop_token stop) { (*made)->Run(std::move(stop)).IgnoreError(); });
  const Deadline deadline = Deadline::After(clock, std::chrono::seconds(30));
  while (!(*made)->is_leading() && !deadline.Expired(clock)) clock.SleepFor(std::chrono::milliseconds(10), {});
  EXPECT_TRUE((*made)->is_leading());
  Families families;
  Take(metrics->Describe(), families);
  return families;
}

class NothingToDo final : public kube::Reconciler {
  Result<kube::Action> Reconcile(const kube::ObjectKey&, Deadline, std::stop_token) override {
    return kube::Action::Done();
  }
};

// The parts that the agent is made of, as agent/run.cc makes them.
Families AgentFamilies() {
  const RealClock clock;
  const auto log = Logger::Discard();
  const auto metrics = MetricsRegistry::Create();
  metrics->AddProcessMetrics(Version(), Revision());
  const agent::NodeFolders folders;
  const auto host = agent::NewLinuxVolumeHost({folders.kubelet_dir(), folders.state_dir()});
  std::vector<std::unique_ptr<agent::VolumeType>> types;
  types.push_back(agent::NewScratchVolume(folders.state_dir(), *host));
  agent::VolumePublisher publisher({folders.kubelet_dir(), folders.state_dir()}, *host, std::move(types), clock);
  const auto csi = agent::CsiServer::Start({.node_name = "n1",
                                            .version = "test",
                                            .csi_socket = folders.root() + "/csi.sock",
                                            .registration_socket = folders.root() + "/reg.sock"},
                                           publisher, clock, *log, *metrics);
  EXPECT_TRUE(csi.ok()) << csi.status().ToString();
  agent::AddVolumeMetrics(*metrics, [] { return std::vector<agent::VolumeRecord>(); });
  agent::AddMountMetrics(*metrics, [] { return std::vector<agent::PodReport>(); });
  const agent::DepsMetrics dependencies(*metrics);
  RealFileSystem files;
  agent::Collector collector({}, files, clock, *metrics);
  const agent::HealthWatch health({}, clock, *metrics);
  const agent::NodeProber prober({}, clock, *log, *metrics);
  NothingToDo reconciler;
  kube::Controller controller({.name = "nodeplan"}, reconciler, clock, *log, *metrics);
  fakes::ApiServer server(clock);
  const auto transport = kube::NewLimitedTransport(server.Connect(), {}, "server", *metrics, clock);
  kube::ReflectorOptions options;
  options.resource = operator_::kNodePlans;
  kube::ObjectCache cache(options, kube::CacheEnvironment{*transport, clock, *log, *metrics});
  Families families;
  Take(metrics->Describe(), families);
  return families;
}

Families SnapshotterFamilies() {
  const auto metrics = MetricsRegistry::Create();
  metrics->AddProcessMetrics(Version(), Revision());
  const snapshotter::PluginMetrics families_of_the_plugin(*metrics);
  Families families;
  Take(metrics->Describe(), families);
  return families;
}

Families MountFamilies() {
  Families families;
  Take(fuse_hdfs::MountMetrics([] { return fuse_hdfs::MountTotals(); }).Describe(), families);
  return families;
}

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

std::string UnitOf(std::string name) {
  if (EndsWith(name, "_info")) return "";
  if (EndsWith(name, "_timestamp_seconds") || name == "process_start_time_seconds") return "seconds since 1970";
  if (EndsWith(name, "_total")) name.resize(name.size() - 6);
  for (const char* unit : {"seconds", "bytes", "ratio"}) {
    if (EndsWith(name, std::string("_") + unit)) return unit;
  }
  return "number";
}

std::string Row(const MetricsRegistry::Description& family) {
  std::string labels;
  for (const std::string& label : family.label_names) labels += (labels.empty() ? "`" : ", `") + label + "`";
  std::string help = family.help;
  if (!help.empty() && help.back() != '.') help += '.';
  return "| `" + family.name + "` | " + family.type + " | " + UnitOf(family.name) + " | " + labels + " | " +
         Cell(help) + " |\n";
}

std::string Section(const std::string& title, const std::string& text, const Families& families) {
  std::string out = "\n## " + title + "\n\n" + text +
                    "\n\n| name | type | unit | labels | meaning |\n"
                    "| --- | --- | --- | --- | --- |\n";
  for (const auto& [name, family] : families) out += Row(family);
  return out;
}

// What is in `a` and in `b`; it is taken out of both.
Families TakeCommon(Families& a, Families& b) {
  Families common;
  for (auto it = a.begin(); it != a.end();) {
    const bool is_common = b.erase(it->first) > 0;
    if (is_common) common.insert(*it);
    it = is_common ? a.erase(it) : std::next(it);
  }
  return common;
}

constexpr char kIntroduction[] =
    "# Metrics\n\n"
    "Written from the code by `tests/pages`, which fails when this page is stale. Names follow Prometheus' "
    "conventions: "
    "base units, `_total` for counters; a counter's `rate()` and a histogram's `_bucket`, `_sum` and `_count` are "
    "understood.\n\n"
    "No label holds a rank, but for paceline_run_slow_worker_ratio, which tells at most 8 ranks of a run: a run has no "
    "more series with 10,000 workers than with 10. Series of a run go an hour after its end and with its job. A family "
    "that is full (1,000 label sets unless the code says otherwise) puts "
    "further ones under the label value `other` and counts them in `paceline_metrics_dropped_series_total`.\n\n"
    "Pages are in the text format 0.0.4, or in OpenMetrics 1.0 for who accepts it, as Prometheus does.\n";

std::string MetricsPage() {
  Families rest = OperatorFamilies(), agent = AgentFamilies();
  Families mount = MountFamilies(), snapshotter = SnapshotterFamilies();
  Families in_two = TakeCommon(rest, agent);  // operator and agent
  Families in_all = TakeCommon(in_two, mount);
  for (const auto& [name, family] : in_all) snapshotter.erase(name);
  return kIntroduction +
         Section("Every program",
                 "On `/metrics` of the operator, the agents and the snapshotters; on the control socket of a mount.",
                 in_all) +
         Section("paceline-operator and paceline-agent", "What both do with the API server.", in_two) +
         Section("paceline-operator", "Port 8080. Runs, nodes and incidents are shown by the replica that leads.",
                 rest) +
         Section("paceline-agent", "Port 9464, one agent a node.", agent) +
         Section(
             "paceline-hdfs-mount",
             "A mount process listens on no port: `metrics` on its control socket gives these. The agent shows what "
             "matters of them as `paceline_volume_*`.",
             mount) +
         Section("paceline-snapshotter", "The containerd plugin on each node: docs/block-images.md.", snapshotter) +
         "\n## paceline-holder\n\n"
         "The holder serves no metrics: what it holds is in `paceline_volume_mounted` and "
         "`paceline_volume_mount_restarts_total` of the agent beside it, so that it stays small enough to be left "
         "alone "
         "for years.\n";
}

TEST(MetricsPage, IsWhatTheProgramsShow) { ExpectPage("docs/metrics.md", MetricsPage()); }

// Every name that a source gives to a family is on the page.
TEST(MetricsPage, LeavesNoMetricOfTheSourcesOut) {
  const std::string page = ReadFile(kRoot + "/docs/metrics.md");
  const std::regex name(
      "\"((?:paceline|process|workqueue|controller_runtime|rest_client|leader_election)_[a-z0-9_]+)\"");
  size_t found = 0;
  for (const char* folder : {"lib", "operator", "agent", "holder", "snapshotter", "fuse-hdfs"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(kRoot + "/" + folder)) {
      if (entry.path().extension() != ".cc") continue;
      const std::string text = ReadFile(entry.path().string());
      if (text.find("Family(") == std::string::npos) continue;
      for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it) {
        ++found;
        EXPECT_NE(page.find("`" + (*it)[1].str() + "`"), std::string::npos)
            << entry.path().string() << ": " << (*it)[1].str() << " is not in docs/metrics.md";
      }
    }
  }
  EXPECT_GT(found, 50u) << "the search itself is broken";
}

// There a counter's family is called without "_total", and no two families may be called the same.
TEST(MetricsPage, NamesFitOpenMetrics) {
  const std::string page = ReadFile(kRoot + "/docs/metrics.md");
  const std::regex row("\\| `([a-z0-9_]+)` \\| (\\w+) \\|");
  std::set<std::string> families;
  for (std::sregex_iterator it(page.begin(), page.end(), row), end; it != end; ++it) {
    std::string name = (*it)[1].str();
    const bool is_total = name.size() > 6 && name.compare(name.size() - 6, 6, "_total") == 0;
    EXPECT_EQ((*it)[2] == "counter", is_total) << name;
    if (is_total) name.resize(name.size() - 6);
    EXPECT_TRUE(families.insert(name).second) << name;
  }
  EXPECT_GT(families.size(), 50u) << "the search itself is broken";
}

}  // namespace
}  // namespace paceline::pages
