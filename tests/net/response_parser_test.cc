#include "lib/net/response_parser.h"

#include <gtest/gtest.h>

#include <random>

namespace paceline::net {
namespace {

struct Parsed {
  Status failure;
  HttpResponse head;
  std::string body;
  size_t used = 0;
  bool keeps_alive = false;
};

// Feeds `text` in pieces of `step` bytes and then, unless done, the end of the stream.
Parsed Parse(std::string_view text, size_t step, ResponseParser::Body body = ResponseParser::Body::kAsFramed) {
  ResponseParser parser(body);
  Parsed parsed;
  const BodyConsumer consumer = [&](std::string_view piece) {
    parsed.body += piece;
    return Status();
  };
  while (parsed.used < text.size() && !parser.done()) {
    const std::string_view piece = text.substr(parsed.used, step);
    const Result<size_t> used = parser.Feed(piece, consumer);
    if (!used.ok()) {
      parsed.failure = used.status();
      return parsed;
    }
    parsed.used += *used;
    EXPECT_TRUE(*used == piece.size() || parser.done());
  }
  parsed.failure = parser.FeedEnd();
  parsed.head = parser.response();
  parsed.keeps_alive = parser.keeps_alive();
  return parsed;
}

struct GoodCase {
  const char* name;
  std::string text;
  int status;
  const char* body;
  bool keeps_alive;
};

std::vector<GoodCase> GoodCases() {
  return {
      {"sized", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", true},
      {"empty", "HTTP/1.1 201 Created\r\ncontent-length:0\r\n\r\n", 201, "", true},
      {"no reason", "HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx", 200, "x", true},
      {"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n02;ext=1\r\nde\r\n0\r\n\r\n", 200,
       "abcde", true},
      {"trailers", "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\na\r\n0\r\nX: y\r\nZ: w\r\n\r\n", 200, "a",
       true},
      {"to the end", "HTTP/1.1 200 OK\r\n\r\nuntil the end", 200, "until the end", false},
      {"close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", 200, "ok", false},
      {"close in a list", "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 0\r\n\r\n", 200, "", false},
      {"1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok", false},
      {"1.0 keep-alive", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", 200, "ok", true},
      {"informational",
       "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 404 No\r\nContent-Length: "
       "1\r\n\r\n-",
       404, "-", true},
      {"no content", "HTTP/1.1 204 No Content\r\n\r\n", 204, "", true},
      {"not modified", "HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n", 304, "", true},
      {"same length twice", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", 200, "ok", true},
      {"bare line feeds", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", 200, "ok", true},
      {"both lengths", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
       200, "a", false},
  };
}

TEST(ResponseParser, ReadsGoodResponsesWhateverThePieces) {
  for (const GoodCase& c : GoodCases()) {
    for (const size_t step : {size_t{1}, size_t{2}, size_t{3}, size_t{1000}}) {
      const Parsed parsed = Parse(c.text, step);
      ASSERT_TRUE(parsed.failure.ok()) << c.name << " " << step << " " << parsed.failure.ToString();
      EXPECT_EQ(parsed.head.status, c.status) << c.name;
      EXPECT_EQ(parsed.body, c.body) << c.name << " " << step;
      EXPECT_EQ(parsed.keeps_alive, c.keeps_alive) << c.name;
      EXPECT_EQ(parsed.used, c.text.size()) << c.name;
    }
  }
}

TEST(ResponseParser, CombinesRepeatedHeadersAndTrims) {
  const Parsed parsed = Parse("HTTP/1.1 200 OK\r\nA: \t1 \r\na:2\r\nContent-Length: 0\r\n\r\n", 1000);
  EXPECT_EQ(parsed.head.Header("A"), "1, 2");
}

TEST(ResponseParser, LeavesWhatFollowsTheResponse) {
  const std::string first = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
  EXPECT_EQ(Parse(first + "HTTP/1.1 200", 1000).used, first.size());
}

TEST(ResponseParser, TakesNoBodyWhereNoneCanBe) {
  const std::string head = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n";
  const Parsed parsed = Parse(head, 1000, ResponseParser::Body::kNone);
  EXPECT_TRUE(parsed.failure.ok());
  EXPECT_TRUE(parsed.keeps_alive);
}

TEST(ResponseParser, RefusesWhatIsNotHttp) {
  const std::pair<const char*, std::string> cases[] = {
      {"garbage", "SSH-2.0-OpenSSH_9.2\r\n\r\n"},
      {"version", "HTTP/2.0 200 OK\r\n\r\n"},
      {"status", "HTTP/1.1 2x0 OK\r\n\r\n"},
      {"negative status", "HTTP/1.1 -20 OK\r\n\r\n"},
      {"short status", "HTTP/1.1 20\r\n\r\n"},
      {"long status", "HTTP/1.1 2000 OK\r\n\r\n"},
      {"low status", "HTTP/1.1 099 OK\r\n\r\n"},
      {"upgrade", "HTTP/1.1 101 Switching\r\n\r\n"},
      {"no colon", "HTTP/1.1 200 OK\r\nabc\r\n\r\n"},
      {"no name", "HTTP/1.1 200 OK\r\n: abc\r\n\r\n"},
      {"blank in name", "HTTP/1.1 200 OK\r\nA B: abc\r\n\r\n"},
      {"folded", "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n"},
      {"NUL", std::string("HTTP/1.1 200 OK\r\nA: b\0c\r\n\r\n", 27)},
      {"length", "HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\nabc"},
      {"negative length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nabc"},
      {"empty length", "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nabc"},
      {"huge length", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nabc"},
      {"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nabc"},
      {"coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\nabc"},
      {"chunk size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"},
      {"negative chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n"},
      {"huge chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n"},
      {"empty chunk size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n"},
      {"chunk too long", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n"},
      {"chunk line", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;" + std::string(5000, 'x')},
      {"long head", "HTTP/1.1 200 OK\r\nA: " + std::string(300 * 1024, 'x')},
      {"long trailers", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: " + std::string(300 * 1024, 'x')},
      {"nothing", ""},
  };
  for (const auto& [name, text] : cases) {
    for (const size_t step : {size_t{1}, size_t{100'000'000}}) {
      const Parsed parsed = Parse(text, step);
      EXPECT_EQ(parsed.failure.code(), StatusCode::kUnavailable) << name << " " << step;
    }
  }
}

// Every cut of a framed response is a failure, never a short body: the property that lists and watches rely on.
TEST(ResponseParser, NoticesEveryCut) {
  for (const GoodCase& c : GoodCases()) {
    if (std::string_view(c.name) == "to the end") continue;
    for (size_t size = 0; size < c.text.size(); ++size) {
      const Parsed parsed = Parse(std::string_view(c.text).substr(0, size), 7);
      EXPECT_FALSE(parsed.failure.ok()) << c.name << " cut at " << size;
    }
  }
}

TEST(ResponseParser, SurvivesFlippedBytes) {
  std::mt19937 random(7);
  for (const GoodCase& c : GoodCases()) {
    for (int round = 0; round < 3000; ++round) {
      std::string text = c.text;
      for (unsigned flips = 1 + random() % 3; flips > 0; --flips) {
        text[random() % text.size()] = static_cast<char>(random());
      }
      const Parsed parsed = Parse(text, 1 + random() % 40);
      EXPECT_LE(parsed.body.size(), text.size());
      EXPECT_TRUE(!parsed.failure.ok() || parsed.head.status >= 200) << c.name;
    }
  }
}

TEST(ResponseParser, PassesTheConsumersFailureOn) {
  ResponseParser parser;
  const Result<size_t> used = parser.Feed("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
                                          [](std::string_view) { return CancelledError("enough"); });
  EXPECT_EQ(used.status().code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace paceline::net
