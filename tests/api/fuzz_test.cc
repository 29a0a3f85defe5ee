// Damaged input never crashes a parser of lib/api: cut short, with flipped bytes, and with each value replaced by one
// of another type. Sanitizer runs of the suite make this a search for undefined behaviour as well.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "lib/api/annotations.h"
#include "lib/api/codec.h"
#include "lib/api/dependency_snapshot.h"
#include "lib/api/image_profile.h"
#include "lib/api/incident.h"
#include "lib/api/job_kinds.h"
#include "lib/api/node_plan.h"
#include "lib/api/quantity.h"
#include "lib/api/straggler_policy.h"
#include "lib/api/training_job.h"
#include "lib/api/training_run.h"
#include "tests/api/case_file.h"

namespace paceline::api {
namespace {

template <typename T>
void ReadOne(const Json& object) {
  for (UnknownFields unknown : {UnknownFields::kIgnore, UnknownFields::kReject}) {
    const Result<T> parsed = FromJson<T>(object, unknown);
    if (!parsed.ok()) {
      EXPECT_FALSE(parsed.status().message().empty());
      continue;
    }
    for (const FieldError& error : Validate(*parsed)) EXPECT_FALSE(error.message.empty());
    EXPECT_NO_THROW(ToJson(*parsed).dump());
  }
}

void ReadAsEverything(const Json& object) {
  ReadOne<TrainingJob>(object);
  ReadOne<TrainingRun>(object);
  ReadOne<NodePlan>(object);
  ReadOne<ImageProfile>(object);
  ReadOne<DependencySnapshot>(object);
  ReadOne<StragglerPolicy>(object);
  ReadOne<Incident>(object);
  const PodView pod = MakePodView(object);
  if (const Result<JobIdentity> identity = IdentifyPod(pod, object); !identity.ok()) {
    EXPECT_FALSE(identity.status().message().empty());
  }
}

TEST(Fuzz, TruncatedAndFlippedText) {
  std::minstd_rand random(17);
  const Json cases = LoadCases();
  for (const auto& [kind, object] : cases.at("bases").items()) {
    const std::string text = object.dump();
    for (size_t length = 0; length < text.size(); ++length) EXPECT_FALSE(ParseJson(text.substr(0, length)).ok());
    for (int round = 0; round < 300; ++round) {
      std::string damaged = text;
      for (int flips = 0; flips < 3; ++flips)
        damaged[random() % damaged.size()] ^= static_cast<char>(1 << (random() % 8));
      const Result<Json> parsed = ParseJson(damaged);
      if (parsed.ok()) ReadAsEverything(*parsed);
    }
  }
}

// Every value of the tree replaced by each of `replacements`, one at a time.
void ReplaceEach(const Json& whole, const Json::json_pointer& where, const std::vector<Json>& replacements) {
  for (const Json& replacement : replacements) {
    Json changed = whole;
    changed[where] = replacement;
    ReadAsEverything(changed);
  }
  const Json& here = whole.at(where);
  if (!here.is_structured()) return;
  for (const auto& [key, value] : here.items()) {
    const Json::json_pointer below = here.is_array() ? where / std::stoul(key) : where / key;
    ReplaceEach(whole, below, replacements);
  }
}

TEST(Fuzz, ValuesOfOtherTypes) {
  Json deep = 1;
  for (int i = 0; i < 200; ++i) deep = Json::array({deep});
  const std::vector<Json> replacements = {nullptr,
                                          true,
                                          -1,
                                          18446744073709551615ULL,
                                          1e308,
                                          "",
                                          "\xff\xfe",
                                          deep,
                                          std::string(100'000, 'a'),
                                          Json::array(),
                                          Json::object(),
                                          Json::array({nullptr, 1, "a"}),
                                          Json({{"\xff", "\xff"}})};
  const Json cases = LoadCases();
  for (const auto& [kind, object] : cases.at("bases").items()) {
    ReplaceEach(object, Json::json_pointer(), replacements);
  }
}

TEST(Fuzz, Annotations) {
  std::minstd_rand random(29);
  const std::string checkpoints = R"([{"name": "main", "uri": "hdfs://ns/a", "mountPath": "/ckpt"}])";
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = checkpoints.substr(0, random() % (checkpoints.size() + 1));
    if (!damaged.empty()) damaged[random() % damaged.size()] = static_cast<char>(random());
    for (std::string_view name : UserAnnotations()) {
      const AnnotatedSettings read = ParseAnnotations({{std::string(name), damaged}});
      for (const FieldError& error : read.errors) EXPECT_FALSE(error.message.empty());
    }
  }
}

TEST(Fuzz, Quantities) {
  std::minstd_rand random(31);
  const std::string alphabet = "0123456789.+-eEKMGTPikmun ";
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (size_t length = random() % 24; length > 0; --length) text += alphabet[random() % alphabet.size()];
    EXPECT_GE(ParseQuantity(text).value_or(0), 0) << text;
    EXPECT_GE(ParseMilliQuantity(text).value_or(0), 0) << text;
  }
}

}  // namespace
}  // namespace paceline::api
