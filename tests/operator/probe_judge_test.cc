#include "operator/straggler/probe_judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace paceline::operator_ {
namespace {

using namespace std::chrono_literals;
using api::ProbeCheck;
using api::ProbeVerdict;
using testing::HasSubstr;

constexpr WallTime kProbeTime{500'000h};

ProbedNode Probed(const std::string& name, double cpu) {
  ProbedNode node;
  node.name = name;
  node.instance_type = "gpu-large";
  node.found.round = 1;
  node.found.method = 1;
  node.found.cpus = 8;
  node.found.finished_at = kProbeTime - 1h;
  node.found.figures = {{"cpuOneThread", cpu, "Mop/s", kProbeTime - 1h, ""}};
  return node;
}

std::vector<ProbedNode> Fleet(const std::vector<double>& values) {
  std::vector<ProbedNode> nodes;
  for (size_t i = 0; i < values.size(); ++i) nodes.push_back(Probed("f" + std::to_string(i), values[i]));
  return nodes;
}

api::ProbePolicy CpuPolicy() {
  api::ProbePolicy policy;
  policy.enabled = true;
  policy.checks = {ProbeCheck::kCpu};
  return policy;
}

ProbeVerdict VerdictOf(const ProbedNode& node, const std::vector<ProbedNode>& fleet,
                       const api::ProbePolicy& policy = CpuPolicy()) {
  return JudgeProbe(node, fleet, policy, kProbeTime).verdict;
}

TEST(ProbeJudge, ComparesWithTheMedianAndTheScatterOfLikeNodes) {
  const struct {
    const char* name;
    double value;
    std::vector<double> fleet;
    ProbeVerdict verdict;
  } cases[] = {{"as fast", 800, {800, 810, 790}, ProbeVerdict::kPassed},
               {"faster", 1600, {800, 810, 790}, ProbeVerdict::kPassed},
               {"within the tolerance", 730, {800, 800, 800}, ProbeVerdict::kPassed},
               {"below it", 710, {800, 800, 800}, ProbeVerdict::kFailed},
               {"far below it", 200, {800, 810, 790, 805}, ProbeVerdict::kFailed},
               {"no further than the others scatter", 600, {700, 800, 900, 650, 950}, ProbeVerdict::kUnknown},
               {"further than the others scatter", 100, {700, 800, 900, 760, 840}, ProbeVerdict::kFailed},
               {"one sick peer moves nothing", 800, {800, 100, 805, 795}, ProbeVerdict::kPassed},
               {"as sick as one peer", 100, {800, 100, 805, 795}, ProbeVerdict::kFailed},
               {"two like nodes where three are wanted", 800, {800, 800}, ProbeVerdict::kUnknown},
               {"slow, with nobody to compare", 1, {}, ProbeVerdict::kUnknown}};
  for (const auto& c : cases) EXPECT_EQ(VerdictOf(Probed("n", c.value), Fleet(c.fleet)), c.verdict) << c.name;
}

TEST(ProbeJudge, OnlyLikeNodesWithFreshFiguresThatAreNotOutCount) {
  const struct {
    const char* name;
    std::function<void(ProbedNode&)> change;
  } cases[] = {
      {"another instance type", [](auto& node) { node.instance_type = "gpu-small"; }},
      {"another GPU", [](auto& node) { node.gpu_product = "H200"; }},
      {"another GPU, as the agent says", [](auto& node) { node.found.gpu_model = "H200"; }},
      {"another processor", [](auto& node) { node.found.cpu_model = "slow"; }},
      {"fewer processors", [](auto& node) { node.found.cpus = 4; }},
      {"measured in another way", [](auto& node) { node.found.method = 2; }},
      {"out", [](auto& node) { node.is_out = true; }},
      {"old", [](auto& node) { node.found.finished_at = kProbeTime - 169h; }},
      {"without a time", [](auto& node) { node.found.finished_at.reset(); }},
      {"without the figure", [](auto& node) { node.found.figures.clear(); }},
      {"not a number", [](auto& node) { node.found.figures[0].value = std::numeric_limits<double>::quiet_NaN(); }},
      {"zero", [](auto& node) { node.found.figures[0].value = 0; }}};
  for (const auto& c : cases) {
    std::vector<ProbedNode> fleet = Fleet({800, 800, 800});
    EXPECT_EQ(VerdictOf(Probed("n", 100), fleet), ProbeVerdict::kFailed) << c.name;
    c.change(fleet[1]);
    EXPECT_EQ(VerdictOf(Probed("n", 100), fleet), ProbeVerdict::kUnknown) << c.name;
    EXPECT_EQ(VerdictOf(Probed("n", 800), fleet), ProbeVerdict::kUnknown) << c.name;
  }
}

TEST(ProbeJudge, ANodeIsNotComparedWithItself) {
  std::vector<ProbedNode> fleet = Fleet({800, 800});
  fleet.push_back(Probed("n", 100));
  EXPECT_EQ(VerdictOf(fleet.back(), fleet), ProbeVerdict::kUnknown);
}

TEST(ProbeJudge, WhatIsUnknownNeverClearsAndNeverHidesAFailure) {
  api::ProbePolicy policy = CpuPolicy();
  policy.checks.push_back(ProbeCheck::kMemory);
  const std::vector<ProbedNode> fleet = Fleet({800, 800, 800});
  EXPECT_EQ(VerdictOf(Probed("n", 800), fleet, policy), ProbeVerdict::kUnknown) << "the memory was not measured";
  EXPECT_EQ(VerdictOf(Probed("n", 100), fleet, policy), ProbeVerdict::kFailed);
  ProbedNode node = Probed("n", 800);
  node.found.missing = {{ProbeCheck::kMemory, api::ProbeGap::kFailed, "no memory for the arrays"}};
  const ProbeFinding finding = JudgeProbe(node, fleet, policy, kProbeTime);
  EXPECT_EQ(finding.verdict, ProbeVerdict::kUnknown);
  EXPECT_THAT(ProbeSentence(finding), HasSubstr("no memory for the arrays"));
  node.found.figures.clear();
  EXPECT_EQ(VerdictOf(node, fleet), ProbeVerdict::kUnknown) << "NaN, or nothing, is no pass";
}

TEST(ProbeJudge, WhatTheNodeHasNothingOfDoesNotCountUnlessItShouldHaveIt) {
  api::ProbePolicy policy = CpuPolicy();
  policy.checks.push_back(ProbeCheck::kGpu);
  const api::MissingProbe none{ProbeCheck::kGpu, api::ProbeGap::kNotThere, "no driver"};
  std::vector<ProbedNode> fleet = Fleet({800, 800, 800});
  ProbedNode node = Probed("n", 800);
  node.found.missing = {none};
  EXPECT_EQ(VerdictOf(node, fleet, policy), ProbeVerdict::kPassed);
  // Its label says that it has some, or those like it have.
  node.gpu_product = "H200";
  for (ProbedNode& other : fleet) other.gpu_product = "H200";
  EXPECT_EQ(VerdictOf(node, fleet, policy), ProbeVerdict::kUnknown);
  node.gpu_product.clear();
  for (ProbedNode& other : fleet) {
    other.gpu_product.clear();
    other.found.figures.push_back({"gpuMultiply", 50'000, "GFLOP/s", kProbeTime, ""});
  }
  EXPECT_EQ(VerdictOf(node, fleet, policy), ProbeVerdict::kUnknown);
  node.found.figures.clear();
  EXPECT_EQ(VerdictOf(node, Fleet({800, 800, 800}), policy), ProbeVerdict::kUnknown) << "something must be known";
}

TEST(ProbeJudge, OfATimeLessIsBetterAndScatterIsAllowedFor) {
  api::ProbePolicy policy = CpuPolicy();
  policy.checks = {ProbeCheck::kNetwork};
  const auto with = [](const std::string& name, double microseconds) {
    ProbedNode node = Probed(name, 1);
    node.found.figures = {{"networkRoundTrip", microseconds, "us", kProbeTime, "from f0"}};
    return node;
  };
  const std::vector<ProbedNode> fleet = {with("a", 50), with("b", 50), with("c", 50)};
  EXPECT_EQ(VerdictOf(with("n", 20), fleet, policy), ProbeVerdict::kPassed);
  EXPECT_EQ(VerdictOf(with("n", 90), fleet, policy), ProbeVerdict::kPassed) << "five times the tolerance";
  EXPECT_EQ(VerdictOf(with("n", 110), fleet, policy), ProbeVerdict::kFailed);
  const ProbeFinding finding = JudgeProbe(with("n", 200), fleet, policy, kProbeTime);
  EXPECT_NEAR(finding.figures[0].speed, 0.25, 1e-9);
}

TEST(ProbeJudge, TellsItsNumbers) {
  ProbedNode node = Probed("n", 212);
  node.found.figures[0].detail = "had a processor for 25 % of the time";
  const ProbeFinding failed = JudgeProbe(node, Fleet({845, 845, 845}), CpuPolicy(), kProbeTime);
  EXPECT_EQ(ProbeSentence(failed),
            "cpuOneThread 212 Mop/s, where 3 like nodes have 845 (had a processor for 25 % of the time)");
  const std::vector<api::EvidenceNumber> evidence = ProbeEvidence(failed);
  ASSERT_EQ(evidence.size(), 1u);
  EXPECT_EQ(evidence[0].name, "probe.cpuOneThread");
  EXPECT_EQ(evidence[0].value, 212);
  EXPECT_EQ(evidence[0].usual, 845);
  const ProbeFinding unknown = JudgeProbe(node, Fleet({845}), CpuPolicy(), kProbeTime);
  EXPECT_THAT(ProbeSentence(unknown), HasSubstr("1 like nodes to compare with, where 3 are wanted"));
}

}  // namespace
}  // namespace paceline::operator_
