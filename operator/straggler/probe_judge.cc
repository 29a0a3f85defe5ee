#include "operator/straggler/probe_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace paceline::operator_ {
namespace {

using api::ProbeCheck;
using api::ProbeVerdict;

// The median of absolute deviations, times this, is the standard deviation where values are normally distributed.
constexpr double kDeviationsOfMad = 1.4826;
constexpr double kDeviations = 4;
// However many times the tolerance a figure is allowed: half the speed of the others is slow.
constexpr double kMostTolerance = 0.5;

// Of an even number the mean of the two in the middle. Not of none.
double MedianOfAll(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

bool IsUsable(double value) { return std::isfinite(value) && value > 0; }

const api::ProbeFigure* FindFigure(const api::ProbeStatus& status, std::string_view name) {
  for (const api::ProbeFigure& figure : status.figures) {
    if (figure.name == name && IsUsable(figure.value)) return &figure;
  }
  return nullptr;
}

// More is better: of a time its reciprocal.
double SpeedOf(const api::ProbeMeasure& measure, double value) { return measure.is_less_better ? 1 / value : value; }

FigureState StateOf(double speed, const std::vector<double>& others, double tolerance) {
  const double median = MedianOfAll(others);
  if (speed >= median * (1 - tolerance)) return FigureState::kPassed;
  std::vector<double> deviations;
  for (const double other : others) deviations.push_back(std::abs(other - median));
  const double scatter = MedianOfAll(deviations) * kDeviationsOfMad;
  return speed < median - kDeviations * scatter ? FigureState::kFailed : FigureState::kUnknown;
}

class Judge {
 public:
  Judge(const ProbedNode& node, const std::vector<ProbedNode>& nodes, const api::ProbePolicy& policy, WallTime now)
      : node_(node), policy_(policy) {
    for (const ProbedNode& other : nodes) {
      const bool is_fresh = other.found.finished_at && now - *other.found.finished_at <= policy.maximum_age;
      if (other.name != node.name && !other.is_out && is_fresh && AreAlike(node, other)) like_.push_back(&other);
    }
  }

  ProbeFinding Run() {
    for (const ProbeCheck check : api::kAllProbeChecks) {
      const bool is_asked = policy_.checks.empty() ||
                            std::find(policy_.checks.begin(), policy_.checks.end(), check) != policy_.checks.end();
      if (is_asked) JudgeCheck(check);
    }
    const auto has = [this](FigureState state) {
      return std::any_of(out_.figures.begin(), out_.figures.end(),
                         [state](const FigureFinding& figure) { return figure.state == state; });
    };
    if (has(FigureState::kFailed)) {
      out_.verdict = ProbeVerdict::kFailed;
    } else if (has(FigureState::kPassed) && out_.unknown.empty()) {
      out_.verdict = ProbeVerdict::kPassed;
    }
    return std::move(out_);
  }

 private:
  void JudgeCheck(ProbeCheck check) {
    bool is_measured = false;
    for (const api::ProbeMeasure& measure : api::kProbeMeasures) {
      if (measure.check != check) continue;
      const api::ProbeFigure* figure = FindFigure(node_.found, measure.name);
      if (figure == nullptr) continue;
      is_measured = true;
      JudgeFigure(measure, *figure);
    }
    if (is_measured) return;
    const auto& missing = node_.found.missing;
    const auto why =
        std::find_if(missing.begin(), missing.end(), [check](const auto& entry) { return entry.check == check; });
    const std::string name(api::ProbeCheckText(check));
    if (why == missing.end()) {
      out_.unknown.push_back(name + " was not measured");
      return;
    }
    // A GPU that its driver no longer has must not pass for none.
    const bool is_none =
        why->gap == api::ProbeGap::kNotThere && node_.found.gpu_model.empty() && node_.gpu_product.empty();
    const bool have_others = std::any_of(like_.begin(), like_.end(), [check](const ProbedNode* other) {
      return std::any_of(std::begin(api::kProbeMeasures), std::end(api::kProbeMeasures), [&](const auto& measure) {
        return measure.check == check && FindFigure(other->found, measure.name) != nullptr;
      });
    });
    if (!is_none || have_others) out_.unknown.push_back(fmt::format("{} was not measured: {}", name, why->message));
  }

  void JudgeFigure(const api::ProbeMeasure& measure, const api::ProbeFigure& figure) {
    FigureFinding& finding = out_.figures.emplace_back();
    finding.name = figure.name;
    finding.unit = std::string(measure.unit);
    finding.value = figure.value;
    finding.detail = figure.detail;
    std::vector<double> values, speeds;
    for (const ProbedNode* other : like_) {
      const api::ProbeFigure* of_other = FindFigure(other->found, measure.name);
      if (of_other == nullptr) continue;
      values.push_back(of_other->value);
      speeds.push_back(SpeedOf(measure, of_other->value));
    }
    finding.nodes = values.size();
    if (static_cast<int64_t>(values.size()) < policy_.minimum_nodes || values.empty()) {
      out_.unknown.push_back(fmt::format("{}: {} like nodes to compare with, where {} are wanted", figure.name,
                                         values.size(), policy_.minimum_nodes));
      return;
    }
    finding.median = MedianOfAll(values);
    const double speed = SpeedOf(measure, figure.value);
    finding.speed = speed / MedianOfAll(speeds);
    finding.state = StateOf(speed, speeds, std::min(policy_.tolerance * measure.slack, kMostTolerance));
    if (finding.state == FigureState::kUnknown) {
      out_.unknown.push_back(fmt::format("{}: slower than like nodes, which scatter as much themselves", figure.name));
    }
  }

  const ProbedNode& node_;
  const api::ProbePolicy& policy_;
  std::vector<const ProbedNode*> like_;
  ProbeFinding out_;
};

std::string FigureSentence(const FigureFinding& figure) {
  std::string text = fmt::format("{} {:.4g} {}, where {} like nodes have {:.4g}", figure.name, figure.value,
                                 figure.unit, figure.nodes, figure.median);
  if (!figure.detail.empty() && figure.state == FigureState::kFailed) text += " (" + figure.detail + ")";
  return text;
}

}  // namespace

bool AreAlike(const ProbedNode& a, const ProbedNode& b) {
  return a.found.method == b.found.method && a.instance_type == b.instance_type && a.gpu_product == b.gpu_product &&
         a.found.cpu_model == b.found.cpu_model && a.found.cpus == b.found.cpus &&
         a.found.gpu_model == b.found.gpu_model;
}

ProbeFinding JudgeProbe(const ProbedNode& node, const std::vector<ProbedNode>& nodes, const api::ProbePolicy& policy,
                        WallTime now) {
  return Judge(node, nodes, policy, now).Run();
}

std::string ProbeSentence(const ProbeFinding& finding) {
  std::vector<std::string> parts;
  if (finding.verdict == ProbeVerdict::kUnknown) {
    parts = finding.unknown;
    if (parts.empty()) parts.push_back("nothing was measured");
  } else {
    for (const FigureFinding& figure : finding.figures) {
      const bool is_told = finding.verdict == ProbeVerdict::kPassed || figure.state == FigureState::kFailed;
      if (is_told) parts.push_back(FigureSentence(figure));
    }
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::vector<api::EvidenceNumber> ProbeEvidence(const ProbeFinding& finding) {
  std::vector<api::EvidenceNumber> evidence;
  for (const FigureFinding& figure : finding.figures) {
    const std::optional<double> usual = figure.median > 0 ? std::optional(figure.median) : std::nullopt;
    evidence.push_back({"probe." + figure.name, figure.value, figure.unit, usual});
  }
  return evidence;
}

}  // namespace paceline::operator_
