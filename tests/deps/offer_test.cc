// Which snapshots may be used: signatures, quarantine, ends.
#include "lib/deps/offer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "lib/deps/quarantine.h"
#include "tests/deps/stored_snapshots.h"
#include "tests/fakes/memory_filesystem.h"
#include "tests/fakes/test_keys.h"

namespace paceline::deps {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class OfferTest : public StoredSnapshots {
 protected:
  static blocks::SigningKey Key(const char* pem = fakes::kTestKey) { return *blocks::SigningKey::FromPem(pem); }
  static Trust Required(const char* public_keys = fakes::kTestPublicKey) {
    return {std::nullopt, *blocks::TrustedKeys::FromPem(public_keys), true};
  }
  Offer Find(const std::string& command, const Trust& trust = {}) {
    return FindOffer(*store_, KeyOfCommand(command), trust, clock_.WallNow(), Deadline::Infinite());
  }
  // What somebody does who may write to the store.
  void Point(const std::string& tag, const std::string& at) const {
    fs::copy_file(store_folder() + "/tags/" + at, store_folder() + "/tags/" + tag,
                  fs::copy_options::overwrite_existing);
  }
};

TEST_F(OfferTest, OnlyWhatIsSignedByATrustedKeyIsUsed) {
  EXPECT_EQ(Find("make", Required()).state, OfferState::kNone);
  const FoundSnapshot unsigned_one = Publish("make", "files");
  EXPECT_EQ(Find("make").state, OfferState::kUsable) << "nobody asks for a signature";
  Offer offer = Find("make", Required());
  EXPECT_EQ(offer.state, OfferState::kNotTrusted);
  EXPECT_THAT(offer.why.message(), HasSubstr("not signed"));
  ASSERT_TRUE(offer.snapshot);

  Publish("make", "files", std::chrono::hours(1), Key(fakes::kOtherTestKey));
  offer = Find("make", Required());
  EXPECT_EQ(offer.state, OfferState::kNotTrusted);
  EXPECT_THAT(offer.why.message(), HasSubstr("is not trusted"));
  EXPECT_EQ(Find("make", Required((std::string(fakes::kOtherTestPublicKey) + fakes::kTestPublicKey).c_str())).state,
            OfferState::kUsable);

  Publish("make", "files", std::chrono::hours(1), Key());
  offer = Find("make", Required());
  EXPECT_EQ(offer.state, OfferState::kUsable) << offer.why.ToString();
  EXPECT_TRUE(offer.why.ok());
  clock_.Advance(std::chrono::hours(1));
  EXPECT_EQ(Find("make", Required()).state, OfferState::kEnded);
}

// The store belongs to somebody else: nothing that it can say makes other code run.
TEST_F(OfferTest, WhoWritesToTheStoreCannotPutOtherCodeUnderAKey) {
  const FoundSnapshot mine = Publish("mine", "good", std::chrono::hours(1), Key());
  const FoundSnapshot theirs = Publish("theirs", "evil", std::chrono::hours(1), Key());
  const std::string tag = SnapshotTag(mine.manifest.key);

  // Another key's snapshot, with its good signature.
  Point(tag, SnapshotTag(theirs.manifest.key));
  EXPECT_EQ(Find("mine", Required()).state, OfferState::kDamaged);

  // A snapshot of this key with other contents, and the signatures that there are.
  const FoundSnapshot forged = Publish("mine", "evil");
  EXPECT_EQ(Find("mine").state, OfferState::kUsable) << "without signatures nobody can tell";
  EXPECT_EQ(Find("mine", Required()).state, OfferState::kNotTrusted);
  for (const FoundSnapshot& other : {mine, theirs}) {
    Point(SignatureTag(forged.descriptor.digest), SignatureTag(other.descriptor.digest));
    EXPECT_THAT(Find("mine", Required()).why.message(), HasSubstr("signature is wrong"));
  }
  // The signature's text copied into an object that names the forged one.
  const std::string path = store_folder() + "/blobs/sha256/";
  const auto signature = store_->GetManifest(SignatureTag(mine.descriptor.digest), Deadline::Infinite());
  std::string text = signature->bytes;
  const std::string from = mine.descriptor.digest.ToString();
  text.replace(text.find(from), from.size(), forged.descriptor.digest.ToString());
  ASSERT_TRUE(
      store_
          ->PutManifest(SignatureTag(forged.descriptor.digest), blocks::kManifestMediaType, text, Deadline::Infinite())
          .ok());
  EXPECT_THAT(Find("mine", Required()).why.message(), HasSubstr("signature is wrong"));
  // Whatever else lies there.
  ASSERT_TRUE(
      store_
          ->PutManifest(SignatureTag(forged.descriptor.digest), blocks::kManifestMediaType, "{}", Deadline::Infinite())
          .ok());
  EXPECT_EQ(Find("mine", Required()).state, OfferState::kNotTrusted);
  // A key that is trusted has signed the same file names before: an honest re-recording mends all.
  Publish("mine", "good again", std::chrono::hours(1), Key());
  EXPECT_EQ(Find("mine", Required()).state, OfferState::kUsable);
}

TEST_F(OfferTest, WhatIsPutAsideIsOfferedToNobodyUntilItIsLifted) {
  const FoundSnapshot snapshot = Publish("make", "files", std::chrono::hours(1), Key());
  const QuarantineOrder order{snapshot.manifest.key, "team", snapshot.descriptor.digest, "it smells", "n1"};
  EXPECT_TRUE(*PutAside(*store_, order, clock_.WallNow(), Deadline::Infinite()));
  EXPECT_FALSE(*PutAside(*store_, order, clock_.WallNow(), Deadline::Infinite())) << "it is already";
  for (const Trust& trust : {Trust{}, Required()}) {
    const Offer offer = Find("make", trust);
    EXPECT_EQ(offer.state, OfferState::kQuarantined);
    EXPECT_EQ(offer.why.code(), StatusCode::kNotFound);
    EXPECT_THAT(offer.why.message(), testing::AllOf(HasSubstr("n1"), HasSubstr("it smells")));
  }
  const Result<SnapshotList> list = ListSnapshots(*store_, "team", Deadline::Infinite());
  ASSERT_TRUE(list.ok());
  ASSERT_EQ(list->snapshots.size(), 1U) << "people can see it";
  EXPECT_EQ(list->snapshots[0].descriptor.digest, snapshot.descriptor.digest);
  EXPECT_EQ(list->snapshots[0].manifest.quarantine->why, "it smells");
  EXPECT_EQ(EncodeRecord(list->snapshots[0].record), EncodeRecord(snapshot.record));
  // Nothing that it needs is swept away meanwhile.
  ASSERT_TRUE(blocks::CollectFolderStore(store_folder(), Duration(0), blocks::CollectMode::kRemove, clock_).ok());

  ASSERT_TRUE(LiftQuarantine(*store_, snapshot.manifest.key, Deadline::Infinite()).ok());
  EXPECT_EQ(Find("make", Required()).state, OfferState::kUsable);
  EXPECT_EQ(LiftQuarantine(*store_, snapshot.manifest.key, Deadline::Infinite()).code(), StatusCode::kNotFound);

  // One that was recorded since is left alone.
  const FoundSnapshot newer = Publish("make", "better files", std::chrono::hours(1), Key());
  EXPECT_FALSE(*PutAside(*store_, order, clock_.WallNow(), Deadline::Infinite()));
  QuarantineOrder unread = order;
  unread.snapshot.reset();
  EXPECT_FALSE(*PutAside(*store_, unread, clock_.WallNow(), Deadline::Infinite())) << "it can be read again";
  EXPECT_EQ(Find("make", Required()).snapshot->descriptor.digest, newer.descriptor.digest);
}

TEST_F(OfferTest, WhatCannotBeReadIsPutAsideAsWell) {
  const FoundSnapshot snapshot = Publish("make", "files");
  for (const blocks::Digest& digest : {snapshot.manifest.record.digest, snapshot.descriptor.digest}) {
    std::ofstream(store_folder() + "/blobs/sha256/" + digest.Hex()) << "{}";
    EXPECT_EQ(Find("make").state, OfferState::kDamaged);
    const QuarantineOrder order{snapshot.manifest.key, "team", std::nullopt, "unreadable", "n1"};
    const Result<bool> aside = PutAside(*store_, order, clock_.WallNow(), Deadline::Infinite());
    ASSERT_TRUE(aside.ok()) << aside.status().ToString();
    EXPECT_TRUE(*aside);
    EXPECT_EQ(Find("make").state, OfferState::kQuarantined);
    const FoundSnapshot again = Publish("make", "files");  // it replaces what was put aside
    EXPECT_EQ(Find("make").state, OfferState::kUsable);
    EXPECT_EQ(again.descriptor.digest, snapshot.descriptor.digest);
  }
  const QuarantineOrder unknown{KeyOfCommand("other"), "team", std::nullopt, "unreadable", "n1"};
  EXPECT_FALSE(*PutAside(*store_, unknown, clock_.WallNow(), Deadline::Infinite()));
}

TEST(Trust, ReadsKeysAnewAndRefusesToGuess) {
  fakes::SimulatedClock clock;
  fakes::MemoryFileSystem files(clock);
  ASSERT_TRUE(files.MakeDirectories("/k").ok());
  ASSERT_TRUE(files.WriteFileAtomically("/k/signing.pem", fakes::kTestKey).ok());
  ASSERT_TRUE(files.WriteFileAtomically("/k/trusted.pem", fakes::kOtherTestPublicKey).ok());
  Result<Trust> trust = LoadTrust({"/k/signing.pem", "/k/trusted.pem", true}, files);
  ASSERT_TRUE(trust.ok()) << trust.status().ToString();
  EXPECT_EQ(trust->signing->id(), fakes::kTestKeyId);
  EXPECT_EQ(trust->trusted.ids().size(), 2U) << "its own among them";
  ASSERT_TRUE(files.WriteFileAtomically("/k/signing.pem", fakes::kOtherTestKey).ok());
  EXPECT_NE(LoadTrust({"/k/signing.pem", "", true}, files)->signing->id(), fakes::kTestKeyId);
  trust = LoadTrust({}, files);
  ASSERT_TRUE(trust.ok());
  EXPECT_FALSE(trust->signing || trust->is_required || !trust->trusted.empty());
  const TrustFiles wrong[] = {{"/k/none.pem", "", false},
                              {"", "/k/none.pem", true},
                              {"/k/trusted.pem", "", true},
                              {"", "/k/signing.pem", true},
                              {"", "", true}};
  for (const TrustFiles& paths : wrong) {
    EXPECT_EQ(LoadTrust(paths, files).status().code(), StatusCode::kUnavailable) << paths.signing_key;
  }
}

}  // namespace
}  // namespace paceline::deps
