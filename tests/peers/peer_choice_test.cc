// Whom to ask, and whether at all.
#include "lib/blocks/peers/peer_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/engine/made_layer.h"

namespace paceline::blocks {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;

constexpr TimePoint kStart{std::chrono::hours(1)};
const Digest kBlob = Sha256Of("blob");

std::vector<std::string> Members(size_t count) {
  std::vector<std::string> members;
  for (size_t i = 0; i < count; ++i) members.push_back("10.0.0." + std::to_string(i + 1) + ":9466");
  return members;
}

// Of all members, as `own` sees it; -1 for itself.
std::string OwnerSeenBy(const std::vector<std::string>& all, const std::string& own, uint64_t stretch,
                        const std::string& down = "") {
  std::vector<std::string> peers;
  std::vector<bool> is_usable;
  for (const std::string& member : all) {
    if (member == own) continue;
    peers.push_back(member);
    is_usable.push_back(member != down);
  }
  const std::optional<Candidate> choice = ChoosePeer(peers, is_usable, own, kBlob, stretch);
  return choice && choice->is_owner ? peers[choice->member] : own;
}

TEST(PeerChoice, AllNodesAgreeOnTheOwnerAndEachOwnsItsShare) {
  const std::vector<std::string> all = Members(8);
  std::map<std::string, int> owned;
  for (uint64_t stretch = 0; stretch < 400; ++stretch) {
    const std::string owner = OwnerSeenBy(all, all[0], stretch);
    for (const std::string& own : all) EXPECT_EQ(OwnerSeenBy(all, own, stretch), owner);
    ++owned[owner];
  }
  for (const std::string& member : all) {
    EXPECT_GT(owned[member], 400 / 8 / 2) << member;
    EXPECT_LT(owned[member], 400 / 8 * 2) << member;
  }
}

TEST(PeerChoice, ANodeThatGoesTakesNothingButItsOwnWithIt) {
  const std::vector<std::string> all = Members(8);
  for (uint64_t stretch = 0; stretch < 200; ++stretch) {
    const std::string before = OwnerSeenBy(all, all[0], stretch);
    const std::string after = OwnerSeenBy(all, all[0], stretch, all[3]);
    if (before == all[3]) {
      EXPECT_NE(after, all[3]);
    } else {
      EXPECT_EQ(after, before);
    }
  }
}

// So that nodes of different versions agree: the value of docs/formats/peer-chunks.md, worked out by hand.
TEST(PeerChoice, TheWeightIsTheOneOfTheFormat) {
  std::string bytes = "10.0.0.7:9466";
  bytes += '\0';
  bytes += kBlob.View();
  bytes += std::string("\2\1\0\0\0\0\0\0", 8);
  const Digest digest = Sha256Of(bytes);
  uint64_t weight = 0;
  for (int i = 0; i < 8; ++i) weight = weight * 256 + digest.bytes[static_cast<size_t>(i)];
  EXPECT_EQ(OwnerWeight("10.0.0.7:9466", kBlob, 0x102), weight);
}

TEST(PeerChoice, AnOwnerAsksTheNextOneWithoutMakingItFetch) {
  const std::vector<std::string> all = Members(2);
  int own = 0;
  for (uint64_t stretch = 0; stretch < 50; ++stretch) {
    const std::optional<Candidate> choice = ChoosePeer({all[1]}, {true}, all[0], kBlob, stretch);
    ASSERT_TRUE(choice);
    own += choice->is_owner ? 0 : 1;
  }
  EXPECT_GT(own, 10);
  EXPECT_LT(own, 40);
  EXPECT_FALSE(ChoosePeer({all[1]}, {false}, all[0], kBlob, 0));
  EXPECT_FALSE(ChoosePeer({}, {}, all[0], kBlob, 0));
}

TEST(PeerChoice, PartsAreOfOneStretchAndNotTooLarge) {
  const MadeLayer made(std::vector<uint32_t>(150, 64), 1);  // 256 KiB each, two of three compressed to almost nothing
  const Result<LayerIndex> index = LayerIndex::Parse(made.index);
  ASSERT_TRUE(index.ok());
  std::vector<uint32_t> chunks;
  for (uint32_t i = 0; i < 150; ++i) chunks.push_back(i);
  size_t places = 0;
  std::set<uint64_t> stretches;
  for (const AskPart& part : CutForOwners(*index, chunks)) {
    uint64_t bytes = 0;
    for (const size_t place : part.places) {
      EXPECT_EQ(place, places++);
      EXPECT_EQ(index->chunk(chunks[place]).offset_bytes / kStretchBytes, part.stretch);
      bytes += index->chunk(chunks[place]).content_bytes();
    }
    EXPECT_EQ(bytes, part.content_bytes);
    EXPECT_LE(bytes, kMaxContentPerAsk);
    stretches.insert(part.stretch);
  }
  EXPECT_EQ(places, 150u);
  EXPECT_GT(stretches.size(), 2u);
}

CostEstimate Costing(Duration each, int notes = 8, uint64_t bytes = 1 << 20) {
  CostEstimate cost;
  for (int i = 0; i < notes; ++i) cost.Note(bytes, each, kStart);
  return cost;
}

TEST(PeerChoice, APeerIsSlowOnlyWhenBothAreKnown) {
  const struct {
    const char* name;
    CostEstimate peer, origin;
    bool is_slow;
  } cases[] = {{"nothing known", {}, {}, false},
               {"origin not known", Costing(seconds(9)), {}, false},
               {"peer not known", {}, Costing(milliseconds(1)), false},
               {"one answer is no measure", Costing(seconds(9), 1), Costing(milliseconds(1)), false},
               {"slower", Costing(milliseconds(30)), Costing(milliseconds(10)), true},
               {"a little slower", Costing(milliseconds(11)), Costing(milliseconds(10)), false},
               {"faster", Costing(milliseconds(10)), Costing(milliseconds(30)), false},
               {"small answers are latency", Costing(milliseconds(2), 8, 1000), Costing(milliseconds(10)), false}};
  for (const auto& c : cases) EXPECT_EQ(IsSlowerThanOrigin(c.peer, c.origin, 1.2, kStart), c.is_slow) << c.name;
  // What was measured long ago says nothing.
  EXPECT_FALSE(IsSlowerThanOrigin(Costing(milliseconds(30)), Costing(milliseconds(10)), 1.2, kStart + minutes(3)));
  // It follows.
  CostEstimate mended = Costing(milliseconds(30));
  for (int i = 0; i < 20; ++i) mended.Note(1 << 20, milliseconds(5), kStart);
  EXPECT_FALSE(IsSlowerThanOrigin(mended, Costing(milliseconds(10)), 1.2, kStart));
}

TEST(PeerChoice, TheOriginsTimeIsNotThePeers) {
  EXPECT_EQ(OwnShareOf(milliseconds(100), milliseconds(0)), milliseconds(100));
  EXPECT_EQ(OwnShareOf(milliseconds(100), milliseconds(40)), milliseconds(60));
  EXPECT_EQ(OwnShareOf(milliseconds(100), milliseconds(95)), milliseconds(50));  // or it makes all twice as long
  EXPECT_EQ(OwnShareOf(milliseconds(100), seconds(99)), milliseconds(50));       // whatever it says
}

TEST(PeerHealth, FailuresCloseItForLongerAndLonger) {
  PeerHealth health;
  TimePoint now = kStart;
  const Duration trial = seconds(2);
  for (const Duration closed : {seconds(1), seconds(2), seconds(4), seconds(8)}) {
    EXPECT_TRUE(health.MayAsk(now, trial));
    health.Note(PeerResult::kTimedOut, now);
    health.Note(PeerResult::kTimedOut, now);  // was under way with it, and counts no more
    EXPECT_FALSE(health.MayAsk(now + closed - milliseconds(1), trial));
    now += closed;
  }
  EXPECT_TRUE(health.MayAsk(now, trial));   // one tries
  EXPECT_FALSE(health.MayAsk(now, trial));  // and the others do not wait with it
  health.Note(PeerResult::kAbsent, now);
  EXPECT_TRUE(health.MayAsk(now, trial));
  EXPECT_TRUE(health.MayAsk(now, trial));
  health.Note(PeerResult::kUnreachable, now);
  EXPECT_TRUE(health.MayAsk(now + seconds(1), trial));  // from the beginning

  for (int i = 0; i < 40; ++i) {
    now += std::chrono::hours(1);
    EXPECT_TRUE(health.MayAsk(now, trial));
    health.Note(PeerResult::kUnreachable, now);
  }
  EXPECT_TRUE(health.MayAsk(now + minutes(5), trial));  // never for ever
}

TEST(PeerHealth, ATrialThatNobodyEndsDoesNotCloseItForEver) {
  PeerHealth health;
  health.Note(PeerResult::kUnreachable, kStart);
  EXPECT_TRUE(health.MayAsk(kStart + seconds(1), seconds(2)));
  EXPECT_FALSE(health.MayAsk(kStart + seconds(2), seconds(2)));
  EXPECT_TRUE(health.MayAsk(kStart + seconds(3), seconds(2)));
}

TEST(PeerHealth, ALiarIsLeftAloneForLong) {
  PeerHealth health;
  EXPECT_TRUE(health.MayAsk(kStart, seconds(2)));
  health.Note(PeerResult::kDamaged, kStart);
  health.Note(PeerResult::kGiven, kStart);  // another request to it, which it answered well
  EXPECT_FALSE(health.MayAsk(kStart + minutes(29), seconds(2)));
  EXPECT_TRUE(health.MayAsk(kStart + minutes(30), seconds(2)));
}

TEST(PeerHealth, ABusyOneIsNoBadOne) {
  PeerHealth health;
  health.Note(PeerResult::kBusy, kStart);
  EXPECT_FALSE(health.MayAsk(kStart, seconds(2)));
  EXPECT_TRUE(health.MayAsk(kStart + milliseconds(500), seconds(2)));
  EXPECT_TRUE(health.MayAsk(kStart + milliseconds(500), seconds(2)));
}

TEST(PeerHealth, ALayerThatIsNotThereIsNotAskedForAgainAtOnce) {
  PeerHealth health;
  health.NoteLack(kBlob, kStart);
  EXPECT_TRUE(health.Lacks(kBlob, kStart + seconds(4)));
  EXPECT_FALSE(health.Lacks(kBlob, kStart + seconds(5)));
  EXPECT_FALSE(health.Lacks(Sha256Of("another"), kStart));
}

}  // namespace
}  // namespace paceline::blocks
