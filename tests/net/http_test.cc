#include "lib/net/http.h"

#include <gtest/gtest.h>

#include "lib/net/url.h"

namespace paceline::net {
namespace {

TEST(Headers, CompareWithoutCase) {
  HttpResponse response;
  response.headers["Content-Type"] = "text/plain";
  EXPECT_EQ(response.Header("content-type"), "text/plain");
  EXPECT_EQ(response.Header("CONTENT-TYPE"), "text/plain");
  EXPECT_EQ(response.Header("Content-Typ"), "");
  response.headers["content-TYPE"] = "b";
  EXPECT_EQ(response.headers.size(), 1u);
}

TEST(UrlEncode, LeavesOnlyUnreservedCharacters) {
  EXPECT_EQ(UrlEncode("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(UrlEncode("a=b,c/d e"), "a%3Db%2Cc%2Fd%20e");
  std::string all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
  EXPECT_EQ(*UrlDecode(UrlEncode(all)), all);
}

TEST(HttpStatusToStatus, MapsEveryClass) {
  const std::pair<int, StatusCode> cases[] = {
      {200, StatusCode::kOk},
      {204, StatusCode::kOk},
      {100, StatusCode::kInternal},
      {302, StatusCode::kInternal},
      {400, StatusCode::kInvalidArgument},
      {401, StatusCode::kPermissionDenied},
      {403, StatusCode::kPermissionDenied},
      {404, StatusCode::kNotFound},
      {405, StatusCode::kUnimplemented},
      {409, StatusCode::kAborted},
      {410, StatusCode::kAborted},
      {412, StatusCode::kAborted},
      {413, StatusCode::kInvalidArgument},
      {422, StatusCode::kInvalidArgument},
      {429, StatusCode::kUnavailable},
      {500, StatusCode::kUnavailable},
      {501, StatusCode::kUnimplemented},
      {503, StatusCode::kUnavailable},
      {599, StatusCode::kUnavailable},
  };
  for (const auto& [http, code] : cases) EXPECT_EQ(HttpStatusToStatus(http, "x").code(), code) << http;
  EXPECT_EQ(HttpStatusToStatus(404, "GET a").message(), "GET a: HTTP status 404");
}

}  // namespace
}  // namespace paceline::net
