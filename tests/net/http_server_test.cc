#include "lib/net/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "lib/base/unique_fd.h"
#include "lib/net/http_client.h"
#include "tests/fakes/simulated_clock.h"
#include "tests/fakes/test_ca.h"

namespace paceline::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::StartsWith;

// A plain connection to the server, for what no HTTP client would send.
class RawClient {
 public:
  explicit RawClient(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval limit = {20, 0};  // a server that never closes fails the test instead of hanging it
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    EXPECT_EQ(connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }

  // False once the server has closed.
  bool Write(std::string_view data) {
    while (!data.empty()) {
      const ssize_t put = send(fd_.get(), data.data(), data.size(), MSG_NOSIGNAL);
      if (put <= 0) return false;
      data.remove_prefix(static_cast<size_t>(put));
    }
    return true;
  }
  // Everything until the server closes.
  std::string ReadToEnd() {
    std::string all;
    char buffer[4096];
    for (ssize_t got = 1; got > 0;) {
      got = recv(fd_.get(), buffer, sizeof(buffer), 0);
      if (got > 0) all.append(buffer, static_cast<size_t>(got));
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) ADD_FAILURE() << "the server keeps the connection open";
    }
    return all;
  }
  // Until `text` was read.
  std::string ReadUntil(std::string_view text) {
    std::string all;
    char byte;
    while (all.find(text) == std::string::npos && recv(fd_.get(), &byte, 1, 0) == 1) all.push_back(byte);
    return all;
  }

 private:
  UniqueFd fd_;
};

size_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  size_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * 4096;
}

class HttpServerTest : public testing::Test {
 protected:
  using Routes = std::map<std::string, Handler>;

  static Handler Text(std::string text) {
    return [text = std::move(text)](const ServerRequest&, Deadline) {
      ServerResponse response;
      response.body = text;
      return response;
    };
  }
  static ServerResponse Echo(const ServerRequest& request, Deadline) {
    ServerResponse response;
    response.body = request.method + " " + request.path + "|" + request.query + "|" + request.body + "|" +
                    request.peer_address + "|" + request.client_certificate_cn;
    return response;
  }

  void Start(Routes routes, ServerOptions options = {}, std::unique_ptr<ServerTls> tls = nullptr) {
    options.address = "127.0.0.1";
    Result<std::unique_ptr<HttpServer>> server =
        HttpServer::Start(options, std::move(routes), std::move(tls), clock_, *log_);
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = *std::move(server);
  }

  std::unique_ptr<ServerTls> ServeAs(const CertificateAndKey& pair) {
    auto tls = std::make_unique<ServerTls>();
    tls->load = [pair]() -> Result<TlsPair> { return TlsPair{pair.certificate, pair.private_key}; };
    return tls;
  }

  std::unique_ptr<HttpTransport> Client(HttpClientOptions options = {}) {
    const bool is_tls = options.tls.ca != nullptr;
    options.base_url = std::string(is_tls ? "https" : "http") + "://127.0.0.1:" + std::to_string(server_->port());
    options.retry.max_attempts = 1;
    return NewHttpClient(std::move(options), clock_).value();
  }
  HttpClientOptions Trusting(const fakes::TestCa& ca) {
    HttpClientOptions options;
    options.tls.ca = [pem = ca.ca.certificate]() -> Result<std::string> { return pem; };
    return options;
  }
  Deadline Soon() { return Deadline::After(clock_, seconds(30)); }
  std::string Body(HttpTransport& client, const HttpRequest& request) {
    const Result<HttpResponse> response = client.Send(request, Soon());
    return response.ok() ? response->body : response.status().ToString();
  }
  std::string Raw(std::string_view request) {
    RawClient client(server_->port());
    client.Write(request);
    return client.ReadToEnd();
  }

  RealClock clock_;
  const std::unique_ptr<Logger> log_ = Logger::Discard();
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AnswersByRoute) {
  Start({{"/echo", Echo}, {"/prefix/", Echo}, {"GET /get", Text("got")}});
  const auto client = Client();
  EXPECT_EQ(Body(*client, {.method = "POST", .target = "/echo?a=b%20c", .body = "data"}),
            "POST /echo|a=b%20c|data|127.0.0.1|");
  EXPECT_EQ(Body(*client, {.target = "/prefix/a%2Fb%20c"}), "GET /prefix/a/b c|||127.0.0.1|");
  EXPECT_EQ(client->Send({.target = "/nothing"}, Soon())->status, 404);
  const Result<HttpResponse> refused = client->Send({.method = "DELETE", .target = "/get"}, Soon());
  EXPECT_EQ(refused->status, 405);
  EXPECT_EQ(refused->Header("Allow"), "GET, HEAD");
}

