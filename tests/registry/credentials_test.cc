#include "lib/blocks/registry/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/base64.h"

namespace paceline::blocks {
namespace {

using testing::HasSubstr;
using testing::Not;

const char kConfig[] = R"({
  "auths": {
    "https://index.docker.io/v1/": {"auth": "aHViOmh1YnB3"},
    "r.test:5000": {"username": "plain", "password": "pw"},
    "r.test:5000/team": {"auth": "dGVhbTp0ZWFtcHc="},
    "*.cloud.test": {"identitytoken": "refresh-me"},
    "token.test": {"registrytoken": "as-it-is"},
    "empty.test": {}
  },
  "credHelpers": {"other.test": "secretservice"},
  "HttpHeaders": {"User-Agent": "x"}
})";

TEST(Credentials, TheEntryThatFitsBest) {
  const Result<std::vector<CredentialEntry>> entries = ParseDockerConfig(kConfig);
  ASSERT_TRUE(entries.ok()) << entries.status().ToString();
  const struct {
    const char *registry, *repository, *user;
  } cases[] = {{"docker.io", "library/ubuntu", "hub"},
               {"r.test:5000", "app", "plain"},
               {"r.test:5000", "team/app", "team"},
               {"r.test:5000", "team", "team"},
               {"r.test:5000", "teamwork/app", "plain"},
               {"r.test", "app", nullptr},
               {"r.test:5001", "app", nullptr},
               {"a.cloud.test", "x", ""},
               {"cloud.test", "x", nullptr},
               {"a.b.cloud.test", "x", nullptr},
               {"empty.test", "x", nullptr},
               {"other.test", "x", nullptr},
               {"evil.test", "r.test:5000/team", nullptr}};
  for (const auto& c : cases) {
    const CredentialEntry* found = ChooseCredential(*entries, c.registry, c.repository);
    ASSERT_EQ(found != nullptr, c.user != nullptr) << c.registry << "/" << c.repository;
    if (found != nullptr) {
      EXPECT_EQ(found->credential.username, c.user) << c.registry << "/" << c.repository;
    }
  }
  EXPECT_EQ(ChooseCredential(*entries, "a.cloud.test", "x")->credential.identity_token, "refresh-me");
  EXPECT_EQ(ChooseCredential(*entries, "token.test", "x")->credential.registry_token, "as-it-is");
}

TEST(Credentials, PasswordsMayHaveColonsAndTheOldFormHasNoAuths) {
  const std::string auth = EncodeBase64("me:a:b:c");
  const Result<std::vector<CredentialEntry>> entries =
      ParseDockerConfig(R"({"r.test": {"auth": ")" + auth + R"(", "email": "x"}})");
  ASSERT_TRUE(entries.ok()) << entries.status().ToString();
  ASSERT_EQ(entries->size(), 1u);
  EXPECT_EQ(entries->front().credential.password, "a:b:c");
}

TEST(Credentials, MistakesNameTheEntryAndNeverTheSecret) {
  const std::string cases[] = {R"({"auths": {"r.test": {"auth": "c2VjcmV0"}}})",
                               R"({"auths": {"r.test": {"auth": "!!secret!!"}}})",
                               R"({"auths": {"r.test": {"password": {"secret": 1}}}})",
                               R"({"auths": {"r.test": "secret"}})",
                               R"({"auths": ["secret"]})",
                               R"(["secret"])",
                               R"({"auths": secret)"};
  for (const std::string& text : cases) {
    const Result<std::vector<CredentialEntry>> entries = ParseDockerConfig(text);
    ASSERT_FALSE(entries.ok()) << text;
    EXPECT_THAT(entries.status().message(), Not(HasSubstr("secret"))) << text;
  }
}

TEST(Credentials, DamagedTextIsAnErrorOrReadAndNeverQuoted) {
  const std::string text = kConfig;
  for (size_t at = 0; at < text.size(); ++at) {
    std::string damaged = text;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    for (const std::string& candidate : {damaged, text.substr(0, at)}) {
      const Result<std::vector<CredentialEntry>> entries = ParseDockerConfig(candidate);
      if (!entries.ok()) {
        EXPECT_THAT(entries.status().message(), Not(HasSubstr("aHViOmh1"))) << candidate;
      }
    }
  }
}

TEST(Credentials, ARenewedSecretCountsAfterARejection) {
  Result<std::string> text = std::string(R"({"auths": {"r.test": {"username": "u", "password": "old"}}})");
  const std::unique_ptr<CredentialSource> source = NewDockerConfigSource([&] { return text; });
  EXPECT_EQ(source->Find("r.test", "x", CredentialSource::Ask::kFirst)->password, "old");
  text = std::string(R"({"auths": {"r.test": {"username": "u", "password": "new"}}})");
  EXPECT_EQ(source->Find("r.test", "x", CredentialSource::Ask::kFirst)->password, "old");
  EXPECT_EQ(source->Find("r.test", "x", CredentialSource::Ask::kAfterRejection)->password, "new");
  // A file that is gone for a moment does not take away what is known.
  text = Result<std::string>(NotFoundError("gone"));
  EXPECT_EQ(source->Find("r.test", "x", CredentialSource::Ask::kAfterRejection)->password, "new");
  EXPECT_TRUE(source->Find("other.test", "x", CredentialSource::Ask::kFirst)->is_anonymous());
  const auto never_read = NewDockerConfigSource([&] { return text; });
  EXPECT_EQ(never_read->Find("r.test", "x", CredentialSource::Ask::kFirst).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace paceline::blocks
