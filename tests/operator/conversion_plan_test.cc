#include "operator/image/conversion_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/messages.h"

namespace paceline::operator_ {
namespace {

using namespace std::chrono_literals;
using api::ConversionState;
using testing::HasSubstr;

constexpr WallTime kFirstLook{500'000h};
constexpr char kBlockStore[] = "docker://registry.test:5000/blocks";

// One image, and a server on which what a plan asks for is done at once.
class ConversionPlanTest : public testing::Test {
 public:
  ConversionPlanTest() {
    profile_.metadata.name = "p";
    profile_.metadata.uid = "profile-uid";
    profile_.metadata.generation = 1;
    profile_.spec.image = "registry.test:5000/train";
    profile_.spec.digest = "sha256:" + std::string(64, 'a');
  }

  ConversionPlan Pass(const std::string& refused = "") {
    ConversionPlan plan = PlanConversion({profile_, job_, kBlockStore, refused, is_wanted_, has_room_, now_});
    profile_.status = plan.status;
    if (plan.step == ConversionStep::kCreateJob && refused.empty()) {
      job_ = ConversionJobFacts{};
      job_->uid = "job-" + std::to_string(++jobs_made_);
    }
    if (plan.step == ConversionStep::kDeleteJob) job_.reset();
    return plan;
  }
  void End(ConversionReport report) {
    job_->end = report.error.ok() ? ConversionJobEnd::kSucceeded : ConversionJobEnd::kFailed;
    job_->report = std::move(report);
  }
  static ConversionReport Made() {
    ConversionReport report;
    report.image = "sha256:" + std::string(64, 'c');
    report.source = "sha256:" + std::string(64, 'b');
    report.source_bytes = 900;
    report.stored_bytes = 800;
    return report;
  }
  static ConversionReport Broken(Status error) {
    ConversionReport report;
    report.error = std::move(error);
    return report;
  }
  std::string Reason() const {
    const api::Condition* condition = api::FindCondition(profile_.status.conditions, kConvertedCondition);
    return condition == nullptr ? "" : condition->reason;
  }
  std::string Message() const {
    const api::Condition* condition = api::FindCondition(profile_.status.conditions, kConvertedCondition);
    return condition == nullptr ? "" : condition->message;
  }

 protected:
  api::ImageProfile profile_;
  std::optional<ConversionJobFacts> job_;
  bool is_wanted_ = true;
  bool has_room_ = true;
  WallTime now_ = kFirstLook;
  int jobs_made_ = 0;
};

TEST_F(ConversionPlanTest, ConvertsOnce) {
  ConversionPlan plan = Pass();
  EXPECT_EQ(plan.step, ConversionStep::kCreateJob);
  EXPECT_EQ(plan.news, &kImageConverting);
  EXPECT_EQ(profile_.status.state, ConversionState::kConverting);
  plan = Pass();
  EXPECT_EQ(plan.step, ConversionStep::kNone);
  EXPECT_EQ(plan.news, nullptr);
  End(Made());
  plan = Pass();
  EXPECT_EQ(plan.step, ConversionStep::kDeleteJob);
  EXPECT_EQ(plan.news, &kImageConverted);
  EXPECT_EQ(profile_.status.state, ConversionState::kReady);
  ASSERT_TRUE(profile_.status.artifact.has_value());
  EXPECT_EQ(profile_.status.artifact->repository, kBlockStore);
  EXPECT_EQ(profile_.status.artifact->digest, Made().image);
  EXPECT_EQ(profile_.status.artifact->size_bytes, 800);
  EXPECT_EQ(profile_.status.manifest, Made().source);
  EXPECT_EQ(profile_.status.source_bytes, 900);
  EXPECT_EQ(profile_.status.converted_at, now_);
  EXPECT_TRUE(api::IsConditionTrue(profile_.status.conditions, kConvertedCondition));
  for (const bool is_wanted : {true, false}) {
    is_wanted_ = is_wanted;
    EXPECT_EQ(Pass().step, ConversionStep::kNone);
  }
}

TEST_F(ConversionPlanTest, AJobThatIsLeftOfAReadyImageGoes) {
  Pass();
  End(Made());
  const std::optional<ConversionJobFacts> left = job_;
  Pass();
  job_ = left;  // the operator died before it deleted it
  EXPECT_EQ(Pass().step, ConversionStep::kDeleteJob);
  EXPECT_EQ(profile_.status.state, ConversionState::kReady);
}

TEST_F(ConversionPlanTest, AnEndIsCountedOnceWhateverIsLost) {
  Pass();
  End(Broken(PermissionDeniedError("pull access denied")));
  const std::optional<ConversionJobFacts> ended = job_;
  ConversionPlan plan = Pass();
  EXPECT_EQ(plan.step, ConversionStep::kDeleteJob);
  EXPECT_EQ(plan.news->reason, "ConversionDenied");
  EXPECT_EQ(profile_.status.state, ConversionState::kFailed);
  EXPECT_THAT(Message(), HasSubstr("pull access denied"));
  EXPECT_THAT(Message(), HasSubstr("conversion.registrySecret"));
  EXPECT_EQ(profile_.status.tries->failures, 1);
  job_ = ended;  // the operator died before it deleted it
  plan = Pass();
  EXPECT_EQ(plan.step, ConversionStep::kDeleteJob);
  EXPECT_EQ(plan.news, nullptr);
  EXPECT_EQ(profile_.status.tries->failures, 1);
}

TEST_F(ConversionPlanTest, IsTriedAgainLaterAndLater) {
  Duration waited{};
  for (int64_t failure = 1; failure <= 12; ++failure) {
    ASSERT_EQ(Pass().step, ConversionStep::kCreateJob) << failure;
    EXPECT_EQ(profile_.status.state, ConversionState::kConverting);
    End(Broken(UnavailableError("registry away")));
    const ConversionPlan failed = Pass();
    EXPECT_EQ(failed.news->reason, "RegistryUnreachable");
    ASSERT_TRUE(failed.look_again.has_value());
    EXPECT_GE(*failed.look_again, waited);
    waited = *failed.look_again;
    const ConversionPlan early = Pass();
    EXPECT_EQ(early.step, ConversionStep::kNone) << failure;
    EXPECT_EQ(early.look_again, waited);
    now_ += waited;
  }
  EXPECT_EQ(waited, 6h);
  ASSERT_EQ(Pass().step, ConversionStep::kCreateJob);
  End(Made());
  Pass();
  EXPECT_EQ(profile_.status.state, ConversionState::kReady);
  EXPECT_FALSE(profile_.status.tries.has_value());
}

TEST_F(ConversionPlanTest, SaysWhyAConversionFailed) {
  const struct {
    const char* name;
    std::function<void(ConversionJobFacts&)> change;
    const char* reason;
    const char* text;
    Duration wait;
  } cases[] = {
      {"report", [](auto& j) { j.report = Broken(UnimplementedError("encrypted layer 3")); }, "ImageNotConvertible",
       "encrypted layer 3", 6h},
      {"damage", [](auto& j) { j.report = Broken(DataLossError("DiffID")); }, "ImageDamaged", "DiffID", 1min},
      {"full", [](auto& j) { j.report = Broken(ResourceExhaustedError("quota")); }, "StoreFull", "quota", 1min},
      {"internal", [](auto& j) { j.report = Broken(InternalError("bug")); }, "ConversionFailed", "bug", 1min},
      {"memory", [](auto& j) { j.failure = "OOMKilled"; }, "ConversionOutOfMemory", "limits.memory", 1min},
      {"time", [](auto& j) { j.failure = "DeadlineExceeded"; }, "ConversionTooLong", "timeLimit", 1min},
      {"pod gone", [](auto& j) { j.failure_detail = "has reached the specified backoff limit"; }, "ConversionFailed",
       "backoff limit", 1min},
      {"no report", [](auto& j) { j.end = ConversionJobEnd::kSucceeded; }, "ConversionFailed", "no report", 1min},
  };
  for (const auto& c : cases) {
    profile_.status = {};
    job_.reset();
    Pass();
    job_->end = ConversionJobEnd::kFailed;
    c.change(*job_);
    const ConversionPlan plan = Pass();
    EXPECT_EQ(Reason(), c.reason) << c.name;
    EXPECT_THAT(Message(), HasSubstr(c.text)) << c.name;
    EXPECT_THAT(Message(), HasSubstr("registry.test:5000/train@sha256:aaa")) << c.name;
    EXPECT_EQ(plan.look_again, c.wait) << c.name;
    EXPECT_EQ(plan.step, ConversionStep::kDeleteJob) << c.name;
  }
}

TEST_F(ConversionPlanTest, WaitsForRoomAndForSomebodyWhoNeedsIt) {
  is_wanted_ = false;
  ConversionPlan plan = Pass();
  EXPECT_EQ(plan.step, ConversionStep::kNone);
  EXPECT_EQ(Reason(), "NotNeeded");
  is_wanted_ = true;
  has_room_ = false;
  plan = Pass();
  EXPECT_EQ(plan.step, ConversionStep::kNone);
  EXPECT_EQ(profile_.status.state, ConversionState::kWaiting);
  EXPECT_EQ(Reason(), "Queued");
  ASSERT_TRUE(plan.look_again.has_value());
  has_room_ = true;
  EXPECT_EQ(Pass().step, ConversionStep::kCreateJob);
}

TEST_F(ConversionPlanTest, AFailedOneIsNotTriedForNobody) {
  Pass();
  End(Broken(UnavailableError("registry away")));
  Pass();
  now_ += 1h;
  is_wanted_ = false;
  const ConversionPlan plan = Pass();
  EXPECT_EQ(plan.step, ConversionStep::kNone);
  EXPECT_FALSE(plan.look_again.has_value());
  EXPECT_EQ(profile_.status.state, ConversionState::kFailed);
  EXPECT_EQ(Reason(), "RegistryUnreachable");
}

TEST_F(ConversionPlanTest, AJobThatTheServerRefusesIsAFailure) {
  const ConversionPlan plan = Pass("containers[0].image: Required value");
  EXPECT_EQ(plan.step, ConversionStep::kNone);
  EXPECT_EQ(Reason(), "ConversionJobRejected");
  EXPECT_THAT(Message(), HasSubstr("Required value"));
  EXPECT_EQ(plan.look_again, 6h);
}

TEST_F(ConversionPlanTest, LeavesTheJobOfAnEarlierProfileToTheGarbageCollector) {
  job_ = ConversionJobFacts{};
  job_->is_ours = false;
  job_->end = ConversionJobEnd::kSucceeded;
  job_->report = Made();
  const ConversionPlan plan = Pass();
  EXPECT_EQ(plan.step, ConversionStep::kNone);
  EXPECT_TRUE(plan.look_again.has_value());
  EXPECT_NE(profile_.status.state, ConversionState::kReady);
}

TEST_F(ConversionPlanTest, SaysWhatItsPodWaitsFor) {
  Pass();
  job_->waiting = "pod x: 0/2 nodes are available";
  Pass();
  EXPECT_EQ(Reason(), "Converting");
  EXPECT_THAT(Message(), HasSubstr("0/2 nodes"));
}

TEST_F(ConversionPlanTest, AnotherStoreMakesItAnew) {
  Pass();
  End(Made());
  Pass();
  profile_.status.artifact->repository = "docker://other.test/blocks";
  EXPECT_EQ(Pass().step, ConversionStep::kCreateJob);
}

}  // namespace
}  // namespace paceline::operator_
