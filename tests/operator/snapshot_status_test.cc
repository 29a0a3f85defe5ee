#include "operator/dependencies/snapshot_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lib/api/codec.h"
#include "lib/base/json.h"
#include "lib/deps/key.h"
#include "tests/operator/pod_builder.h"

namespace paceline::operator_ {
namespace {

using api::InstallCause;
using api::SnapshotState;
using State = api::DependencyState;
using std::chrono::hours;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kKey(64, 'a');

SnapshotReport Report(const std::string& node, State state, int64_t at_ms,
                      std::optional<InstallCause> cause = InstallCause::kNoSnapshot) {
  SnapshotReport report;
  report.told.node = node;
  report.told.pod = {"team", "pod-" + node};
  report.told.pod_uid = "uid-" + node;
  report.run = "run-" + node;
  report.told.dependencies.key = kKey;
  report.told.dependencies.state = state;
  report.told.dependencies.at = AtMs(at_ms);
  report.told.dependencies.cause = state == State::kRestored ? std::nullopt : cause;
  return report;
}
SnapshotReport Holding(SnapshotReport report, const std::string& digest, int64_t recorded_ms,
                       int64_t expires_ms = 3'600'000) {
  report.told.dependencies.digest = digest;
  report.told.dependencies.size_bytes = 1000;
  report.told.dependencies.stored_bytes = 400;
  report.told.dependencies.recorded_at = AtMs(recorded_ms);
  report.told.dependencies.expires_at = AtMs(expires_ms);
  return report;
}
SnapshotReport NotRecorded(const std::string& node, int64_t at_ms, const std::string& why) {
  SnapshotReport report = Report(node, State::kNotRecorded, at_ms);
  report.told.dependencies.not_recorded = why;
  return report;
}

api::DependencySnapshotStatus Next(const api::DependencySnapshotStatus& before, std::vector<SnapshotReport> reports,
                                   int64_t now_ms = 60'000) {
  return ComputeSnapshotStatus({before, 1, std::move(reports), AtMs(now_ms)});
}
const api::Condition& Ready(const api::DependencySnapshotStatus& status) {
  return *api::FindCondition(status.conditions, kSnapshotReadyCondition);
}

TEST(SnapshotStatus, GoesFromRecordingToReadyAndCountsRuns) {
  api::DependencySnapshotStatus status = Next({}, {Report("n1", State::kInstalling, 0)});
  EXPECT_EQ(status.state, SnapshotState::kRecording);
  EXPECT_EQ(Ready(status).status, api::ConditionStatus::kUnknown);
  status = Next(status, {Report("n1", State::kRecording, 0), Report("n2", State::kInstalling, 0)});
  EXPECT_EQ(status.recorded_by_pod, "pod-n1");

  const SnapshotReport recorded = Holding(Report("n1", State::kRecorded, 0), "sha256:1", 20'000);
  status = Next(status, {recorded, NotRecorded("n2", 0, "the lease is held")});
  EXPECT_EQ(status.state, SnapshotState::kReady);
  EXPECT_EQ(Ready(status).status, api::ConditionStatus::kTrue);
  EXPECT_EQ(status.digest, "sha256:1");
  EXPECT_EQ(status.size_bytes, 1000);
  EXPECT_EQ(status.stored_bytes, 400);
  EXPECT_EQ(status.recorded_by_run, "run-n1");
  EXPECT_EQ(status.recorded_by_node, "n1");
  EXPECT_EQ(status.uses, 0);
  EXPECT_EQ(status.last_used, std::nullopt);

  SnapshotReport used = Holding(Report("n3", State::kRestored, 40'000), "sha256:1", 20'000);
  SnapshotReport twin = Holding(Report("n4", State::kRestored, 41'000), "sha256:1", 20'000);
  twin.run = used.run;
  SnapshotReport unknown = Holding(Report("n5", State::kRestored, 42'000), "sha256:1", 20'000);
  unknown.run.clear();
  for (int look = 0; look < 3; ++look) status = Next(status, {recorded, used, twin, unknown});
  EXPECT_EQ(status.uses, 1);
  EXPECT_EQ(status.last_used, AtMs(42'000));
  EXPECT_THAT(status.recent_runs, ElementsAre("run-n3"));
  // Who recorded is kept when its report is gone, and nothing is counted again.
  status = Next(status, {used});
  EXPECT_EQ(status.uses, 1);
  EXPECT_EQ(status.recorded_by_run, "run-n1");
  EXPECT_EQ(api::ToJson(api::DependencySnapshot{{}, {}, Next(status, {})}),
            api::ToJson(api::DependencySnapshot{{}, {}, status}))
      << "without reports it stays";
}

TEST(SnapshotStatus, StatesFromReports) {
  const SnapshotReport ready = Holding(Report("n1", State::kRecorded, 0), "sha256:1", 10'000, 50'000);
  SnapshotReport silent = Report("n1", State::kInstalling, 0);
  silent.is_silent = true;
  SnapshotReport raced = Holding(NotRecorded("n2", 15'000, "another worker has recorded them"), "sha256:1", 10'000);
  const auto installing = [](int64_t at_ms, InstallCause cause) {
    return Report("n2", State::kInstalling, at_ms, cause);
  };
  SnapshotReport lost = Holding(Report("n2", State::kRestored, 20'000), "sha256:1", 10'000, 90'000);
  lost.told.dependencies.quarantined = "the store has no right bytes of 1 of its chunks";
  lost.told.dependencies.quarantined_at = AtMs(40'000);
  const SnapshotReport refused = NotRecorded("n1", 0, "a private key");
  const struct {
    const char* name;
    std::vector<SnapshotReport> reports;
    int64_t now_ms;
    std::string reason;
  } cases[] = {
      {"restored is as good", {Holding(Report("n1", State::kRestored, 20), "sha256:1", 10)}, 30, "Recorded"},
      {"its time is over", {ready}, 50'000, "Expired"},
      {"and it is made anew", {ready, installing(51'000, InstallCause::kSnapshotEnded)}, 52'000, "Recording"},
      {"a store that is away", {ready, installing(20'000, InstallCause::kStoreUnavailable)}, 30'000, "Recorded"},
      {"one that began before", {ready, installing(5'000, InstallCause::kNoSnapshot)}, 30'000, "Recorded"},
      {"gone from the store", {ready, installing(20'000, InstallCause::kNoSnapshot)}, 30'000, "Recording"},
      {"missed by a fast clock and then found", {ready, raced}, 30'000, "Recorded"},
      {"damaged, installing", {ready, installing(20'000, InstallCause::kDamaged)}, 30'000, "Damaged"},
      {"not signed", {ready, installing(20'000, InstallCause::kNotTrusted)}, 30'000, "NotTrusted"},
      {"put aside before", {ready, installing(20'000, InstallCause::kQuarantined)}, 30'000, "Quarantined"},
      {"and who has done it is known",
       {ready, installing(25'000, InstallCause::kQuarantined), installing(20'000, InstallCause::kNotTrusted)},
       30'000,
       "NotTrusted"},
      {"put aside, and recorded anew",
       {installing(20'000, InstallCause::kNotTrusted),
        Holding(Report("n3", State::kRecorded, 20'000), "sha256:2", 25'000)},
       30'000,
       "Recorded"},
      {"found damaged while it was mounted", {ready, lost}, 50'000, "Damaged"},
      {"and restored by another after it was lifted",
       {ready, lost, Holding(Report("n3", State::kRestored, 45'000), "sha256:1", 10'000)},
       46'000,
       "Recorded"},
      {"damaged", {ready, Report("n2", State::kNotRecorded, 20'000, InstallCause::kDamaged)}, 30'000, "Damaged"},
      {"not recorded", {refused}, 30'000, "NotRecorded"},
      {"tried again", {refused, installing(20'000, InstallCause::kNoSnapshot)}, 30'000, "Recording"},
      {"its node is dead", {silent}, 30'000, "RecorderGone"},
  };
  for (const auto& c : cases) {
    const api::DependencySnapshotStatus status = Next({}, c.reports, c.now_ms);
    EXPECT_EQ(Ready(status).reason, c.reason) << c.name;
    const bool is_aside = c.reason == "Damaged" || c.reason == "NotTrusted" || c.reason == "Quarantined";
    const SnapshotState state = c.reason == "Recorded"    ? SnapshotState::kReady
                                : c.reason == "Recording" ? SnapshotState::kRecording
                                : c.reason == "Expired"   ? SnapshotState::kExpired
                                : is_aside                ? SnapshotState::kQuarantined
                                                          : SnapshotState::kFailed;
    EXPECT_EQ(status.state, state) << c.name;
    EXPECT_EQ(Ready(status).message.empty(), state != SnapshotState::kFailed && !is_aside) << c.name;
  }
}

TEST(SnapshotStatus, FailuresReadAsAdvice) {
  api::DependencySnapshotStatus status =
      Next({}, {NotRecorded("n1", 0, "older"), NotRecorded("n2", 5, "/opt/venv/id_rsa is a private key")});
  EXPECT_EQ(Ready(status).message,
            "pod pod-n2 on node n2: /opt/venv/id_rsa is a private key (every pod installs until one can; do what the "
            "message says; the next start tries again)");
  EXPECT_EQ(Next(status, {}).state, SnapshotState::kFailed) << "nobody has anything else to say";
  EXPECT_EQ(Ready(Next(status, {})).message, Ready(status).message);
  const api::DependencySnapshotStatus recording = Next({}, {Report("n1", State::kRecording, 0)});
  EXPECT_THAT(Ready(Next(recording, {})).reason, "RecorderGone");
}

TEST(SnapshotStatus, ANewRecordingTakesThePlaceOfTheOld) {
  api::DependencySnapshotStatus status = Next({}, {Holding(Report("n1", State::kRecorded, 0), "sha256:1", 10'000)});
  const SnapshotReport second = Holding(Report("n2", State::kRecorded, 30'000), "sha256:2", 40'000);
  status = Next(status, {Holding(Report("n1", State::kRecorded, 0), "sha256:1", 10'000), second});
  EXPECT_EQ(status.digest, "sha256:2");
  EXPECT_EQ(status.recorded_by_node, "n2");
  // A pod of before that still runs on the old one.
  status = Next(status, {Holding(Report("n3", State::kRestored, 20'000), "sha256:1", 10'000)});
  EXPECT_EQ(status.digest, "sha256:2");
}

TEST(SnapshotStatus, RemembersSoManyRuns) {
  api::DependencySnapshotStatus status;
  std::vector<SnapshotReport> reports;
  for (int i = 0; i < 300; ++i) {
    reports.push_back(Holding(Report("n" + std::to_string(i), State::kRestored, 20'000), "sha256:1", 10'000));
  }
  status = Next(status, reports);
  EXPECT_EQ(status.uses, 300);
  EXPECT_EQ(status.recent_runs.size(), api::kMaxRecentRuns);
  EXPECT_EQ(status.recent_runs.back(), "run-n299");
}

TEST(SnapshotStatus, EndedOnesGoAfterAWhile) {
  const SnapshotReport recorded = Holding(Report("n1", State::kRecorded, 0), "sha256:1", 10'000, 50'000);
  EXPECT_EQ(RemovalTime(Next({}, {recorded}, 20'000), hours(24)), std::nullopt);
  EXPECT_EQ(RemovalTime(Next({}, {recorded}, 60'000), hours(24)), AtMs(50'000) + hours(24));
  EXPECT_EQ(RemovalTime(Next({}, {Report("n1", State::kInstalling, 0)}), hours(24)), std::nullopt);
  EXPECT_EQ(RemovalTime(Next({}, {NotRecorded("n1", 0, "x")}, 70'000), hours(24)), AtMs(70'000) + hours(24));
}

TEST(SnapshotSpec, IsReadFromThePodsVolume) {
  deps::KeyInputs key;
  key.ns = "team";
  key.image = "sha256:" + std::string(64, 'b');
  key.machine.arch = "x86_64";
  key.command = std::string(20'000, 'c');
  key.inputs = {{"/inputs/requirements.txt", blocks::Sha256Of("x")}};
  key.environment = {{"PIP_INDEX_URL", std::string(5'000, 'u')}};
  for (int i = 0; i < 100; ++i) key.environment["PIP_" + std::to_string(i)] = "1";
  key.capture = {"/opt/venv"};
  const nlohmann::json document = deps::KeyDocument(key);
  const std::string hex = deps::KeyOf(document).Hex();
  nlohmann::json pod = {
      {"spec",
       {{"volumes",
         {{{"name", "other"}},
          {{"name", "deps"},
           {"csi",
            {{"driver", "csi.paceline.dev"},
             {"volumeAttributes", {{"type", "deps"}, {"key", DumpJson(document)}, {"ttl", "12h"}}}}}}}}}}};
  const Result<api::DependencySnapshotSpec> spec = SnapshotSpecOf(pod, hex);
  ASSERT_TRUE(spec.ok()) << spec.status().ToString();
  EXPECT_EQ(spec->key, hex);
  EXPECT_EQ(spec->ttl, hours(12));
  EXPECT_EQ(spec->inputs.files[0].path, "/inputs/requirements.txt");
  api::DependencySnapshot snapshot;
  snapshot.metadata.name = "deps-x";
  snapshot.spec = *spec;
  EXPECT_THAT(api::Validate(snapshot), ElementsAre()) << "whatever its length the API takes it";
  EXPECT_EQ(SnapshotSpecOf(pod, kKey).status().code(), StatusCode::kNotFound);
  pod["spec"]["volumes"][1]["csi"]["driver"] = "other";
  EXPECT_EQ(SnapshotSpecOf(pod, hex).status().code(), StatusCode::kNotFound);
  for (const char* odd : {R"({})", R"({"spec":{"volumes":{}}})", R"({"spec":{"volumes":[1,{"csi":2}]}})"}) {
    EXPECT_FALSE(SnapshotSpecOf(nlohmann::json::parse(odd), hex).ok()) << odd;
  }
}

}  // namespace
}  // namespace paceline::operator_
