#include "lib/api/meta.h"

#include <gtest/gtest.h>

#include "lib/base/utf8.h"

namespace paceline::api {
namespace {

WallTime At(int64_t seconds) { return WallTime(std::chrono::seconds(seconds)); }

TEST(Conditions, TransitionTimeMovesOnlyWithTheStatus) {
  std::vector<Condition> conditions;
  EXPECT_TRUE(SetCondition(conditions, {.type = "Ready", .status = ConditionStatus::kFalse, .reason = "Slow"}, At(10)));
  EXPECT_EQ(conditions.at(0).last_transition_time, At(10));
  EXPECT_FALSE(
      SetCondition(conditions, {.type = "Ready", .status = ConditionStatus::kFalse, .reason = "Slow"}, At(20)));
  EXPECT_TRUE(
      SetCondition(conditions, {.type = "Ready", .status = ConditionStatus::kFalse, .reason = "Stuck"}, At(30)));
  EXPECT_EQ(conditions.at(0).last_transition_time, At(10));
  EXPECT_FALSE(IsConditionTrue(conditions, "Ready"));
  EXPECT_TRUE(SetCondition(conditions, {.type = "Ready", .status = ConditionStatus::kTrue, .reason = "Up"}, At(40)));
  EXPECT_EQ(conditions.at(0).last_transition_time, At(40));
  EXPECT_TRUE(IsConditionTrue(conditions, "Ready"));
  EXPECT_EQ(conditions.size(), 1u);
  EXPECT_EQ(FindCondition(conditions, "Other"), nullptr);
}

TEST(Conditions, MessagesAreCutBetweenCharacters) {
  std::vector<Condition> conditions;
  std::string message;
  while (message.size() < 40000) message += "\xE2\x82\xAC";  // three bytes each
  SetCondition(conditions, {.type = "A", .status = ConditionStatus::kTrue, .message = message}, At(0));
  EXPECT_LE(conditions.at(0).message.size(), 32768u);
  EXPECT_GT(conditions.at(0).message.size(), 32700u);
  EXPECT_TRUE(IsValidUtf8(conditions.at(0).message));
}

TEST(FieldErrors, AreJoinedUpToALimit) {
  EXPECT_EQ(JoinErrors({}), "");
  EXPECT_EQ(JoinErrors({{"a", "x"}, {"", "y"}}), "a: x; y");
  EXPECT_EQ(JoinErrors({{"a", "x"}, {"b", "y"}, {"c", "z"}}, 1), "a: x; and 2 more");
}

}  // namespace
}  // namespace paceline::api
