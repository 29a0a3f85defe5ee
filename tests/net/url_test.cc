#include "lib/net/url.h"

#include <gtest/gtest.h>

namespace paceline::net {
namespace {

TEST(ParseUrl, SplitsGoodUrls) {
  struct Case {
    const char *text, *host, *path, *host_header;
    int port;
    bool is_https;
  };
  const Case cases[] = {
      {"https://10.0.0.1:6443", "10.0.0.1", "", "10.0.0.1:6443", 6443, true},
      {"https://kubernetes.default.svc", "kubernetes.default.svc", "", "kubernetes.default.svc", 443, true},
      {"https://Registry.Example:443/", "registry.example", "", "registry.example", 443, true},
      {"http://a/b/c/", "a", "/b/c", "a", 80, false},
      {"http://[fd00::1]:8080/x", "fd00::1", "/x", "[fd00::1]:8080", 8080, false},
      {"https://[::1]", "::1", "", "[::1]", 443, true},
      {"http://user:p%40ss@proxy:3128", "proxy", "", "proxy:3128", 3128, false},
  };
  for (const Case& c : cases) {
    const Result<Url> url = ParseUrl(c.text);
    ASSERT_TRUE(url.ok()) << c.text << ": " << url.status().ToString();
    EXPECT_EQ(url->host, c.host) << c.text;
    EXPECT_EQ(url->path, c.path) << c.text;
    EXPECT_EQ(url->port, c.port) << c.text;
    EXPECT_EQ(url->is_https, c.is_https) << c.text;
    EXPECT_EQ(url->HostHeader(), c.host_header) << c.text;
  }
  EXPECT_EQ(ParseUrl("http://user:p%40ss@proxy:3128")->username, "user");
  EXPECT_EQ(ParseUrl("http://user:p%40ss@proxy:3128")->password, "p@ss");
}

TEST(ParseUrl, RefusesBadUrlsByName) {
  const char* cases[] = {"",
                         "10.0.0.1:6443",
                         "ftp://a",
                         "https://",
                         "https://:443",
                         "https://a:0",
                         "https://a:65536",
                         "https://a:44x",
                         "https://a:",
                         "https://a b",
                         "https://fd00::1",
                         "https://[fd00::1",
                         "https://[10.0.0.1]",
                         "https://[fd00::1]x",
                         "https://a?b",
                         "https://a#b",
                         "https://a/b\r\nX: y",
                         "https://u%4@a",
                         "https://\xc3\xa4"};
  for (const char* text : cases) {
    const Result<Url> url = ParseUrl(text);
    ASSERT_FALSE(url.ok()) << text;
    EXPECT_EQ(url.status().code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST(UrlDecode, DecodesAndRefuses) {
  EXPECT_EQ(*UrlDecode("a%20b%2fc%2F"), "a b/c/");
  EXPECT_EQ(*UrlDecode(""), "");
  for (const char* text : {"%", "%a", "%zz", "x%2"}) EXPECT_FALSE(UrlDecode(text).ok()) << text;
}

}  // namespace
}  // namespace paceline::net
