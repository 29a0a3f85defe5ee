#include "lib/net/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "tests/net/gzip_encode.h"
#include "tests/net/misbehaving_server.h"
#include "tests/net/recording_clock.h"

namespace paceline::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

class HttpClientTest : public testing::Test {
 protected:
  std::unique_ptr<HttpTransport> Client(const std::string& url, HttpClientOptions options = {}) {
    options.base_url = url;
    return NewHttpClient(std::move(options), clock_).value();
  }
  Deadline Soon() { return Deadline::After(clock_, seconds(20)); }

  static HttpRequest Get(const std::string& target = "/") { return {.target = target}; }
  static HttpRequest Post(const std::string& body = "x") { return {.method = "POST", .target = "/", .body = body}; }

  RecordingClock clock_;
};

HttpClientOptions OneAttempt() { return {.retry = {.max_attempts = 1}}; }

// Answers every request on every connection with `response`.
MisbehavingServer::Script Always(std::string response) {
  return [response = std::move(response)](Peer& peer) {
    while (!peer.ReadRequest().empty()) peer.Write(response);
  };
}

TEST_F(HttpClientTest, SendsTheRequestAndReadsTheAnswer) {
  std::string seen;
  MisbehavingServer server([&](Peer& peer) {
    seen = peer.ReadRequest();
    peer.Write("HTTP/1.1 404 Not Found\r\nX-Answer: 42\r\nContent-Length: 4\r\n\r\nnope");
  });
  const auto client = Client(server.url() + "/prefix/", {.user_agent = "test/1"});
  HttpRequest request = {.method = "PUT", .target = "/a%20b?c=d%2Ce", .headers = {{"X-Own", "1"}}, .body = "body"};
  const Result<HttpResponse> response = client->Send(request, Soon());
  ASSERT_TRUE(response.ok()) << response.status().ToString();
  EXPECT_EQ(response->status, 404);
  EXPECT_EQ(response->Header("x-answer"), "42");
  EXPECT_EQ(response->body, "nope");
  EXPECT_THAT(seen, HasSubstr("PUT /prefix/a%20b?c=d%2Ce HTTP/1.1\r\n"));
  EXPECT_THAT(seen, HasSubstr("X-Own:1\r\n"));
  EXPECT_THAT(seen, HasSubstr("User-Agent:test/1\r\n"));
  EXPECT_THAT(seen, HasSubstr("\r\n\r\nbody"));
}

TEST_F(HttpClientTest, ReusesConnections) {
  MisbehavingServer server(Always(OkResponse("ok")));
  const auto client = Client(server.url());
  // The library puts a connection back a moment after it has given the answer, so one or two more may be made.
  for (int i = 0; i < 40; ++i) EXPECT_EQ(client->Send(Get(), Soon())->body, "ok");
  const int after_reads = server.connections();
  EXPECT_LE(after_reads, 8);
  // Requests that cannot be replayed have connections of their own.
  for (int i = 0; i < 40; ++i) EXPECT_EQ(client->Send(Post(), Soon())->body, "ok");
  EXPECT_GT(server.connections(), after_reads);
  EXPECT_LE(server.connections(), after_reads + 8);
}

TEST_F(HttpClientTest, ManyThreadsShareOneClient) {
  MisbehavingServer server([](Peer& peer) {
    for (std::string request = peer.ReadRequest(); !request.empty(); request = peer.ReadRequest()) {
      peer.Write(OkResponse(request.substr(0, request.find(" HTTP"))));
    }
  });
  const auto client = Client(server.url());
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 25; ++i) {
        const std::string target = "/" + std::to_string(t) + "/" + std::to_string(i);
        const Result<HttpResponse> response = client->Send(Get(target), Soon());
        if (response.ok() && response->body == "GET " + target) ++good;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 200);
}

TEST_F(HttpClientTest, SilentServerEndsAtTheDeadline) {
  MisbehavingServer server([](Peer& peer) {
    peer.ReadRequest();
    peer.AwaitClose();
  });
  const auto client = Client(server.url());
  const TimePoint start = clock_.Now();
  const Result<HttpResponse> response = client->Send(Get(), Deadline::After(clock_, milliseconds(150)));
  EXPECT_EQ(response.status().code(), StatusCode::kDeadlineExceeded) << response.status().ToString();
  EXPECT_GE(clock_.Now() - start, milliseconds(150));
  EXPECT_LT(clock_.Now() - start, seconds(5));
}

