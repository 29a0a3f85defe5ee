#include "agent/csi/deps_fate.h"

#include <gtest/gtest.h>

namespace paceline::agent {
namespace {

using State = api::DependencyState;

DepsFate WholeFate() {
  DepsFate fate;
  fate.key = std::string(64, 'a');
  fate.cause = api::InstallCause::kDamaged;
  fate.reason = "the snapshot cannot be used: \"x\"";
  fate.may_be_held = true;
  fate.is_over = true;
  fate.outcome = "another worker has recorded them";
  fate.at = *ParseRfc3339("2026-01-02T03:04:05.123456Z");
  fate.seconds = 3.25;
  fate.snapshot = {"sha256:1", 1000, 400, *ParseRfc3339("2026-01-02T03:04:06Z"), *ParseRfc3339("2026-02-02T03:04:06Z")};
  return fate;
}

TEST(DepsFate, IsReadAsItWasWritten) {
  for (const DepsFate& fate : {WholeFate(), DepsFate{}}) {
    const std::string text = RenderDepsFate(fate);
    const Result<DepsFate> read = ParseDepsFate(text);
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_EQ(RenderDepsFate(*read), text);
    EXPECT_EQ(DependenciesOf(*read, false), DependenciesOf(fate, false));
  }
}

TEST(DepsFate, OfAnOlderAgentIsRead) {
  const Result<DepsFate> read =
      ParseDepsFate(R"({"image":"","reason":"no snapshot yet","mayBeHeld":false,"isOver":false,"outcome":""})");
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->reason, "no snapshot yet");
  EXPECT_EQ(read->cause, std::nullopt);
  EXPECT_EQ(DependenciesOf(*read, false).state, State::kInstalling);
}

TEST(DepsFate, DamagedOnesAreRefusedOrReadAsFarAsTheyGo) {
  const std::string text = RenderDepsFate(WholeFate());
  for (size_t length = 0; length < text.size(); ++length) EXPECT_FALSE(ParseDepsFate(text.substr(0, length)).ok());
  for (size_t at = 0; at < text.size(); ++at) {
    std::string flipped = text;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    const Result<DepsFate> read = ParseDepsFate(flipped);
    if (read.ok()) {
      EXPECT_FALSE(RenderDepsFate(*read).empty());
    }
  }
}

TEST(DepsFate, SaysWhereThePodStands) {
  DepsFate fate;
  EXPECT_EQ(DependenciesOf(fate, false).state, State::kInstalling);
  EXPECT_EQ(DependenciesOf(fate, true).state, State::kRecording);
  fate.is_over = true;
  EXPECT_EQ(DependenciesOf(fate, false).state, State::kNotRecorded) << "without a digest nothing was recorded";
  fate.snapshot.digest = "sha256:1";
  EXPECT_EQ(DependenciesOf(fate, false).state, State::kRecorded);
  fate.outcome = "another worker has recorded them";
  EXPECT_EQ(DependenciesOf(fate, false).state, State::kNotRecorded);
  fate = {};
  fate.image = "sha256:2";
  fate.cause = api::InstallCause::kNoSnapshot;
  EXPECT_EQ(DependenciesOf(fate, false).state, State::kRestored);
  EXPECT_EQ(DependenciesOf(fate, false).cause, std::nullopt);
  fate.reason = std::string(5000, 'x');
  EXPECT_EQ(DependenciesOf(fate, false).reason.size(), api::kMaxDependencyReasonBytes);
}

}  // namespace
}  // namespace paceline::agent
