#include "lib/blocks/registry/challenge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::blocks {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

TEST(Challenge, ReadsWhatRegistriesSend) {
  const struct {
    const char *header, *realm, *service, *scope;
  } cases[] = {
      {R"(Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull")",
       "https://auth.docker.io/token", "registry.docker.io", "repository:a/b:pull"},
      {R"(bearer realm=https://x/t , service = "s" )", "https://x/t", "s", ""},
      {R"(Bearer realm="https://x/t",scope="repository:a:pull,push repository:b:pull",service="s")", "https://x/t", "s",
       "repository:a:pull,push repository:b:pull"},
      {R"(Bearer realm="https://x/t\"q",error="invalid_token")", "https://x/t\"q", "", ""},
      {R"(Basic realm="r", Bearer realm="https://x/t",service="s")", "https://x/t", "s", ""},
      {R"(Negotiate abc==, Bearer realm="https://x/t")", "https://x/t", "", ""},
  };
  for (const auto& c : cases) {
    const std::vector<Challenge> challenges = ParseChallenges(c.header);
    const Challenge* chosen = ChooseChallenge(challenges);
    ASSERT_NE(chosen, nullptr) << c.header;
    EXPECT_EQ(chosen->scheme, Challenge::Scheme::kBearer) << c.header;
    EXPECT_EQ(chosen->realm, c.realm) << c.header;
    EXPECT_EQ(chosen->service, c.service) << c.header;
    EXPECT_EQ(chosen->scope, c.scope) << c.header;
  }
  const std::vector<Challenge> basic = ParseChallenges("Basic realm=\"x\"");
  ASSERT_NE(ChooseChallenge(basic), nullptr);
  EXPECT_EQ(ChooseChallenge(basic)->scheme, Challenge::Scheme::kBasic);
  for (const char* nothing : {"", "Negotiate", "Bearer", "Bearer service=\"no realm\"", ",,,", "=\"\""}) {
    EXPECT_EQ(ChooseChallenge(ParseChallenges(nothing)), nullptr) << nothing;
  }
}

TEST(Challenge, DamagedHeadersEnd) {
  const std::string text = R"(Basic realm="r", Bearer realm="https://x/t",service="s",scope="repository:a:pull")";
  for (size_t at = 0; at < text.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      EXPECT_LE(ParseChallenges(damaged).size(), 4u);
      EXPECT_LE(ParseChallenges(text.substr(0, at)).size(), 2u);
    }
  }
}

TEST(TokenRequest, GetWithBasicOrPostWithARefreshToken) {
  const Challenge challenge{Challenge::Scheme::kBearer, "https://x/t?a=b", "my service", "repository:a/b:pull"};
  const net::HttpRequest get = TokenRequest(challenge, "/t?a=b", {.username = "u", .password = "p"});
  EXPECT_EQ(get.method, "GET");
  EXPECT_EQ(get.target, "/t?a=b&service=my%20service&scope=repository%3Aa%2Fb%3Apull");
  EXPECT_EQ(get.headers.at("Authorization"), "Basic dTpw");

  const net::HttpRequest anonymous = TokenRequest(challenge, "/t", {});
  EXPECT_FALSE(anonymous.headers.contains("Authorization"));
  EXPECT_TRUE(anonymous.target.starts_with("/t?service="));

  const net::HttpRequest post = TokenRequest(challenge, "/t", {.identity_token = "secret&x"});
  EXPECT_EQ(post.method, "POST");
  EXPECT_EQ(post.target, "/t");
  EXPECT_THAT(post.body, HasSubstr("grant_type=refresh_token"));
  EXPECT_THAT(post.body, HasSubstr("refresh_token=secret%26x"));
}

TEST(TokenAnswer, TokenAndLifetime) {
  const struct {
    const char *json, *token;
    seconds lifetime;
  } cases[] = {{R"({"token":"a","expires_in":300})", "a", seconds(300)},
               {R"({"access_token":"b","expires_in":3600,"issued_at":"2026-01-01T00:00:00Z"})", "b", seconds(3600)},
               {R"({"token":"a","access_token":"b"})", "a", seconds(60)},
               {R"({"token":"a","expires_in":0})", "a", seconds(60)},
               {R"({"token":"a","expires_in":-5})", "a", seconds(60)},
               {R"({"token":"a","expires_in":"soon"})", "a", seconds(60)},
               {R"({"token":"a","expires_in":1e300})", "a", seconds(24 * 3600)}};
  for (const auto& c : cases) {
    const Result<Token> token = ParseTokenAnswer(c.json);
    ASSERT_TRUE(token.ok()) << c.json << token.status().ToString();
    EXPECT_EQ(token->value, c.token) << c.json;
    EXPECT_EQ(token->lifetime, c.lifetime) << c.json;
  }
  for (const char* bad :
       {"", "[]", "{}", R"({"token":""})", R"({"token":7})", R"({"token":"a\r\nX: y"})", R"({"token":"secret)"}) {
    const Result<Token> token = ParseTokenAnswer(bad);
    ASSERT_FALSE(token.ok()) << bad;
    EXPECT_THAT(token.status().message(), Not(HasSubstr("secret")));
  }
}

}  // namespace
}  // namespace paceline::blocks
