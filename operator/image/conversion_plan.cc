#include "operator/image/conversion_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "operator/messages.h"

namespace paceline::operator_ {
namespace {

using api::ConversionState;

constexpr Duration kRoomCheck = std::chrono::seconds(15);
constexpr Duration kGoneCheck = std::chrono::seconds(2);
constexpr Duration kFirstBackoff = std::chrono::minutes(1);
constexpr Duration kMaxBackoff = std::chrono::hours(6);

// What no try mends: the image itself would have to change.
bool IsForGood(StatusCode code) { return code == StatusCode::kUnimplemented || code == StatusCode::kInvalidArgument; }

std::string_view ReasonOf(const ConversionJobFacts& job) {
  if (job.report && !job.report->error.ok()) return ConversionReason(job.report->error.code());
  if (job.failure == "OOMKilled") return "ConversionOutOfMemory";
  if (job.failure == "DeadlineExceeded") return "ConversionTooLong";
  return "ConversionFailed";
}

class NextConversion {
 public:
  explicit NextConversion(const ConversionInput& input) : input_(input) { plan_.status = input.profile.status; }

  ConversionPlan Run() && {
    if (IsReady()) {
      const bool is_left = input_.job && input_.job->is_ours && !input_.job->is_being_deleted;
      if (is_left) plan_.step = ConversionStep::kDeleteJob;
    } else if (input_.job) {
      FollowJob(*input_.job);
    } else {
      Begin();
    }
    return std::move(plan_);
  }

 private:
  const api::ImageProfileStatus& before() const { return input_.profile.status; }
  api::ConversionTries Tries() const { return before().tries.value_or(api::ConversionTries{}); }

  bool IsReady() const {
    return before().state == ConversionState::kReady && before().artifact &&
           before().artifact->repository == input_.store;
  }

  std::string Image() const { return input_.profile.spec.image + "@" + input_.profile.spec.digest; }

  void Set(ConversionState state, const api::Advice& advice, const std::string& detail) {
    const bool has_changed = before().state != state;
    plan_.status.state = state;
    const std::string what = fmt::format("image {}: {}", Image(), detail.empty() ? advice.happened : detail);
    api::Condition condition{
        .type = std::string(kConvertedCondition),
        .status = state == ConversionState::kReady ? api::ConditionStatus::kTrue : api::ConditionStatus::kFalse,
        .observed_generation = input_.profile.metadata.generation,
        .reason = std::string(advice.reason),
        .message = api::Say(advice, what)};
    api::SetCondition(plan_.status.conditions, std::move(condition), input_.now);
    if (has_changed) plan_.news = &advice;
  }

  void FollowJob(const ConversionJobFacts& job) {
    if (!job.is_ours || job.is_being_deleted) {
      plan_.look_again = kGoneCheck;
    } else if (job.end == ConversionJobEnd::kNone) {
      SetConverting(job.waiting);
    } else if (Tries().last_job_uid == job.uid) {
      plan_.step = ConversionStep::kDeleteJob;  // counted already
    } else {
      CountEnd(job);
    }
  }

  void CountEnd(const ConversionJobFacts& job) {
    plan_.step = ConversionStep::kDeleteJob;
    if (job.end == ConversionJobEnd::kSucceeded && job.report && job.report->error.ok()) {
      const ConversionReport& report = *job.report;
      plan_.status.artifact = api::BlockArtifact{input_.store, report.image, report.stored_bytes};
      plan_.status.manifest = report.source;
      plan_.status.source_bytes = report.source_bytes;
      plan_.status.converted_at = input_.now;
      plan_.status.tries.reset();
      Set(ConversionState::kReady, kImageConverted, "");
      return;
    }
    const bool is_told = job.report && !job.report->error.ok();
    std::string detail = is_told ? job.report->error.message() : job.failure_detail;
    if (job.end == ConversionJobEnd::kSucceeded) detail = "the converter ended well and left no report";
    Fail(ReasonOf(job), detail, is_told ? job.report->error.code() : StatusCode::kUnavailable, job.uid);
  }

  void Fail(std::string_view reason, const std::string& detail, StatusCode code, const std::string& job_uid) {
    api::ConversionTries tries = Tries();
    ++tries.failures;
    tries.last_job_uid = job_uid;
    const Duration wait = ConversionBackoff(tries.failures, code);
    tries.next_try_at = input_.now + wait;
    plan_.status.tries = std::move(tries);
    plan_.look_again = wait;
    Set(ConversionState::kFailed, ConversionAdvice(reason), detail);
  }

  void Begin() {
    if (!input_.refused.empty()) {
      Fail("ConversionJobRejected", input_.refused, StatusCode::kInvalidArgument, "");
      return;
    }
    const bool has_failed = before().state == ConversionState::kFailed;
    if (!input_.is_wanted) {
      if (!has_failed) Set(ConversionState::kWaiting, kConversionNotNeeded, "");
      return;
    }
    const api::ConversionTries tries = Tries();
    if (tries.next_try_at && *tries.next_try_at > input_.now) {
      plan_.look_again = *tries.next_try_at - input_.now;
      return;
    }
    if (!input_.has_room) {
      plan_.look_again = kRoomCheck;
      if (!has_failed) Set(ConversionState::kWaiting, kConversionQueued, "");
      return;
    }
    plan_.step = ConversionStep::kCreateJob;
    SetConverting("");
  }

  void SetConverting(const std::string& waiting) {
    Set(ConversionState::kConverting, kImageConverting, waiting);
    // A try that follows a failure is told by its end alone.
    if (Tries().failures > 0) plan_.news = nullptr;
  }

  const ConversionInput& input_;
  ConversionPlan plan_;
};

}  // namespace

ConversionPlan PlanConversion(const ConversionInput& input) { return NextConversion(input).Run(); }

Duration ConversionBackoff(int64_t failures, StatusCode code) {
  if (IsForGood(code)) return kMaxBackoff;
  Duration wait = kFirstBackoff;
  for (int64_t i = 1; i < failures && wait < kMaxBackoff; ++i) wait *= 2;
  return std::min(wait, kMaxBackoff);
}

}  // namespace paceline::operator_
