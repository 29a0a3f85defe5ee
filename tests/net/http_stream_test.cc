#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "lib/net/http_client.h"
#include "tests/fakes/test_ca.h"
#include "tests/net/gzip_encode.h"
#include "tests/net/misbehaving_server.h"
#include "tests/net/recording_clock.h"

namespace paceline::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr const char* kChunkedHead = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

class HttpStreamTest : public testing::Test {
 protected:
  std::unique_ptr<HttpTransport> Client(const MisbehavingServer& server, HttpClientOptions options = {}) {
    options.base_url = server.url();
    options.tls.ca = [this]() -> Result<std::string> { return ca_.ca.certificate; };
    return NewHttpClient(std::move(options), clock_).value();
  }
  Deadline Soon() { return Deadline::After(clock_, seconds(20)); }

  Result<HttpResponse> Collect(HttpTransport& client, std::string* body, Headers headers = {}) {
    const auto append = [body](std::string_view piece) {
      *body += piece;
      return Status();
    };
    return client.Stream({.target = "/", .headers = std::move(headers)}, append, seconds(10), Soon(), {});
  }

  const fakes::TestCa ca_;
  RecordingClock clock_;
};

TEST_F(HttpStreamTest, EveryEventArrivesBeforeTheNextIsSent) {
  // The server sends an event only after the client has confirmed the one before: any buffering would hang the test.
  std::atomic<int> received = 0;
  MisbehavingServer server(
      [&](Peer& peer) {
        peer.ReadRequest();
        peer.Write(kChunkedHead);
        for (int i = 0; i < 50; ++i) {
          while (received.load() < i) received.wait(received.load());
          peer.Write("8\r\nevent-" + std::string(i < 10 ? "0" : "") + std::to_string(i) + "\r\n");
        }
        peer.Write("0\r\n\r\n");
        peer.AwaitClose();
      },
      ca_.server);
  const auto client = Client(server);
  const auto count = [&](std::string_view piece) {
    EXPECT_EQ(piece.size(), 8u);
    ++received;
    received.notify_all();
    return Status();
  };
  const Result<HttpResponse> response = client->Stream({.target = "/watch"}, count, seconds(10), Soon(), {});
  ASSERT_TRUE(response.ok()) << response.status().ToString();
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(received, 50);
}

