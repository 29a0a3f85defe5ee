#include "lib/net/route_table.h"

#include <gtest/gtest.h>

namespace paceline::net {
namespace {

Handler Named(int status) {
  return [status](const ServerRequest&, Deadline) {
    ServerResponse response;
    response.status = status;
    return response;
  };
}

TEST(RouteTable, LongestMatchWins) {
  const RouteTable table = RouteTable::Make({{"/", Named(1)},
                                             {"/metrics", Named(2)},
                                             {"/trace/", Named(3)},
                                             {"/trace/raw/", Named(4)},
                                             {"/trace/raw", Named(5)},
                                             {"GET /job", Named(6)},
                                             {"POST /job", Named(7)},
                                             {"DELETE /only/", Named(8)}})
                               .value();
  struct Case {
    const char *method, *path;
    int handler;  // 0: none
    const char* allowed;
  };
  const Case cases[] = {
      {"GET", "/", 1, ""},
      {"GET", "/x", 1, ""},
      {"GET", "/metrics", 2, ""},
      {"PURGE", "/metrics", 2, ""},
      {"GET", "/metrics/", 1, ""},
      {"GET", "/trace/", 3, ""},
      {"GET", "/trace/abc/def", 3, ""},
      {"GET", "/trace/raw", 5, ""},
      {"GET", "/trace/raw/", 4, ""},
      {"GET", "/trace/raw/1", 4, ""},
      {"GET", "/trace", 1, ""},
      {"GET", "/job", 6, ""},
      {"HEAD", "/job", 6, ""},
      {"POST", "/job", 7, ""},
      {"PUT", "/job", 0, "GET, HEAD, POST"},
      {"GET", "/only/x", 0, "DELETE"},
      {"DELETE", "/only/x", 8, ""},
  };
  for (const Case& c : cases) {
    const RouteTable::Match match = table.Find(c.method, c.path);
    const int handler = match.handler == nullptr ? 0 : (*match.handler)({}, Deadline::Infinite()).status;
    EXPECT_EQ(handler, c.handler) << c.method << " " << c.path;
    EXPECT_EQ(match.allowed_methods, c.allowed) << c.method << " " << c.path;
  }
}

TEST(RouteTable, NothingMatchesOutsideTheRoutes) {
  const RouteTable table = RouteTable::Make({{"/a/b/", Named(1)}}).value();
  for (const char* path : {"/", "/a", "/a/", "/a/b", "/b/", "", "a/b/"}) {
    const RouteTable::Match match = table.Find("GET", path);
    EXPECT_EQ(match.handler, nullptr) << path;
    EXPECT_EQ(match.allowed_methods, "") << path;
  }
}

TEST(RouteTable, RefusesBadKeys) {
  for (const char* key : {"", "metrics", "GET metrics", " /metrics", "GET "}) {
    EXPECT_EQ(RouteTable::Make({{key, Named(1)}}).status().code(), StatusCode::kInvalidArgument) << key;
  }
  EXPECT_FALSE(RouteTable::Make({{"/a", nullptr}}).ok());
}

}  // namespace
}  // namespace paceline::net