TEST_F(HttpServerTest, HeadHasTheLengthAndNoBody) {
  Start({{"GET /x", Text("twelve bytes")}});
  const auto client = Client();
  const Result<HttpResponse> response = client->Send({.method = "HEAD", .target = "/x"}, Soon());
  ASSERT_TRUE(response.ok()) << response.status().ToString();
  EXPECT_EQ(response->Header("Content-Length"), "12");
  EXPECT_EQ(response->body, "");
  EXPECT_EQ(Body(*client, {.target = "/x"}), "twelve bytes");  // the connection is in step
}

TEST_F(HttpServerTest, PipelinedRequestsAreAnsweredInOrder) {
  Start({{"/", Echo}});
  const std::string answers =
      Raw("GET /1 HTTP/1.1\r\nHost: x\r\n\r\n"
          "POST /2 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab"
          "GET /3 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const size_t first = answers.find("GET /1|"), second = answers.find("POST /2||ab"), third = answers.find("GET /3|");
  EXPECT_LT(first, second);
  EXPECT_LT(second, third);
  EXPECT_NE(third, std::string::npos);
}

TEST_F(HttpServerTest, KeepsConnectionsAliveAsTheClientWants) {
  Start({{"/", Echo}});
  EXPECT_THAT(Raw("GET / HTTP/1.0\r\n\r\n"), HasSubstr("GET /|"));  // 1.0 closes by itself
  EXPECT_THAT(Raw("GET http://host:1/abs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), HasSubstr("GET /abs|"));
  RawClient client(server_->port());
  for (int i = 0; i < 3; ++i) {
    client.Write("GET /k HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_THAT(client.ReadUntil("127.0.0.1|"), HasSubstr("GET /k|"));
  }
}

TEST_F(HttpServerTest, ContinueIsSaidBeforeTheBody) {
  Start({{"/", Echo}});
  RawClient client(server_->port());
  client.Write("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_THAT(client.ReadUntil("\r\n\r\n"), StartsWith("HTTP/1.1 100"));
  client.Write("ab");
  EXPECT_THAT(client.ReadUntil("127.0.0.1|"), HasSubstr("|ab|"));
}

TEST_F(HttpServerTest, MalformedRequestsAreRefused) {
  Start({{"/", Echo}});
  const std::pair<const char*, int> cases[] = {
      {"garbage\r\n\r\n", 400},
      {"GET / HTTP/9.9\r\n\r\n", 400},
      {"GET /%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 400},
      {"GET /%00 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 400},
      {"GET relative HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
      {"POST / HTTP/1.1\r\nExpect: miracles\r\nContent-Length: 0\r\n\r\n", 417},
  };
  for (const auto& [request, status] : cases) {
    EXPECT_THAT(Raw(request), StartsWith("HTTP/1.1 " + std::to_string(status))) << request;
  }
}

TEST_F(HttpServerTest, LimitsOfHeaderAndBody) {
  std::atomic<int> handled = 0;
  const auto count = [&](const ServerRequest&, Deadline) {
    ++handled;
    return ServerResponse();
  };
  Start({{"/", count}}, {.max_header_bytes = 2048, .max_body_bytes = 1000});
  EXPECT_THAT(Raw("GET / HTTP/1.1\r\nX: " + std::string(5000, 'x') + "\r\n\r\n"), StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(Raw("GET /" + std::string(5000, 'x')), StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(Raw("POST / HTTP/1.1\r\nContent-Length: 1001\r\n\r\n"), StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(Raw("POST / HTTP/1.1\r\nContent-Length: 300000\r\n\r\n" + std::string(300'000, 'x')),
              StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(
      Raw("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + std::string(1001, 'x') + "\r\n0\r\n\r\n"),
      StartsWith("HTTP/1.1 413"));
  EXPECT_EQ(handled, 0);
  EXPECT_THAT(Raw("POST / HTTP/1.1\r\nConnection: close\r\nContent-Length: 1000\r\n\r\n" + std::string(1000, 'x')),
              StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(handled, 1);
}

TEST_F(HttpServerTest, EndlessHeaderCostsNoMemory) {
  Start({{"/", Text("ok")}});
  RawClient client(server_->port());
  ASSERT_TRUE(client.Write("GET / HTTP/1.1\r\nX: "));
  const size_t before = ResidentBytes();
  const std::string block(1 << 20, 'x');
  size_t sent = 0;
  while (sent < 200u << 20 && client.Write(block)) sent += block.size();
  EXPECT_LT(sent, 200u << 20) << "the server read it all";
  EXPECT_LT(ResidentBytes(), before + (16u << 20));
}

TEST_F(HttpServerTest, SlowPeersAreCutOff) {
  Start({{"/", Text("ok")}}, {.read_timeout = milliseconds(150), .idle_timeout = milliseconds(150)});
  const TimePoint start = clock_.Now();
  RawClient silent(server_->port()), half_header(server_->port()), half_body(server_->port()), idle(server_->port());
  half_header.Write("GET / HTTP/1.1\r\nHost: ");
  half_body.Write("POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\n12345");
  idle.Write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(silent.ReadToEnd(), "");
  EXPECT_EQ(half_header.ReadToEnd(), "");
  EXPECT_EQ(half_body.ReadToEnd(), "");
  EXPECT_THAT(idle.ReadToEnd(), StartsWith("HTTP/1.1 200"));
  EXPECT_LT(clock_.Now() - start, seconds(10));
}

// A byte now and then must not keep the header's time-out from coming.
TEST_F(HttpServerTest, SlowlorisIsCutOff) {
  Start({{"/", Text("ok")}}, {.read_timeout = milliseconds(300)});
  RawClient client(server_->port());
  const TimePoint start = clock_.Now();
  client.Write("GET / HTTP/1.1\r\n");
  bool is_open = true;
  while (is_open && clock_.Now() - start < seconds(10)) {
    is_open = client.Write("X");
    clock_.SleepFor(milliseconds(20), {});  // the slowness of this client is what is tested
  }
  EXPECT_FALSE(is_open);
}

TEST_F(HttpServerTest, HalfOpenTlsIsCutOff) {
  const fakes::TestCa ca;
  Start({{"/", Text("ok")}}, {.read_timeout = milliseconds(300)}, ServeAs(ca.server));
  RawClient silent(server_->port()), garbage(server_->port()), half(server_->port());
  garbage.Write("GET / HTTP/1.1\r\n\r\n");
  half.Write(std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11));  // the start of a ClientHello
  EXPECT_EQ(silent.ReadToEnd(), "");
  garbage.ReadToEnd();
  EXPECT_EQ(half.ReadToEnd(), "");
  EXPECT_EQ(Body(*Client(Trusting(ca)), {.target = "/"}), "ok");
}

TEST_F(HttpServerTest, ConnectionsAreBounded) {
  Start({{"/", Text("ok")}}, {.max_connections = 2});
  auto first = std::make_unique<RawClient>(server_->port());
  RawClient second(server_->port());
  for (RawClient* client : {first.get(), &second}) {
    client->Write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_THAT(client->ReadUntil("ok"), HasSubstr("200"));
  }
  EXPECT_EQ(Raw("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "");  // closed at once
  first.reset();
  // The place is free as soon as the server has seen the close.
  std::string answer;
  for (int i = 0; i < 1000 && answer.empty(); ++i) {
    answer = Raw("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  }
  EXPECT_THAT(answer, HasSubstr("200"));
}

TEST_F(HttpServerTest, SlowHandlerGives503AndHoldsNobodyElseUp) {
  std::stop_source release;
  const auto slow = [&](const ServerRequest&, Deadline) {
    clock_.SleepFor(seconds(60), release.get_token());
    return ServerResponse();
  };
  Start({{"/slow", slow}, {"/quick", Text("quick")}}, {.threads = 2, .handler_timeout = milliseconds(100)});
  const auto client = Client();
  const Result<HttpResponse> response = client->Send({.target = "/slow"}, Soon());
  ASSERT_TRUE(response.ok()) << response.status().ToString();
  EXPECT_EQ(response->status, 503);
  EXPECT_EQ(Body(*client, {.target = "/quick"}), "quick");
  release.request_stop();
}

TEST_F(HttpServerTest, HandlerSeesItsDeadline) {
  std::atomic<int64_t> left = 0;
  const auto look = [&](const ServerRequest&, Deadline deadline) {
    left = deadline.Remaining(clock_).count();
    return ServerResponse();
  };
  Start({{"/", look}}, {.handler_timeout = seconds(5)});
  EXPECT_TRUE(Client()->Send({.target = "/"}, Soon()).ok());
  EXPECT_GT(left, 1'000'000'000);
  EXPECT_LE(left, 5'000'000'000);
}

TEST_F(HttpServerTest, BadHandlersDoNotBreakTheServer) {
  const auto throws = [](const ServerRequest&, Deadline) -> ServerResponse { throw std::runtime_error("boom"); };
  const auto injects = [](const ServerRequest&, Deadline) {
    ServerResponse response;
    response.headers["X"] = "a\r\nSet-Cookie: b";
    return response;
  };
  const auto odd = [](const ServerRequest&, Deadline) {
    ServerResponse response;
    response.status = 42;
    return response;
  };
  Start({{"/throws", throws}, {"/injects", injects}, {"/odd", odd}, {"/ok", Text("ok")}});
  const auto client = Client();
  for (const char* target : {"/throws", "/injects", "/odd"}) {
    const Result<HttpResponse> response = client->Send({.target = target}, Soon());
    ASSERT_TRUE(response.ok()) << target << response.status().ToString();
    EXPECT_EQ(response->status, 500) << target;
    EXPECT_THAT(response->body, testing::Not(HasSubstr("boom")));
  }
  EXPECT_EQ(Body(*client, {.target = "/ok"}), "ok");
}

TEST_F(HttpServerTest, ManyConnectionsNeedNoThreadsOfTheirOwn) {
  Start({{"/", Text("ok")}}, {.threads = 2, .max_connections = 300});
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 200; ++i) clients.push_back(std::make_unique<RawClient>(server_->port()));
  for (const auto& client : clients) client->Write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  for (const auto& client : clients) EXPECT_THAT(client->ReadUntil("ok"), HasSubstr("200"));
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line) && line.rfind("Threads:", 0) != 0) {
  }
  EXPECT_LT(std::stoi(line.substr(8)), 60);  // the client library's pool included
}

TEST_F(HttpServerTest, TlsServesBothClients) {
  const fakes::TestCa ca;
  Start({{"/", Echo}}, {}, ServeAs(ca.server));
  const auto client = Client(Trusting(ca));
  EXPECT_EQ(Body(*client, {.method = "PUT", .target = "/x", .body = "b"}), "PUT /x||b|127.0.0.1|");
  std::string streamed;
  const auto append = [&](std::string_view piece) {
    streamed += piece;
    return Status();
  };
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(client->Stream({.target = "/s"}, append, seconds(5), Soon(), {}).ok());
  EXPECT_EQ(streamed, "GET /s|||127.0.0.1|GET /s|||127.0.0.1|GET /s|||127.0.0.1|");
}

TEST_F(HttpServerTest, MutualTlsShowsTheClientsName) {
  const fakes::TestCa ca;
  const fakes::TestCa stranger("stranger");
  auto tls = ServeAs(ca.server);
  tls->client_ca = ca.ca.certificate;
  Start({{"/", Echo}}, {}, std::move(tls));
  const auto with = [&](const CertificateAndKey& pair) {
    HttpClientOptions options = Trusting(ca);
    options.tls.client_certificate = [pair]() -> Result<std::string> { return pair.certificate; };
    options.tls.client_key = [pair]() -> Result<std::string> { return pair.private_key; };
    return Client(options);
  };
  EXPECT_EQ(Body(*with(ca.IssueClient("alice")), {.target = "/x"}), "GET /x|||127.0.0.1|alice");
  EXPECT_FALSE(with(stranger.IssueClient("mallory"))->Send({.target = "/x"}, Soon()).ok());
  EXPECT_FALSE(Client(Trusting(ca))->Send({.target = "/x"}, Soon()).ok());
}

TEST(HttpServerRotation, NewPairCountsForNewConnectionsOnly) {
  fakes::SimulatedClock clock;
  RealClock real;
  const std::unique_ptr<Logger> log = Logger::Discard();
  const fakes::TestCa first("first"), second("second");
  Mutex mutex;
  TlsPair pair = {first.server.certificate, first.server.private_key};
  const auto set = [&](TlsPair next) {
    MutexLock lock(mutex);
    pair = std::move(next);
  };
  auto tls = std::make_unique<ServerTls>();
  tls->load = [&]() -> Result<TlsPair> {
    MutexLock lock(mutex);
    return pair;
  };
  const auto hello = [](const ServerRequest&, Deadline) {
    ServerResponse response;
    response.body = "hello";
    return response;
  };
  const auto server = HttpServer::Start({.address = "127.0.0.1"}, {{"/", hello}}, std::move(tls), clock, *log).value();
  const auto client = [&](const fakes::TestCa& ca) {
    HttpClientOptions options;
    options.base_url = "https://127.0.0.1:" + std::to_string(server->port());
    options.tls.ca = [pem = ca.ca.certificate]() -> Result<std::string> { return pem; };
    options.retry.max_attempts = 1;
    return NewHttpClient(options, real).value();
  };
  const auto ask = [&](HttpTransport& from) {
    const auto ignore = [](std::string_view) { return Status(); };
    return from.Stream({.target = "/"}, ignore, seconds(10), Deadline::After(real, seconds(20)), {}).ok();
  };
  const auto tick = [&] {
    clock.AwaitTimers(1);
    clock.Advance(seconds(10));
    clock.AwaitTimers(1);  // asleep again: the reload is done
  };

  const auto old_client = client(first);
  EXPECT_TRUE(ask(*old_client));
  set({"broken", "broken"});
  tick();
  EXPECT_TRUE(ask(*client(first)));  // the last good pair stays
  set({second.server.certificate, first.server.private_key});
  tick();
  EXPECT_TRUE(ask(*client(first)));
  set({second.server.certificate, second.server.private_key});
  tick();
  EXPECT_FALSE(ask(*client(first)));
  EXPECT_TRUE(ask(*client(second)));
  EXPECT_TRUE(ask(*old_client));  // its connection goes on
}

TEST_F(HttpServerTest, ShutdownLetsARunningRequestEndAndClosesIdleOnes) {
  std::atomic<bool> is_running = false;
  std::stop_source release;
  const auto slow = [&](const ServerRequest&, Deadline) {
    is_running = true;
    is_running.notify_all();
    clock_.SleepFor(seconds(60), release.get_token());
    ServerResponse response;
    response.body = "finished";
    return response;
  };
  Start({{"/slow", slow}, {"/quick", Text("quick")}}, {.handler_timeout = seconds(60)});
  RawClient idle(server_->port()), busy(server_->port());
  idle.Write("GET /quick HTTP/1.1\r\nHost: x\r\n\r\n");
  idle.ReadUntil("quick");
  busy.Write("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
  is_running.wait(false);
  std::thread stopper([&] { server_->Shutdown(seconds(60)); });
  EXPECT_EQ(idle.ReadToEnd(), "");  // closed while the other request runs
  release.request_stop();
  const std::string answer = busy.ReadToEnd();
  EXPECT_THAT(answer, HasSubstr("finished"));
  EXPECT_THAT(answer, HasSubstr("Connection: close"));
  stopper.join();
  server_->Shutdown(Duration::zero());
}

TEST_F(HttpServerTest, ShutdownWithoutGraceCutsEverything) {
  Start({{"/", Text("ok")}});
  RawClient half(server_->port());
  half.Write("GET / HTTP/1.1\r\nHost");
  RawClient idle(server_->port());
  idle.Write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  idle.ReadUntil("ok");
  server_.reset();
  EXPECT_EQ(half.ReadToEnd(), "");
  EXPECT_EQ(idle.ReadToEnd(), "");
}

TEST_F(HttpServerTest, StartNamesWhatIsWrong) {
  Start({{"/", Text("ok")}});
  const auto code = [&](const ServerOptions& options, Routes routes, std::unique_ptr<ServerTls> tls) {
    return HttpServer::Start(options, std::move(routes), std::move(tls), clock_, *log_).status().code();
  };
  EXPECT_EQ(code({.address = "127.0.0.1", .port = server_->port()}, {}, nullptr), StatusCode::kUnavailable);
  EXPECT_EQ(code({.address = "nowhere"}, {}, nullptr), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.address = "127.0.0.1", .threads = 0}, {}, nullptr), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.address = "127.0.0.1"}, {{"no-slash", Text("")}}, nullptr), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.address = "127.0.0.1"}, {}, ServeAs({"no", "pem"})), StatusCode::kInvalidArgument);
  auto missing = std::make_unique<ServerTls>();
  missing->load = []() -> Result<TlsPair> { return UnavailableError("the Secret is not there yet"); };
  EXPECT_EQ(code({.address = "127.0.0.1"}, {}, std::move(missing)), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace paceline::net
