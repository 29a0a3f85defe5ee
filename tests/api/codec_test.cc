#include "lib/api/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lib/api/dependency_snapshot.h"
#include "lib/api/image_profile.h"
#include "lib/api/incident.h"
#include "lib/api/node_plan.h"
#include "lib/api/straggler_policy.h"
#include "lib/api/training_job.h"
#include "lib/api/training_run.h"
#include "tests/api/case_file.h"

namespace paceline::api {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Runs `use` with a null pointer of the kind's type.
template <typename Use>
auto WithKind(const std::string& kind, Use use) {
  if (kind == "TrainingJob") return use(static_cast<TrainingJob*>(nullptr));
  if (kind == "TrainingRun") return use(static_cast<TrainingRun*>(nullptr));
  if (kind == "NodePlan") return use(static_cast<NodePlan*>(nullptr));
  if (kind == "ImageProfile") return use(static_cast<ImageProfile*>(nullptr));
  if (kind == "DependencySnapshot") return use(static_cast<DependencySnapshot*>(nullptr));
  if (kind == "StragglerPolicy") return use(static_cast<StragglerPolicy*>(nullptr));
  return use(static_cast<Incident*>(nullptr));
}

// What reading and checking `object` has to complain about, "path: message" each.
std::vector<std::string> Complaints(const std::string& kind, const Json& object) {
  return WithKind(kind, [&]<typename T>(T*) -> std::vector<std::string> {
    const Result<T> parsed = FromJson<T>(object);
    if (!parsed.ok()) return {parsed.status().message()};
    std::vector<std::string> complaints;
    for (const FieldError& error : Validate(*parsed)) complaints.push_back(error.ToString());
    return complaints;
  });
}

// All that `part` says, `whole` says too; defaults may have come on top.
void ExpectContains(const Json& whole, const Json& part, const std::string& path) {
  if (part.is_object()) {
    for (const auto& [key, value] : part.items()) {
      ASSERT_TRUE(whole.contains(key)) << path << "." << key;
      ExpectContains(whole.at(key), value, path + "." + key);
    }
  } else if (part.is_array()) {
    ASSERT_EQ(whole.size(), part.size()) << path;
    for (size_t i = 0; i < part.size(); ++i) ExpectContains(whole.at(i), part.at(i), path + "[]");
  } else if (path != "DependencySnapshot.spec.ttl") {  // 168h is written as 7d
    EXPECT_EQ(whole, part) << path;
  }
}

TEST(Codec, AcceptsAndRefusesWhatTheCaseFileSays) {
  const Json file = LoadCases();
  for (const Json& test_case : file.at("cases")) {
    const std::string name = test_case.at("kind").get<std::string>() + ": " + test_case.at("name").get<std::string>();
    const std::vector<std::string> complaints = Complaints(test_case.at("kind"), CaseObject(file, test_case));
    if (!test_case.contains("error")) {
      EXPECT_THAT(complaints, ElementsAre()) << name;
      continue;
    }
    ASSERT_FALSE(complaints.empty()) << name;
    const std::string path = test_case.at("error").get<std::string>();
    EXPECT_EQ(complaints.front().substr(0, path.size()), path) << name << ": " << complaints.front();
  }
}

TEST(Codec, EveryExampleSurvivesAWriteAndARead) {
  const Json file = LoadCases();
  for (const auto& entry : file.at("bases").items()) {
    const std::string& kind = entry.key();
    const Json& object = entry.value();
    const Json written = WithKind(kind, [&]<typename T>(T*) { return ToJson(*FromJson<T>(object)); });
    const Json again = WithKind(kind, [&]<typename T>(T*) { return ToJson(*FromJson<T>(written)); });
    EXPECT_EQ(written, again) << kind;
    EXPECT_EQ(written.at("kind"), kind);
    EXPECT_EQ(written.at("apiVersion"), "paceline.dev/v1alpha1");
    ExpectContains(written, object, kind);
    EXPECT_FALSE(written.contains("status")) << kind;
  }
}

TEST(Codec, FillsInDefaults) {
  const Json object = {{"spec", {{"workers", 4}, {"template", {{"spec", {{"containers", {{{"name", "a"}}}}}}}}}}};
  const Result<TrainingJob> job = FromJson<TrainingJob>(object);
  ASSERT_TRUE(job.ok()) << job.status().ToString();
  EXPECT_EQ(job->spec.procs_per_worker, 1);
  EXPECT_EQ(job->spec.rendezvous.port, 29500);
  EXPECT_EQ(job->spec.restart_policy.mode, RestartMode::kNever);
  EXPECT_EQ(job->spec.restart_policy.max_restarts, 3);
  EXPECT_TRUE(job->spec.startup.image.prefetch);
  EXPECT_EQ(job->spec.run_history_limit, 5);
  EXPECT_FALSE(job->spec.startup.dependencies.has_value());
  EXPECT_EQ(job->spec.pod_template->at("spec").at("containers").at(0).at("name"), "a");
}

TEST(Codec, NamesEveryFieldOfTheWrongType) {
  const Json object = {{"metadata", {{"name", 7}}},
                       {"spec",
                        {{"workers", "two"},
                         {"template", Json::array()},
                         {"suspend", "no"},
                         {"checkpoints", {{{"name", "a"}, {"uri", 1}, {"mountPath", "/a"}}}}}}};
  const Status status = FromJson<TrainingJob>(object).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  for (const char* part :
       {"metadata.name: must be text, not a whole number", "spec.workers: must be a whole number, not text",
        "spec.template: must be an object, not a list", "spec.suspend: must be true or false, not text",
        "spec.checkpoints[0].uri: must be text, not a whole number"}) {
    EXPECT_THAT(status.message(), HasSubstr(part));
  }
}

TEST(Codec, RefusesNumbersThatDoNotFit) {
  Json object = LoadCases().at("bases").at("TrainingJob");
  const Json numbers[] = {Json(18446744073709551615ULL), Json(1e300), Json(true), Json(nullptr)};
  for (const Json& number : numbers) {
    object["spec"]["workers"] = number;
    EXPECT_FALSE(FromJson<TrainingJob>(object).ok()) << number;
  }
}

TEST(Codec, UnknownFieldsAreReadOverOrRefusedWithASuggestion) {
  Json object = LoadCases().at("bases").at("TrainingJob");
  object["spec"]["procPerWorker"] = 8;
  EXPECT_TRUE(FromJson<TrainingJob>(object).ok());
  const Status status = FromJson<TrainingJob>(object, UnknownFields::kReject).status();
  EXPECT_EQ(status.message(), "spec.procPerWorker: unknown field; did you mean procsPerWorker?");
  object["spec"].erase("procPerWorker");
  object["metadata"]["managedFields"] = Json::array();  // written by the API server, never by a person
  EXPECT_TRUE(FromJson<TrainingJob>(object, UnknownFields::kReject).ok());
}

TEST(Codec, RefusesAnotherKindAndVersion) {
  Json object = LoadCases().at("bases").at("TrainingRun");
  EXPECT_THAT(FromJson<TrainingJob>(object).status().message(), HasSubstr("kind: must be TrainingJob"));
  object["apiVersion"] = "paceline.dev/v9";
  EXPECT_THAT(FromJson<TrainingRun>(object).status().message(), HasSubstr("apiVersion: must be paceline.dev/v1alpha1"));
  EXPECT_FALSE(FromJson<TrainingRun>(Json::array()).ok());
}

TEST(Codec, RefusesTextThatIsNotUtf8AndNeverWritesIt) {
  Json object = LoadCases().at("bases").at("TrainingJob");
  object["spec"]["stragglerPolicy"] = "a\xff";
  EXPECT_THAT(FromJson<TrainingJob>(object).status().message(), HasSubstr("spec.stragglerPolicy: must be UTF-8"));
  object["spec"].erase("stragglerPolicy");
  object["spec"]["template"]["spec"]["hostname"] = "\xc3";
  EXPECT_THAT(FromJson<TrainingJob>(object).status().message(), HasSubstr("spec.template: must be UTF-8"));

  TrainingRun run;
  run.status.nodes = {"n\xff"};
  run.metadata.labels = {{"k\xff", "v\xff"}};
  EXPECT_NO_THROW(ToJson(run).dump());
}

TEST(Codec, WritesAnEmptySpecBecauseEveryKindRequiresOne) { EXPECT_EQ(ToJson(NodePlan{}).at("spec"), Json::object()); }

TEST(Codec, WritesAStatusOnceThereIsOne) {
  TrainingRun run;
  EXPECT_FALSE(ToJson(run).contains("status"));
  run.status.phase = RunPhase::kStarting;
  run.status.stages = {{.name = StageName::kImage, .max_seconds = 1.5, .workers = 2, .source = StageSource::kEvent}};
  const Json written = ToJson(run);
  EXPECT_EQ(written.at("status").at("phase"), "Starting");
  EXPECT_EQ(written.at("status").at("stages").at(0),
            Json({{"name", "Image"}, {"maxSeconds", 1.5}, {"workers", 2}, {"source", "Event"}}));
}

TEST(Codec, KeepsTheListsOfARunWithinTheirLimits) {
  TrainingRun run;
  run.spec.job = {"batch/v1", "Job", "j", "u"};
  run.status.workers.resize(kMaxWorkerTimes);
  EXPECT_TRUE(Validate(run).empty());
  run.status.workers.resize(kMaxWorkerTimes + 1);
  EXPECT_THAT(Validate(run), ElementsAre(FieldError{"status.workers", "must have at most 256 entries, has 257"}));
}

TEST(Codec, ParsesJsonTextWithinLimits) {
  EXPECT_TRUE(ParseJson(R"({"a": [1, "x"]})").ok());
  EXPECT_EQ(ParseJson("{").status().message(), "must be JSON");
  EXPECT_EQ(ParseJson("\"\xff\"").status().message(), "must be JSON in UTF-8");
  EXPECT_FALSE(ParseJson(std::string(4 << 20, ' ')).ok());
  EXPECT_FALSE(ParseJson(std::string(200000, '[')).ok());
  EXPECT_TRUE(ParseJson(R"({"a": "[[[[\"[["})").ok());
}

TEST(Codec, KnowsTheNamesOfEachKind) {
  EXPECT_EQ(KindOf<TrainingRun>().short_name, "run");
  EXPECT_EQ(KindOf<StragglerPolicy>().plural, "stragglerpolicies");
  EXPECT_EQ(CustomResourceDefinition("Pod").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace paceline::api
