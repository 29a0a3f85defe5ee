#include "agent/probe/node_prober.h"

#include <fmt/format.h>

#include <thread>
#include <utility>

namespace paceline::agent {
namespace {

constexpr std::string_view kWaitsForPods = "pods of training runs are on the node";

}  // namespace

NodeProber::NodeProber(NodeProberOptions options, const Clock& clock, Logger& log, MetricsRegistry& metrics)
    : options_(std::move(options)),
      clock_(clock),
      log_(log),
      figures_(metrics.GaugeFamily({.name = "paceline_node_probe_figure",
                                    .help = "What the last probe of this node has measured, in the unit of the label.",
                                    .label_names = {"name", "unit"}})),
      probes_(metrics.CounterFamily({.name = "paceline_node_probes_total",
                                     .help = "Probes of this node: done, failed, or interrupted by a pod that came.",
                                     .label_names = {"result"}})) {
  for (const char* result : {"done", "failed", "interrupted"}) probes_.With({result});
}

void NodeProber::See(const api::NodePlan& plan) {
  bool is_taken_over = false;
  {
    MutexLock lock(mutex_);
    request_ = plan.spec.probe;
    jobs_ = plan.spec.jobs.size();
    if (plan.status.probe && plan.status.probe->round > done_.round) {
      done_ = *plan.status.probe;
      is_taken_over = true;
    }
    changed_.NotifyAll();
  }
  if (is_taken_over) Show();
}

std::optional<api::ProbeStatus> NodeProber::Status() const {
  MutexLock lock(mutex_);
  if (done_.round == 0 && !IsDue()) return std::nullopt;
  api::ProbeStatus status = done_;
  status.state =
      !IsDue() ? api::ProbeState::kDone : (is_running_ ? api::ProbeState::kRunning : api::ProbeState::kWaiting);
  status.message = status.state == api::ProbeState::kWaiting ? waits_for_ : "";
  return status;
}

bool NodeProber::IsFree() const {
  const bool has_pods = options_.has_pods();
  MutexLock lock(mutex_);
  return !is_running_ && !has_pods && jobs_ == 0;
}

void NodeProber::Run(std::stop_token stop) {
  while (const std::optional<api::ProbeRequest> request = Await(stop)) {
    options_.on_news();
    Probe(*request, stop);
    options_.on_news();
  }
}

std::optional<api::ProbeRequest> NodeProber::Await(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const bool has_pods = options_.has_pods();
    bool is_news = false;
    {
      MutexLock lock(mutex_);
      const bool is_held = has_pods || jobs_ > 0;
      if (IsDue() && !is_held) {
        is_running_ = true;
        waits_for_.clear();
        return request_;
      }
      const std::string why(IsDue() ? kWaitsForPods : "");
      is_news = std::exchange(waits_for_, why) != why;
      // Pods come and go without a word of the plan.
      const TimePoint next = IsDue() ? clock_.Now() + options_.look_period : TimePoint::max();
      if (!is_news) changed_.WaitUntil(lock, clock_, next, stop);
    }
    if (is_news) options_.on_news();
  }
  return std::nullopt;
}

void NodeProber::Probe(const api::ProbeRequest& request, const std::stop_token& stop) {
  log_.Info("probe of the node begins", {{"round", request.round}});
  std::stop_source end;
  const std::stop_callback pass_on(stop, [&end] { end.request_stop(); });
  std::jthread watch([this, &end](std::stop_token measured) {
    while (clock_.SleepFor(options_.look_period, measured)) {
      const bool has_pods = options_.has_pods();
      MutexLock lock(mutex_);
      if (has_pods || jobs_ > 0) end.request_stop();
    }
  });
  Result<api::ProbeStatus> found = options_.measure(request, end.get_token());
  watch.request_stop();
  watch.join();
  Finish(request, std::move(found));
  Show();
}

void NodeProber::Finish(const api::ProbeRequest& request, Result<api::ProbeStatus> found) {
  const bool is_interrupted = found.status().code() == StatusCode::kCancelled;
  probes_.With({is_interrupted ? "interrupted" : (found.ok() ? "done" : "failed")}).Add();
  if (is_interrupted) {
    log_.Info("probe of the node ended early, waiting", {{"round", request.round}});
  } else if (!found.ok()) {
    log_.Warn("probe of the node failed", {{"round", request.round}, {"error", found.status()}});
  } else {
    log_.Info("probe of the node done", {{"round", request.round}, {"figures", found->figures.size()}});
  }
  MutexLock lock(mutex_);
  is_running_ = false;
  if (is_interrupted) return;  // it is still due
  if (found.ok()) {
    done_ = *std::move(found);
  } else {
    // The round is over all the same: to try at once what has just failed would help nobody.
    done_ = {};
    done_.finished_at = clock_.WallNow();
    for (const api::ProbeCheck check : api::kAllProbeChecks) {
      done_.missing.push_back(
          {check, api::ProbeGap::kFailed, found.status().message().substr(0, api::kMaxProbeMessageBytes)});
    }
  }
  done_.round = request.round;
}

void NodeProber::Show() {
  api::ProbeStatus status;
  {
    MutexLock lock(mutex_);
    status = done_;
  }
  for (const api::ProbeMeasure& measure : api::kProbeMeasures) {
    const LabelValues labels{std::string(measure.name), std::string(measure.unit)};
    const api::ProbeFigure* found = nullptr;
    for (const api::ProbeFigure& figure : status.figures) {
      if (figure.name == measure.name) found = &figure;
    }
    // What is not known is left out.
    if (found == nullptr) {
      figures_.Remove(labels);
    } else {
      figures_.With(labels).Set(found->value);
    }
  }
}

}  // namespace paceline::agent
