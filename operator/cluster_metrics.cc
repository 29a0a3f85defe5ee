#include "operator/cluster_metrics.h"

#include <map>
#include <nlohmann/json.hpp>

#include "lib/base/json.h"
#include "lib/base/mutex.h"

namespace paceline::operator_ {
namespace {

using Values = std::map<LabelValues, double>;

constexpr std::string_view kStragglerTaint = "paceline.dev/straggler";

bool HasStragglerTaint(const kube::NodeView& node) {
  for (const kube::Taint& taint : node.spec.taints) {
    if (taint.key == kStragglerTaint) return true;
  }
  return false;
}

std::string FieldText(const Json& body, std::string_view path) {
  Result<std::string> text = JsonStringOr(body, path, "");
  return text.ok() ? *std::move(text) : std::string();
}

// Sets what is there and removes what is not any more; `shown` remembers.
void Replace(MetricFamily<Gauge>& family, Values& shown, Values now) {
  for (const auto& [labels, value] : shown) {
    if (now.count(labels) == 0) family.Remove(labels);
  }
  for (const auto& [labels, value] : now) family.With(labels).Set(value);
  shown = std::move(now);
}

}  // namespace

class ClusterMetrics::Gauges {
 public:
  Gauges(MetricsRegistry& metrics, ClusterMetricsEnvironment environment)
      : env_(std::move(environment)),
        nodes_(metrics.GaugeFamily({"paceline_nodes",
                                    "Nodes of the cluster by state; one node may be in several. Heard: its agent "
                                    "reported lately.",
                                    {"state"}})),
        cordoned_(metrics.GaugeFamily({"paceline_node_cordoned",
                                       "1 for a node that takes no new pods, and whether Paceline's straggler taint is "
                                       "on it (paceline) or not (other).",
                                       {"node", "by"},
                                       5000})),
        silence_(metrics.GaugeFamily({"paceline_node_agent_silence_seconds",
                                      "Since when the agent of a node has not reported; absent where it never did.",
                                      {"node"},
                                      5000})),
        open_incidents_(metrics.GaugeFamily({"paceline_open_incidents",
                                             "Incidents that are not resolved, by the class of their cause.",
                                             {"namespace", "job", "run", "category"}})),
        snapshots_(metrics.GaugeFamily({"paceline_dependency_snapshots",
                                        "DependencySnapshots of the cluster by state.",
                                        {"namespace", "state"}})) {}

  void Refresh() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (is_closed_) return;
    const bool is_leading = env_.is_leading();
    Values nodes, cordoned, silence;
    if (is_leading) LookAtNodes(&nodes, &cordoned, &silence);
    Replace(nodes_, shown_nodes_, std::move(nodes));
    Replace(cordoned_, shown_cordoned_, std::move(cordoned));
    Replace(silence_, shown_silence_, std::move(silence));
    Replace(open_incidents_, shown_incidents_, is_leading ? OpenIncidents() : Values());
    Replace(snapshots_, shown_snapshots_, is_leading ? Snapshots() : Values());
  }

  void Close() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    is_closed_ = true;
  }

 private:
  void LookAtNodes(Values* nodes, Values* cordoned, Values* silence) const {
    for (const char* state : {"All", "Ready", "Cordoned", "Straggler", "Heard", "Silent"}) (*nodes)[{state}] = 0;
    for (const auto& node : env_.nodes.List()) {
      const std::string name = node->meta.name.str();
      const bool is_straggler = HasStragglerTaint(*node);
      const std::optional<Duration> quiet = env_.reports.Silence(name);
      (*nodes)[{"All"}] += 1;
      (*nodes)[{"Ready"}] += kube::IsConditionTrue(node->status.conditions, "Ready") ? 1 : 0;
      (*nodes)[{"Cordoned"}] += node->spec.is_unschedulable ? 1 : 0;
      (*nodes)[{"Straggler"}] += is_straggler ? 1 : 0;
      (*nodes)[{quiet && *quiet <= env_.agent_silence_limit ? "Heard" : "Silent"}] += 1;
      if (node->spec.is_unschedulable) (*cordoned)[{name, is_straggler ? "paceline" : "other"}] = 1;
      if (quiet) (*silence)[{name}] = ToSeconds(*quiet);
    }
  }

  Values OpenIncidents() const {
    Values open;
    for (const auto& incident : env_.incidents.List()) {
      const auto body = incident->Body();
      if (!body.ok() || FieldText(*body, "status.state") == "Resolved") continue;
      if (FindJson(*body, "status.verdict") == nullptr) continue;  // still being looked into
      open[{incident->meta.ns.str(), FieldText(*body, "spec.job.name"), FieldText(*body, "spec.run"),
            FieldText(*body, "status.verdict.category")}] += 1;
    }
    return open;
  }

  Values Snapshots() const {
    Values states;
    for (const auto& snapshot : env_.snapshots.List()) {
      const auto body = snapshot->Body();
      const std::string state = body.ok() ? FieldText(*body, "status.state") : "";
      if (!state.empty()) states[{snapshot->meta.ns.str(), state}] += 1;
    }
    return states;
  }

  const ClusterMetricsEnvironment env_;
  MetricFamily<Gauge>& nodes_;
  MetricFamily<Gauge>& cordoned_;
  MetricFamily<Gauge>& silence_;
  MetricFamily<Gauge>& open_incidents_;
  MetricFamily<Gauge>& snapshots_;
  Mutex mutex_;
  bool is_closed_ GUARDED_BY(mutex_) = false;
  Values shown_nodes_ GUARDED_BY(mutex_);
  Values shown_cordoned_ GUARDED_BY(mutex_);
  Values shown_silence_ GUARDED_BY(mutex_);
  Values shown_incidents_ GUARDED_BY(mutex_);
  Values shown_snapshots_ GUARDED_BY(mutex_);
};

ClusterMetrics::ClusterMetrics(MetricsRegistry& metrics, ClusterMetricsEnvironment environment)
    : gauges_(std::make_shared<Gauges>(metrics, std::move(environment))) {
  metrics.AddRefresher([gauges = gauges_] { gauges->Refresh(); });
}

ClusterMetrics::~ClusterMetrics() { gauges_->Close(); }

}  // namespace paceline::operator_
