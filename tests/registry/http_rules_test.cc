#include "lib/blocks/registry/http_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::blocks {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(RangeAnswer, OnlyExactlyTheBytesAskedFor) {
  const struct {
    int status;
    const char* content_range;
    StatusCode code;
  } cases[] = {
      {206, "bytes 10-19/100", StatusCode::kOk},
      {206, "bytes 10-19/*", StatusCode::kOk},
      {206, "bytes 10-19/20", StatusCode::kOk},
      {200, "", StatusCode::kUnimplemented},
      {200, "bytes 10-19/100", StatusCode::kUnimplemented},
      {206, "", StatusCode::kDataLoss},
      {206, "bytes 10-18/100", StatusCode::kDataLoss},
      {206, "bytes 9-19/100", StatusCode::kDataLoss},
      {206, "bytes 11-20/100", StatusCode::kDataLoss},
      {206, "bytes 10-19/19", StatusCode::kDataLoss},
      {206, "bytes 10-19", StatusCode::kDataLoss},
      {206, "bytes 10-19/100x", StatusCode::kDataLoss},
      {206, "items 10-19/100", StatusCode::kDataLoss},
      {206, "bytes */100", StatusCode::kDataLoss},
      {206, "bytes 10-99999999999999999999/100", StatusCode::kDataLoss},
      {204, "bytes 10-19/100", StatusCode::kDataLoss},
  };
  for (const auto& c : cases) {
    net::HttpResponse head;
    head.status = c.status;
    head.headers["Content-Range"] = c.content_range;
    EXPECT_EQ(CheckRangeAnswer(head, {10, 10}).code(), c.code) << c.status << " " << c.content_range;
  }
  EXPECT_EQ(RangeHeader({10, 10}), "bytes=10-19");
}

TEST(Location, AbsoluteAndRelative) {
  const net::Url base = *net::ParseUrl("https://r.test:5000");
  const struct {
    const char *location, *host, *target;
  } cases[] = {
      {"https://cdn.test/x/y?sig=a%2Fb&c=d", "cdn.test", "/x/y?sig=a%2Fb&c=d"},
      {"https://cdn.test", "cdn.test", "/"},
      {"https://cdn.test?x=1", "cdn.test", "/?x=1"},
      {"//cdn.test:99/x", "cdn.test:99", "/x"},
      {"/v2/a/blobs/uploads/1?state=https://no.test/", "r.test:5000", "/v2/a/blobs/uploads/1?state=https://no.test/"},
      {"1?s=x", "r.test:5000", "/v2/a/1?s=x"},
      {"?s=x", "r.test:5000", "/v2/a/b?s=x"},
      {"/x#fragment", "r.test:5000", "/x"},
  };
  for (const auto& c : cases) {
    const Result<Address> address = ResolveLocation(base, "/v2/a/b?old=1", c.location);
    ASSERT_TRUE(address.ok()) << c.location << address.status().ToString();
    EXPECT_EQ(address->url.HostHeader(), c.host) << c.location;
    EXPECT_EQ(address->target, c.target) << c.location;
    EXPECT_TRUE(address->url.is_https) << c.location;
  }
}

TEST(Location, RefusesDowngradesAndNonsenseWithoutQuotingThem) {
  const net::Url base = *net::ParseUrl("https://r.test");
  for (const char* location : {"", "http://cdn.test/secret", "ftp://cdn.test/secret", "/secret\r\nX: y", "/secret x",
                               "https:///secret", "https://a:99999/secret"}) {
    const Result<Address> address = ResolveLocation(base, "/", location);
    ASSERT_FALSE(address.ok()) << location;
    EXPECT_THAT(address.status().message(), Not(HasSubstr("secret"))) << location;
  }
  EXPECT_TRUE(ResolveLocation(*net::ParseUrl("http://r.test"), "/", "http://cdn.test/x").ok());
}

TEST(Origin, SchemeHostAndPort) {
  const auto address = [](const char* url) { return Address{*net::ParseUrl(url), "/"}; };
  const net::Url home = *net::ParseUrl("https://r.test/v2");
  EXPECT_TRUE(address("https://R.test:443").IsSameOrigin(home));
  EXPECT_FALSE(address("http://r.test").IsSameOrigin(home));
  EXPECT_FALSE(address("https://r.test:444").IsSameOrigin(home));
  EXPECT_FALSE(address("https://r.test.evil.test").IsSameOrigin(home));
}

TEST(NextRound, FullJitterUnderAGrowingCeilingAndNeverLessThanAskedFor) {
  const RetryRules rules{.max_attempts = 4,
                         .initial_backoff = milliseconds(100),
                         .max_backoff = milliseconds(250),
                         .max_retry_after = seconds(60)};
  const struct {
    int made;
    std::optional<Duration> retry_after;
    double random;
    std::optional<Duration> wait;
  } cases[] = {{1, std::nullopt, 0.5, milliseconds(50)},
               {2, std::nullopt, 0.5, milliseconds(100)},
               {3, std::nullopt, 0.5, milliseconds(125)},
               {3, std::nullopt, 0.0, milliseconds(0)},
               {4, std::nullopt, 0.5, std::nullopt},
               {1, seconds(7), 0.0, seconds(7)},
               {1, seconds(7), 0.5, seconds(7) + milliseconds(50)},
               {1, std::chrono::hours(5), 0.0, seconds(60)},
               {4, seconds(1), 0.0, std::nullopt}};
  for (const auto& c : cases) EXPECT_EQ(NextRound(rules, c.made, c.retry_after, c.random), c.wait) << c.made;
}

TEST(RegistryFailure, TheRegistrysWordsOnOneLine) {
  net::HttpResponse response;
  response.status = 403;
  response.body = R"({"errors":[{"code":"DENIED","message":"requested access\nto the resource is denied"}]})";
  const Status status = RegistryFailure(response, "GET r.test/x");
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(status.message(), "GET r.test/x: HTTP status 403 (DENIED requested access to the resource is denied)");
  response.body = "<html>";
  EXPECT_EQ(RegistryFailure(response, "GET r.test/x").message(), "GET r.test/x: HTTP status 403");
  response.body = R"({"errors":[{"message":")" + std::string(100000, 'x') + R"("}]})";
  EXPECT_LT(RegistryFailure(response, "x").message().size(), 400u);
}

TEST(CoalesceRanges, NeighboursWithinTheLimits) {
  const auto merge = [](std::vector<ByteRange> ranges) { return CoalesceRanges(std::move(ranges), 10, 100); };
  EXPECT_THAT(merge({}), IsEmpty());
  EXPECT_THAT(merge({{0, 0}}), IsEmpty());
  EXPECT_THAT(merge({{20, 5}, {0, 10}}), ElementsAre(ByteRange{0, 25}));
  EXPECT_THAT(merge({{0, 10}, {21, 5}}), ElementsAre(ByteRange{0, 10}, ByteRange{21, 5}));
  EXPECT_THAT(merge({{0, 10}, {10, 90}}), ElementsAre(ByteRange{0, 100}));
  EXPECT_THAT(merge({{0, 10}, {10, 91}}), ElementsAre(ByteRange{0, 10}, ByteRange{10, 91}));
  EXPECT_THAT(merge({{0, 500}}), ElementsAre(ByteRange{0, 500}));
  EXPECT_THAT(merge({{0, 50}, {10, 5}, {45, 20}}), ElementsAre(ByteRange{0, 65}));
}

}  // namespace
}  // namespace paceline::blocks
