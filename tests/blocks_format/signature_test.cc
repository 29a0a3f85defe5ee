#include "lib/blocks/format/signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/test_keys.h"

namespace paceline::blocks {
namespace {

using fakes::kOtherTestKey;
using fakes::kOtherTestPublicKey;
using fakes::kTestKey;
using fakes::kTestKeyId;
using fakes::kTestPublicKey;
using testing::ElementsAre;

TEST(Signature, IsGoodForWhatWasSignedAndNothingElse) {
  const Result<SigningKey> key = SigningKey::FromPem(kTestKey);
  ASSERT_TRUE(key.ok()) << key.status().ToString();
  EXPECT_EQ(key->id(), kTestKeyId) << "as OpenSSL and sha256sum say";
  const Result<Signature> signature = key->Sign("text");
  ASSERT_TRUE(signature.ok());
  EXPECT_EQ(signature->key, kTestKeyId);
  const Result<TrustedKeys> trusted = TrustedKeys::FromPem(kTestPublicKey);
  ASSERT_TRUE(trusted.ok()) << trusted.status().ToString();
  EXPECT_EQ(trusted->Verify("text", *signature), SignatureVerdict::kGood);
  EXPECT_EQ(key->trusted().Verify("text", *signature), SignatureVerdict::kGood);
  EXPECT_EQ(trusted->Verify("texts", *signature), SignatureVerdict::kWrong);
  for (const size_t at : {size_t{0}, size_t{40}, size_t{63}}) {
    Signature changed = *signature;
    changed.bytes[at] ^= 1;
    EXPECT_EQ(trusted->Verify("text", changed), SignatureVerdict::kWrong) << at;
  }
  EXPECT_EQ(trusted->Verify("text", {kTestKeyId, ""}), SignatureVerdict::kWrong);
  EXPECT_EQ(trusted->Verify("text", {kTestKeyId, signature->bytes + "x"}), SignatureVerdict::kWrong);
  EXPECT_EQ(trusted->Verify("text", {"", signature->bytes}), SignatureVerdict::kUnknownKey);
  EXPECT_EQ(TrustedKeys().Verify("text", *signature), SignatureVerdict::kUnknownKey);
}

TEST(Signature, SeveralKeysAreTrustedAtOnce) {
  const Result<TrustedKeys> both =
      TrustedKeys::FromPem("of last year\n" + std::string(kOtherTestPublicKey) + "of this year\n" + kTestPublicKey);
  ASSERT_TRUE(both.ok()) << both.status().ToString();
  const SigningKey old_key = *SigningKey::FromPem(kOtherTestKey), new_key = *SigningKey::FromPem(kTestKey);
  EXPECT_THAT(both->ids(), ElementsAre(old_key.id(), new_key.id()));
  EXPECT_EQ(both->Verify("text", *old_key.Sign("text")), SignatureVerdict::kGood);
  EXPECT_EQ(both->Verify("text", *new_key.Sign("text")), SignatureVerdict::kGood);
  // One key's name on another's signature.
  EXPECT_EQ(both->Verify("text", {new_key.id(), old_key.Sign("text")->bytes}), SignatureVerdict::kWrong);
  EXPECT_EQ(TrustedKeys::FromPem(kTestPublicKey)->Verify("text", *old_key.Sign("text")), SignatureVerdict::kUnknownKey);
}

TEST(Signature, WhatIsNoKeyIsRefused) {
  const std::string cut = std::string(kTestPublicKey).substr(0, 60) + "\n-----END PUBLIC KEY-----\n";
  for (const std::string& text : {std::string(), std::string("no key"), std::string(kTestKey), cut,
                                  std::string(kTestPublicKey) + cut, std::string(fakes::kRsaPublicKey)}) {
    EXPECT_EQ(TrustedKeys::FromPem(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
  for (const std::string& text :
       {std::string(), std::string("no key"), std::string(kTestPublicKey), std::string(fakes::kEncryptedTestKey)}) {
    EXPECT_EQ(SigningKey::FromPem(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace paceline::blocks