TEST_F(HttpStreamTest, LargeBodiesArriveWholeUnderBothFramings) {
  std::string body;
  body.resize(20'000'000);
  for (size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>((i * 2654435761u) >> 24);
  for (const bool is_chunked : {false, true}) {
    MisbehavingServer server(
        [&](Peer& peer) {
          while (!peer.ReadRequest().empty()) {
            if (!is_chunked) {
              peer.Write(OkResponse(body));
              continue;
            }
            char size[32];
            snprintf(size, sizeof(size), "%zx\r\n", body.size());
            peer.Write(kChunkedHead + std::string(size) + body + "\r\n0\r\n\r\n");
          }
        },
        ca_.server);
    const auto client = Client(server);
    for (int round = 0; round < 2; ++round) {
      std::string got;
      const Result<HttpResponse> response = Collect(*client, &got);
      ASSERT_TRUE(response.ok()) << response.status().ToString();
      EXPECT_EQ(response->body, "");
      EXPECT_TRUE(got == body);
    }
    EXPECT_EQ(server.connections(), 1);
  }
}

TEST_F(HttpStreamTest, SlowConsumerHoldsTheServerBack) {
  std::atomic<size_t> sent = 0;
  std::atomic<bool> is_stuck = false;
  const std::string piece(64 * 1024, 'x');
  MisbehavingServer server([&](Peer& peer) {
    peer.ReadRequest();
    peer.Write("HTTP/1.1 200 OK\r\nContent-Length: 134217728\r\n\r\n");
    for (size_t i = 0; i < 2048; ++i) {
      if (!peer.Write(piece)) return;
      sent += piece.size();
    }
  });
  const auto client = Client(server);
  size_t got = 0;
  const auto look = [&](std::string_view part) {
    got += part.size();
    if (!is_stuck.exchange(true)) {
      // Hold the first piece until the server has made no progress for a while: the socket buffers are full.
      size_t last = 0;
      for (int still = 0; still < 20;) {
        clock_.real().SleepFor(milliseconds(5), {});
        still = sent == last ? still + 1 : 0;
        last = sent;
      }
      EXPECT_LT(last, 40u * 1024 * 1024) << "the client took data that nobody consumed";
    }
    return Status();
  };
  const Result<HttpResponse> response = client->Stream({.target = "/"}, look, seconds(10), Soon(), {});
  ASSERT_TRUE(response.ok()) << response.status().ToString();
  EXPECT_EQ(got, 134217728u);
}

TEST_F(HttpStreamTest, StopEndsABlockedReadAtOnce) {
  std::stop_source stop;
  std::atomic<int64_t> stopped_at = 0;
  MisbehavingServer server(
      [&](Peer& peer) {
        peer.ReadRequest();
        peer.Write(std::string(kChunkedHead) + "1\r\na\r\n");
        stopped_at = clock_.Now().time_since_epoch().count();
        stop.request_stop();
        peer.AwaitClose();
      },
      ca_.server);
  const auto ignore = [](std::string_view) { return Status(); };
  const Result<HttpResponse> response =
      Client(server)->Stream({.target = "/"}, ignore, seconds(60), Deadline::Infinite(), stop.get_token());
  EXPECT_EQ(response.status().code(), StatusCode::kCancelled) << response.status().ToString();
  EXPECT_LT(clock_.Now().time_since_epoch().count() - stopped_at, 100'000'000);
}

TEST_F(HttpStreamTest, StopEndsAFloodAndADeadlineToo) {
  MisbehavingServer server([&](Peer& peer) {
    peer.ReadRequest();
    peer.Write(kChunkedHead);
    while (peer.Write("1\r\na\r\n")) {
    }
  });
  const auto client = Client(server);
  std::stop_source stop;
  const auto stop_soon = [&](std::string_view) {
    stop.request_stop();
    return Status();
  };
  EXPECT_EQ(client->Stream({.target = "/"}, stop_soon, seconds(10), Soon(), stop.get_token()).status().code(),
            StatusCode::kCancelled);
  const auto ignore = [](std::string_view) { return Status(); };
  EXPECT_EQ(client->Stream({.target = "/"}, ignore, seconds(10), Deadline::After(clock_, milliseconds(100)), {})
                .status()
                .code(),
            StatusCode::kDeadlineExceeded);
}

TEST_F(HttpStreamTest, SilenceIsNoticed) {
  MisbehavingServer server(
      [&](Peer& peer) {
        peer.ReadRequest();
        peer.Write(std::string(kChunkedHead) + "1\r\na\r\n");
        peer.AwaitClose();
      },
      ca_.server);
  const auto ignore = [](std::string_view) { return Status(); };
  const TimePoint start = clock_.Now();
  const Result<HttpResponse> response = Client(server)->Stream({.target = "/"}, ignore, milliseconds(120), Soon(), {});
  EXPECT_EQ(response.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(response.status().message(), HasSubstr("idle"));
  EXPECT_GE(clock_.Now() - start, milliseconds(120));
  EXPECT_EQ(server.connections(), 1);
}

TEST_F(HttpStreamTest, ConsumersFailureEndsTheTransfer) {
  MisbehavingServer server([&](Peer& peer) {
    peer.ReadRequest();
    peer.Write(kChunkedHead);
    while (peer.Write("1\r\na\r\n")) {
    }
  });
  const auto refuse = [](std::string_view) { return DataLossError("not JSON"); };
  const Result<HttpResponse> response = Client(server)->Stream({.target = "/"}, refuse, seconds(10), Soon(), {});
  EXPECT_EQ(response.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(response.status().message(), HasSubstr("not JSON"));
}

TEST_F(HttpStreamTest, ErrorBodiesAreReturnedNotStreamed) {
  MisbehavingServer server([&](Peer& peer) {
    while (!peer.ReadRequest().empty()) {
      peer.Write("HTTP/1.1 410 Gone\r\nContent-Length: 9\r\n\r\n{\"c\":410}");
    }
  });
  const auto fail = [](std::string_view) { return InternalError("streamed an error body"); };
  const Result<HttpResponse> response = Client(server)->Stream({.target = "/"}, fail, seconds(10), Soon(), {});
  ASSERT_TRUE(response.ok()) << response.status().ToString();
  EXPECT_EQ(response->status, 410);
  EXPECT_EQ(response->body, "{\"c\":410}");
}

TEST_F(HttpStreamTest, GzipIsDecodedOnTheWayAndACutIsNoticed) {
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += "line " + std::to_string(i) + "\n";
  std::string encoded = GzipEncode(text);
  MisbehavingServer server([&](Peer& peer) {
    while (!peer.ReadRequest().empty()) peer.Write(OkResponse(encoded, "Content-Encoding: gzip\r\n"));
  });
  const auto client = Client(server);
  std::string got;
  ASSERT_TRUE(Collect(*client, &got, {{"Accept-Encoding", "gzip"}}).ok());
  EXPECT_TRUE(got == text);
  got.clear();
  ASSERT_TRUE(Collect(*client, &got).ok());
  EXPECT_TRUE(got == encoded);
  encoded.resize(encoded.size() / 2);
  EXPECT_EQ(Collect(*client, &got, {{"Accept-Encoding", "gzip"}}).status().code(), StatusCode::kDataLoss);
}

TEST_F(HttpStreamTest, TlsCutWithoutCloseNotifyIsNoEnd) {
  MisbehavingServer cut(
      [](Peer& peer) {
        peer.ReadRequest();
        peer.Write("HTTP/1.1 200 OK\r\n\r\nhalf of it");
      },
      ca_.server);
  std::string got;
  const Result<HttpResponse> response = Collect(*Client(cut), &got);
  EXPECT_EQ(response.status().code(), StatusCode::kUnavailable) << response.status().ToString();

  MisbehavingServer closed(
      [](Peer& peer) {
        peer.ReadRequest();
        peer.Write("HTTP/1.1 200 OK\r\n\r\nall of it");
        peer.Close();
      },
      ca_.server);
  got.clear();
  EXPECT_TRUE(Collect(*Client(closed), &got).ok());
  EXPECT_EQ(got, "all of it");
}

TEST_F(HttpStreamTest, StaleConnectionsAreNotUsed) {
  std::atomic<int> requests = 0;
  MisbehavingServer server(
      [&](Peer& peer) {
        if (peer.ReadRequest().empty()) return;
        ++requests;
        peer.Write(OkResponse("ok"));  // and closes, though it did not say so
      },
      ca_.server);
  const auto client = Client(server);
  for (int i = 0; i < 5; ++i) {
    std::string got;
    const Result<HttpResponse> response = Collect(*client, &got);
    ASSERT_TRUE(response.ok()) << response.status().ToString();
    EXPECT_EQ(got, "ok");
  }
  EXPECT_EQ(requests, 5);
}

TEST_F(HttpStreamTest, RejectedCredentialIsRenewedOnce) {
  MisbehavingServer server([](Peer& peer) {
    for (std::string request = peer.ReadRequest(); !request.empty(); request = peer.ReadRequest()) {
      const bool is_good = request.find("token-2") != std::string::npos;
      peer.Write(is_good ? OkResponse("events") : "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n");
    }
  });
  HttpClientOptions options;
  options.authorize = [](Headers& headers, bool was_rejected) {
    headers["Authorization"] = was_rejected ? "token-2" : "token-1";
    return Status();
  };
  std::string got;
  ASSERT_TRUE(Collect(*Client(server, options), &got).ok());
  EXPECT_EQ(got, "events");
}

TEST_F(HttpStreamTest, LargeRequestBodyIsSentWhole) {
  const std::string body(5'000'000, 'b');
  size_t seen = 0;
  MisbehavingServer server(
      [&](Peer& peer) {
        seen = peer.ReadRequest().size();
        peer.Write(OkResponse("ok"));
      },
      ca_.server);
  const auto ignore = [](std::string_view) { return Status(); };
  const HttpRequest request = {.method = "POST", .target = "/", .body = body};
  ASSERT_TRUE(Client(server)->Stream(request, ignore, seconds(10), Soon(), {}).ok());
  EXPECT_GT(seen, body.size());
}

}  // namespace
}  // namespace paceline::net