// The library's own time-out is re-armed by every byte; ours is not.
TEST_F(HttpClientTest, EndlessBodyEndsAtTheDeadline) {
  MisbehavingServer server([](Peer& peer) {
    peer.ReadRequest();
    peer.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    while (peer.Write("1\r\na\r\n")) {
    }
  });
  const auto client = Client(server.url());
  const Result<HttpResponse> response = client->Send(Get(), Deadline::After(clock_, milliseconds(150)));
  EXPECT_EQ(response.status().code(), StatusCode::kDeadlineExceeded) << response.status().ToString();
}

TEST_F(HttpClientTest, ConnectTimeoutCoversTheTlsHandshake) {
  MisbehavingServer server([](Peer& peer) { peer.AwaitClose(); });  // reads the hello, says nothing
  HttpClientOptions options = OneAttempt();
  options.connect_timeout = milliseconds(100);
  const std::string url = "https://127.0.0.1:" + std::to_string(server.port());
  const Result<HttpResponse> response = Client(url, options)->Send(Post(), Soon());
  EXPECT_EQ(response.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(response.status().message(), HasSubstr("connect timed out"));
}

TEST_F(HttpClientTest, StopEndsABlockedCall) {
  std::stop_source stop;
  MisbehavingServer server([&](Peer& peer) {
    peer.ReadRequest();
    stop.request_stop();
    peer.AwaitClose();
  });
  const Result<HttpResponse> response = Client(server.url())->Send(Get(), Deadline::Infinite(), stop.get_token());
  EXPECT_EQ(response.status().code(), StatusCode::kCancelled) << response.status().ToString();
}

TEST_F(HttpClientTest, RefusedConnectionIsRetriedForEveryMethodAndNamed) {
  uint16_t free_port = 0;
  {
    free_port = MisbehavingServer([](Peer&) {}).port();
  }
  const auto client = Client("http://127.0.0.1:" + std::to_string(free_port));
  for (const char* method : {"GET", "POST", "PATCH"}) {
    const Result<HttpResponse> response = client->Send({.method = method, .target = "/x?token=secret"}, Soon());
    EXPECT_EQ(response.status().code(), StatusCode::kUnavailable);
    EXPECT_THAT(response.status().message(), HasSubstr(std::string(method) + " 127.0.0.1"));
    EXPECT_THAT(response.status().message(), HasSubstr("onnect"));
    EXPECT_THAT(response.status().message(), Not(HasSubstr("secret")));
  }
  EXPECT_EQ(clock_.sleeps().size(), 9u);  // three waits for each
}

TEST_F(HttpClientTest, UnknownHostIsUnavailable) {
  const Result<HttpResponse> response = Client("http://does-not-exist.invalid", OneAttempt())->Send(Get(), Soon());
  EXPECT_EQ(response.status().code(), StatusCode::kUnavailable);
}

TEST_F(HttpClientTest, WaitsAsRetryAfterSays) {
  std::atomic<int> requests = 0;
  MisbehavingServer server([&](Peer& peer) {
    while (!peer.ReadRequest().empty()) {
      const int n = requests++;
      if (n == 0) peer.Write("HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n");
      if (n == 1) peer.Write("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
      if (n == 2) peer.Write(OkResponse("at last"));
    }
  });
  const Result<HttpResponse> response = Client(server.url())->Send(Get(), Deadline::After(clock_, seconds(60)));
  ASSERT_TRUE(response.ok()) << response.status().ToString();
  EXPECT_EQ(response->body, "at last");
  ASSERT_EQ(clock_.sleeps().size(), 2u);
  EXPECT_NEAR(ToSeconds(clock_.sleeps()[0]), 7, 0.5);
  EXPECT_LE(ToSeconds(clock_.sleeps()[1]), 0.2);
}

TEST_F(HttpClientTest, WaitPastTheDeadlineIsNotWorthStarting) {
  MisbehavingServer server(Always("HTTP/1.1 429 Slow\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n"));
  const Result<HttpResponse> response = Client(server.url())->Send(Get(), Soon());
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->status, 429);
  EXPECT_TRUE(clock_.sleeps().empty());
}

TEST_F(HttpClientTest, PostThatTheServerMayHaveSeenIsSentOnce) {
  std::atomic<int> posts = 0;
  MisbehavingServer server([&](Peer& peer) {
    for (std::string request = peer.ReadRequest(); !request.empty(); request = peer.ReadRequest()) {
      if (request.find("/first") != std::string::npos) {
        peer.Write(OkResponse(""));
        continue;
      }
      ++posts;
      return;  // cut without an answer, on a connection that was used before
    }
  });
  for (const char* body : {"", "data"}) {
    const auto client = Client(server.url());
    posts = 0;
    ASSERT_TRUE(client->Send({.method = "POST", .target = "/first", .body = body}, Soon()).ok());
    const Result<HttpResponse> response = client->Send({.method = "POST", .target = "/", .body = body}, Soon());
    EXPECT_EQ(response.status().code(), StatusCode::kUnavailable) << response.status().ToString();
    EXPECT_EQ(posts, 1) << "body \"" << body << "\"";
  }
}

TEST_F(HttpClientTest, GetOverAConnectionThatWentStaleSucceeds) {
  MisbehavingServer server([](Peer& peer) {
    peer.ReadRequest();
    peer.Write(OkResponse("ok"));  // and closes, though it did not say so
  });
  const auto client = Client(server.url());
  for (int i = 0; i < 4; ++i) {
    const Result<HttpResponse> response = client->Send(Get(), Soon());
    ASSERT_TRUE(response.ok()) << response.status().ToString();
    const Result<HttpResponse> put = client->Send({.method = "PUT", .target = "/", .body = "b"}, Soon());
    ASSERT_TRUE(put.ok()) << put.status().ToString();
  }
}

TEST_F(HttpClientTest, UnauthorizedRenewsTheCredentialOnce) {
  MisbehavingServer server([](Peer& peer) {
    for (std::string request = peer.ReadRequest(); !request.empty(); request = peer.ReadRequest()) {
      const bool is_good = request.find("Bearer new") != std::string::npos;
      peer.Write(is_good ? OkResponse("in") : "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n");
    }
  });
  std::vector<bool> calls;
  HttpClientOptions options;
  std::string renewed = "new";
  options.authorize = [&](Headers& headers, bool was_rejected) {
    calls.push_back(was_rejected);
    headers["Authorization"] = "Bearer " + (was_rejected ? renewed : "old");
    return Status();
  };
  const auto client = Client(server.url(), options);
  EXPECT_EQ(client->Send(Post(), Soon())->body, "in");
  EXPECT_EQ(calls, (std::vector<bool>{false, true}));
  calls.clear();
  renewed = "still-bad";
  EXPECT_EQ(client->Send(Post(), Soon())->status, 401);
  EXPECT_EQ(calls, (std::vector<bool>{false, true}));
}

TEST_F(HttpClientTest, FailureToAuthorizeIsReturned) {
  HttpClientOptions options;
  options.authorize = [](Headers&, bool) { return PermissionDeniedError("token file is gone"); };
  const Result<HttpResponse> response = Client("http://127.0.0.1:1", options)->Send(Get(), Soon());
  EXPECT_EQ(response.status().code(), StatusCode::kPermissionDenied);
}

TEST_F(HttpClientTest, RedirectIsTheCallersBusiness) {
  MisbehavingServer server(Always("HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"));
  const Result<HttpResponse> response = Client(server.url())->Send(Get(), Soon());
  ASSERT_TRUE(response.ok()) << response.status().ToString();
  EXPECT_EQ(response->status, 302);
  EXPECT_EQ(response->Header("Location"), "/elsewhere");
}

TEST_F(HttpClientTest, GzipIsDecodedOnlyWhenAsked) {
  const std::string encoded = GzipEncode("plain text");
  MisbehavingServer server(Always(OkResponse(encoded, "Content-Encoding: gzip\r\n")));
  const auto client = Client(server.url());
  const Result<HttpResponse> asked = client->Send({.target = "/", .headers = {{"Accept-Encoding", "gzip"}}}, Soon());
  ASSERT_TRUE(asked.ok()) << asked.status().ToString();
  EXPECT_EQ(asked->body, "plain text");
  EXPECT_EQ(asked->Header("Content-Encoding"), "");
  const Result<HttpResponse> not_asked = client->Send(Get(), Soon());
  ASSERT_TRUE(not_asked.ok());
  EXPECT_EQ(not_asked->body, encoded);
  EXPECT_EQ(not_asked->Header("Content-Encoding"), "gzip");
}

TEST_F(HttpClientTest, BodyLimitHoldsForEveryFraming) {
  const std::string big(3000, 'x');
  const std::string cases[] = {
      OkResponse(big),
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nbb8\r\n" + big + "\r\n0\r\n\r\n",
      OkResponse(GzipEncode(std::string(100'000, 'x')), "Content-Encoding: gzip\r\n"),
      "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
  };
  for (const std::string& text : cases) {
    MisbehavingServer server(Always(text));
    HttpClientOptions options;
    options.max_body_bytes = 2000;
    const auto client = Client(server.url(), options);
    const Result<HttpResponse> response =
        client->Send({.target = "/", .headers = {{"Accept-Encoding", "gzip"}}}, Soon());
    EXPECT_EQ(response.status().code(), StatusCode::kResourceExhausted)
        << text.substr(0, 60) << response.status().ToString();
  }
  EXPECT_TRUE(clock_.sleeps().empty());
}

TEST_F(HttpClientTest, HeadHasHeadersAndNoBody) {
  MisbehavingServer server(Always("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"));
  const auto client = Client(server.url());
  for (int i = 0; i < 2; ++i) {
    const Result<HttpResponse> response = client->Send({.method = "HEAD", .target = "/"}, Soon());
    ASSERT_TRUE(response.ok()) << response.status().ToString();
    EXPECT_EQ(response->Header("Content-Length"), "99999999999");
    EXPECT_EQ(response->body, "");
  }
}

TEST_F(HttpClientTest, RefusesWhatWouldBreakTheRequest) {
  const auto client = Client("http://127.0.0.1:1");
  const HttpRequest bad[] = {
      {.target = "no-slash"},
      {.target = ""},
      {.target = "/a", .headers = {{"X", "1\r\nY: 2"}}},
      {.target = "/a", .headers = {{"X Y", "1"}}},
      {.target = "/a", .headers = {{"", "1"}}},
      {.target = "/a", .headers = {{"X", std::string("\0", 1)}}},
  };
  for (const HttpRequest& request : bad) {
    EXPECT_EQ(client->Send(request, Soon()).status().code(), StatusCode::kInvalidArgument) << request.target;
    const auto ignore = [](std::string_view) { return Status(); };
    EXPECT_EQ(client->Stream(request, ignore, seconds(1), Soon(), {}).status().code(), StatusCode::kInvalidArgument);
  }
}

TEST_F(HttpClientTest, BadUrlsAreRefusedAtOnce) {
  const auto code = [&](HttpClientOptions options) {
    return NewHttpClient(std::move(options), clock_).status().code();
  };
  EXPECT_EQ(code({.base_url = "10.0.0.1:6443"}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.base_url = "http://a", .proxy_url = "https://proxy"}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.base_url = "http://a", .proxy_url = "proxy"}), StatusCode::kInvalidArgument);
}

// Each of these must fail, whole and named, whichever of the two engines reads it.
TEST_F(HttpClientTest, BrokenAnswersAreUnavailableNeverShort) {
  const std::pair<const char*, std::string> cases[] = {
      {"nothing", ""},
      {"cut head", "HTTP/1.1 200 OK\r\nContent-Le"},
      {"cut sized body", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345"},
      {"cut in chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n12345"},
      {"cut between chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n"},
      {"cut before the last line", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\n"},
      {"garbage", "SSH-2.0-OpenSSH_9.2\r\n\r\n"},
      {"bad chunk size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n12345\r\n0\r\n\r\n"},
      {"informational only", "HTTP/1.1 103 Hints\r\n\r\n"},
  };
  for (const bool resets : {false, true}) {
    for (const auto& [name, text] : cases) {
      const auto script = [text = text, resets](Peer& peer) {
        if (peer.ReadRequest().empty()) return;
        peer.Write(text);
        if (resets) peer.Reset();
      };
      MisbehavingServer v4(script);
      MisbehavingServer v6(script, "::1");
      const Result<HttpResponse> over_library = Client(v4.url(), OneAttempt())->Send(Get(), Soon());
      EXPECT_EQ(over_library.status().code(), StatusCode::kUnavailable) << name;
      const Result<HttpResponse> direct = Client(v6.url(), OneAttempt())->Send(Get(), Soon());
      EXPECT_EQ(direct.status().code(), StatusCode::kUnavailable) << name;
      const auto ignore = [](std::string_view) { return Status(); };
      const Result<HttpResponse> streamed = Client(v4.url())->Stream(Get(), ignore, seconds(5), Soon(), {});
      EXPECT_EQ(streamed.status().code(), StatusCode::kUnavailable) << name;
    }
  }
}

TEST_F(HttpClientTest, Ipv6LiteralWorksForSend) {
  std::string seen;
  MisbehavingServer server(
      [&](Peer& peer) {
        for (std::string request = peer.ReadRequest(); !request.empty(); request = peer.ReadRequest()) {
          seen = request;
          peer.Write(OkResponse("six"));
        }
      },
      "::1");
  const auto client = Client(server.url());
  for (int i = 0; i < 12; ++i) {
    const Result<HttpResponse> response = client->Send(Post("body"), Soon());
    ASSERT_TRUE(response.ok()) << response.status().ToString();
    EXPECT_EQ(response->body, "six");
  }
  EXPECT_THAT(seen, HasSubstr("Host: [::1]:" + std::to_string(server.port())));
  EXPECT_LT(server.connections(), 12);  // reused; put back a moment after the answer, as above
}

TEST_F(HttpClientTest, PlainRequestsGoThroughTheProxy) {
  std::string seen;
  MisbehavingServer proxy([&](Peer& peer) {
    seen = peer.ReadRequest();
    peer.Write(OkResponse("from the proxy"));
  });
  HttpClientOptions options;
  options.proxy_url = "http://user:pw@127.0.0.1:" + std::to_string(proxy.port());
  const auto client = Client("http://api.invalid:8080", options);
  const auto ignore = [](std::string_view) { return Status(); };
  ASSERT_TRUE(client->Stream(Get("/x"), ignore, seconds(5), Soon(), {}).ok());
  EXPECT_THAT(seen, HasSubstr("GET http://api.invalid:8080/x HTTP/1.1\r\n"));
  EXPECT_THAT(seen, HasSubstr("Proxy-Authorization: Basic dXNlcjpwdw==\r\n"));
  const Result<HttpResponse> response = client->Send(Get("/y"), Soon());
  ASSERT_TRUE(response.ok()) << response.status().ToString();
  EXPECT_EQ(response->body, "from the proxy");
  EXPECT_THAT(seen, HasSubstr("GET http://api.invalid:8080/y HTTP/1.1\r\n"));
  EXPECT_THAT(seen, HasSubstr("Proxy-Authorization: Basic dXNlcjpwdw==\r\n"));
}

TEST_F(HttpClientTest, ProxyThatSaysNoIsUnavailable) {
  MisbehavingServer proxy([](Peer& peer) {
    peer.ReadRequest();
    peer.Write("HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n");
  });
  HttpClientOptions options = OneAttempt();
  options.proxy_url = proxy.url();
  const auto client = Client("https://api.invalid", options);
  const auto ignore = [](std::string_view) { return Status(); };
  EXPECT_THAT(client->Stream(Get(), ignore, seconds(5), Soon(), {}).status().message(), HasSubstr("407"));
  EXPECT_EQ(client->Send(Get(), Soon()).status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace paceline::net
