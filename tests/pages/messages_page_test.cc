// docs/messages.md from the tables of words in the code, and a check that every reason in the sources is in them.
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <set>

#include "agent/plan/node_status.h"
#include "cli/doctor.h"
#include "cli/error_advice.h"
#include "lib/api/incident_advice.h"
#include "lib/api/names.h"
#include "lib/api/stage_advice.h"
#include "operator/messages.h"
#include "tests/pages/page.h"

namespace paceline::pages {
namespace {

const WallTime kNow{std::chrono::seconds(1767323045)};

std::string Rows(const std::vector<api::Advice>& rows) {
  std::string out =
      "| where | reason | what happened | what it costs | what to do |\n| --- | --- | --- | --- | --- |\n";
  for (const api::Advice& row : rows) {
    const std::string reason = row.reason.empty() ? "any other" : "`" + std::string(row.reason) + "`";
    out += "| " + Cell(row.where) + " | " + reason + " | " + Cell(row.happened) + " | " +
           (row.cost.empty() ? "nothing" : Cell(row.cost)) + " | " +
           (row.action.empty() ? "nothing" : Cell(row.action)) + " |\n";
  }
  return out;
}

// A cluster where all is well, as a start for what goes wrong.
cli::ClusterFacts GoodCluster() {
  cli::ClusterFacts facts;
  facts.server_version = "v1.34.4";
  for (const api::KindInfo& kind : api::kAllKinds) {
    facts.crd_names.push_back(std::string(kind.plural) + "." + std::string(api::kGroup));
  }
  facts.lease_holder = "operator-1";
  facts.lease_renewed = kNow;
  facts.has_webhook = facts.webhook_has_ca = facts.has_csi_driver = true;
  facts.nodes = {{"NODE", true, true, "v1.34.4", "containerd://2.4.2"}};
  api::NodePlan plan;
  plan.metadata.name = "NODE";
  plan.status.heartbeat = kNow;
  plan.status.agent_version = "1";
  plan.status.facts = api::NodeFacts{};
  plan.status.facts->fuse = plan.status.facts->erofs = true;
  facts.plans = {plan};
  return facts;
}

// What `pacectl doctor` says of clusters that each have one thing wrong.
std::string DoctorRows() {
  std::vector<cli::ClusterFacts> sick;
  const auto add = [&](auto change) {
    cli::ClusterFacts facts = GoodCluster();
    change(facts);
    sick.push_back(std::move(facts));
  };
  add([](auto& f) { f.nodes_status = PermissionDeniedError("list nodes: forbidden"); });
  add([](auto& f) { f.crd_names.clear(); });
  add([](auto& f) { f.crd_names.pop_back(); });
  add([](auto& f) { f.lease_holder.reset(); });
  add([](auto& f) { f.lease_holder = ""; });
  add([](auto& f) { f.lease_renewed = kNow - std::chrono::hours(1); });
  add([](auto& f) { f.has_webhook = false; });
  add([](auto& f) { f.webhook_has_ca = false; });
  add([](auto& f) { f.has_csi_driver = false; });
  add([](auto& f) { f.nodes[0].is_ready = false; });
  add([](auto& f) { f.plans.clear(); });
  add([](auto& f) { f.plans[0].status.heartbeat.reset(); });
  add([](auto& f) { f.plans[0].status.heartbeat = kNow - std::chrono::hours(1); });
  add([](auto& f) { f.plans[0].status.facts->fuse = false; });
  add([](auto& f) { f.plans[0].status.facts->erofs = false; });
  add([](auto& f) { f.plans[0].status.agent_version = "2"; });
  std::string out = "| about | finding | what it costs and what to do |\n| --- | --- | --- |\n";
  for (const cli::ClusterFacts& facts : sick) {
    bool is_found = false;
    for (const cli::CheckResult& check : cli::Diagnose(facts, "1", kNow)) {
      if (check.level == cli::CheckLevel::kOk) continue;
      is_found = true;
      EXPECT_NE(check.advice, "") << check.subject << ": " << check.finding;
      out += "| " + Cell(check.subject) + " | " + Cell(check.finding) + " | " + Cell(check.advice) + " |\n";
    }
    EXPECT_TRUE(is_found) << "doctor found nothing in a sick cluster";
  }
  return out;
}

std::string MessagesPage() {
  return "# Messages\n\n"
         "Every event, condition and piece of advice, written from the code by `tests/pages`, which fails when this "
         "page "
         "is stale. A message says what happened and to whom, with names and numbers, then in brackets what it costs "
         "and "
         "what to do: `pod train-0, container main: ImagePullBackOff: ... (the whole gang waits for this pod; check "
         "the "
         "image's name and the pull secret)`.\n"
         "\n## Operator\n\n" +
         Rows(operator_::AllMessages()) + "\n## Agent\n\n" + Rows(agent::NodePlanMessages()) + "\n## Startups\n\n" +
         Rows(api::StartupMessages()) + "\n## Incidents\n\nWhat to do about each class of cause.\n\n" +
         Rows(api::VerdictMessages()) +
         "\n## Errors of pacectl\n\nThe message says what happened and to what; the line below it what it cost and "
         "what "
         "to "
         "do, by the kind of error.\n\n" +
         Rows(cli::ErrorMessages()) + "\n## pacectl doctor\n\nAs it says them, for a node called NODE.\n\n" +
         DoctorRows();
}

TEST(MessagesPage, IsWhatTheCodeSays) { ExpectPage("docs/messages.md", MessagesPage()); }

TEST(Messages, SayWhatHappenedWhatItCostsAndWhatToDo) {
  std::vector<api::Advice> all = operator_::AllMessages();
  for (const auto& more :
       {agent::NodePlanMessages(), api::StartupMessages(), api::VerdictMessages(), cli::ErrorMessages()})
    all.insert(all.end(), more.begin(), more.end());
  for (const api::Advice& row : all) {
    EXPECT_FALSE(row.happened.empty()) << row.where << " " << row.reason;
    // A row that costs something says what to do.
    EXPECT_EQ(row.cost.empty() && row.action.empty(), row.action.empty()) << row.where << " " << row.reason;
    const std::string said = api::Say(row, row.happened);
    EXPECT_LT(said.size(), 400u) << said;
  }
}

// Reasons are written as literals behind these words; each must be in a table.
TEST(Messages, LeaveNoReasonOfTheSourcesOut) {
  const std::string page = ReadFile(kRoot + "/docs/messages.md");
  const std::regex reason(
      "(?:reason = |Warn\\(|Tell\\(|Explanation\\{|FailOrRestart\\(\\{|return "
      "\\{|Refusal\\{|Held\\(|Failed\\(|Set\\([^;\"]*)"
      "\\s*\"([A-Z][A-Za-z]+)\"");
  size_t found = 0;
  for (const char* folder : {"operator", "agent"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(kRoot + "/" + folder)) {
      const std::string path = entry.path().string();
      if (entry.path().extension() != ".cc" || path.find("messages.cc") != std::string::npos) continue;
      const std::string text = ReadFile(path);
      for (std::sregex_iterator it(text.begin(), text.end(), reason), end; it != end; ++it) {
        ++found;
        const std::string word = (*it)[1].str();
        EXPECT_TRUE(std::regex_search(page, std::regex("\\b" + word + "\\b")))
            << path << ": " << word << " is not in docs/messages.md";
      }
    }
  }
  EXPECT_GT(found, 15u) << "the search itself is broken";
}

}  // namespace
}  // namespace paceline::pages
