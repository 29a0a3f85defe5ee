// RpcConnection and RpcClient against a server of the test on loopback that answers as it is told.
#include "lib/hdfs/rpc_connection.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <functional>
#include <thread>

#include "lib/base/unique_fd.h"
#include "lib/hdfs/rpc_client.h"
#include "lib/hdfs/wire_bytes.h"

namespace paceline::hdfs {
namespace {

using std::chrono::seconds;

struct SeenCall {
  wire::RpcRequestHeader header;
  std::string method, body;
};

// One NameNode: takes connections, one after the other, and hands each call to `handle`, which gives bytes to send
// back, or nothing to drop the connection.
class ScriptedServer {
 public:
  using Handler = std::function<std::optional<std::string>(const SeenCall& call)>;

  explicit ScriptedServer(Handler handle) : handle_(std::move(handle)), listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    CHECK(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    CHECK(listen(listener_.get(), 8) == 0);
    CHECK(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this] { Serve(); });
  }
  ~ScriptedServer() {
    is_stopping_ = true;
    shutdown(listener_.get(), SHUT_RDWR);
    const int open = open_.load();
    if (open >= 0) shutdown(open, SHUT_RDWR);
  }

  uint16_t port() const { return port_; }
  int connections() const { return connections_; }

 private:
  static bool ReadAll(int fd, std::string* out) {
    size_t done = 0;
    while (done < out->size()) {
      const ssize_t got = recv(fd, out->data() + done, out->size() - done, 0);
      if (got <= 0) return false;
      done += static_cast<size_t>(got);
    }
    return true;
  }
  static bool ReadFrame(int fd, std::string* frame) {
    frame->resize(4);
    if (!ReadAll(fd, frame)) return false;
    frame->resize(LoadBigEndian32(frame->data()));
    return ReadAll(fd, frame);
  }
  void Serve() {
    while (!is_stopping_) {
      UniqueFd fd(accept(listener_.get(), nullptr, nullptr));
      if (!fd.is_valid()) return;
      open_ = fd.get();
      ++connections_;
      std::string preamble(7, '\0'), frame;
      if (ReadAll(fd.get(), &preamble) && ReadFrame(fd.get(), &frame)) {
        while (ReadFrame(fd.get(), &frame)) {
          SeenCall call;
          wire::RequestHeader request;
          DelimitedReader reader(frame);
          if (!reader.Next("header", &call.header).ok() || call.header.call_id() == kPingCallId) continue;
          if (!reader.Next("request", &request).ok()) break;
          call.method = request.method();
          call.body = DelimitedBody(reader.rest()).value_or("");
          const std::optional<std::string> answer = handle_(call);
          if (!answer.has_value()) break;
          if (send(fd.get(), answer->data(), answer->size(), MSG_NOSIGNAL) < 0) break;
        }
      }
      open_ = -1;
    }
  }

  Handler handle_;
  UniqueFd listener_;
  uint16_t port_ = 0;
  std::atomic<bool> is_stopping_{false};
  std::atomic<int> open_{-1};
  std::atomic<int> connections_{0};
  std::jthread thread_;
};

std::string Frame(const std::string& inner) {
  std::string frame;
  AppendBigEndian(inner.size(), 4, &frame);
  return frame + inner;
}

std::string Success(const SeenCall& call, const std::string& body) {
  wire::RpcResponseHeader header;
  header.set_call_id(static_cast<uint32_t>(call.header.call_id()));
  header.set_status(0);
  std::string inner;
  AppendDelimited(header, &inner);
  inner.push_back(static_cast<char>(body.size()));
  return Frame(inner + body);
}

std::string Failure(const SeenCall& call, const std::string& exception, uint32_t status = 1) {
  wire::RpcResponseHeader header;
  header.set_call_id(static_cast<uint32_t>(call.header.call_id()));
  header.set_status(status);
  header.set_exception_class(exception);
  header.set_error_message("because\n\tat somewhere");
  std::string inner;
  AppendDelimited(header, &inner);
  return Frame(inner);
}

class Rpc : public testing::Test {
 protected:
  std::unique_ptr<RpcClient> Client(const std::vector<uint16_t>& ports, Duration try_limit = seconds(10)) {
    RpcClient::Options options;
    for (const uint16_t port : ports) options.service.namenodes.push_back({"", "127.0.0.1", port});
    options.connection.identity = {MakeRpcClientId(), "alice"};
    options.try_limit = try_limit;
    return std::make_unique<RpcClient>(options, clock_);
  }
  Deadline In(Duration time) const { return Deadline::After(clock_, time); }
  RealClock clock_;
};

TEST_F(Rpc, HandsEachAnswerToItsCall) {
  Mutex mutex;
  std::vector<SeenCall> held;
  // Answers only when four calls are there, the last one first.
  ScriptedServer server([&](const SeenCall& call) -> std::optional<std::string> {
    MutexLock lock(mutex);
    held.push_back(call);
    std::string out;
    if (held.size() == 4) {
      for (auto it = held.rbegin(); it != held.rend(); ++it) out += Success(*it, it->body + "!");
    }
    return out;
  });
  const auto client = Client({server.port()});
  std::vector<std::string> answers(4);
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < answers.size(); ++i) {
      threads.emplace_back(
          [&, i] { answers[i] = client->Call("m", std::to_string(i), "m", In(seconds(20))).value_or("?"); });
    }
  }
  EXPECT_THAT(answers, testing::ElementsAre("0!", "1!", "2!", "3!"));
  EXPECT_GE(server.connections(), 1);
}

TEST_F(Rpc, ResendsALostCallWithTheSameIds) {
  std::vector<SeenCall> seen;
  ScriptedServer server([&](const SeenCall& call) -> std::optional<std::string> {
    seen.push_back(call);
    if (seen.size() == 1) return std::nullopt;  // the connection breaks before the answer
    return Success(call, "done");
  });
  const auto client = Client({server.port()});
  EXPECT_EQ(client->Call("concat", "x", "concat /a", In(seconds(20))).value_or("?"), "done");
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].header.call_id(), seen[1].header.call_id());
  EXPECT_EQ(seen[0].header.client_id(), seen[1].header.client_id());
  EXPECT_EQ(seen[0].header.client_id().size(), 16u);
  EXPECT_EQ(seen[0].header.retry_count(), 0);
  EXPECT_EQ(seen[1].header.retry_count(), 1);
  EXPECT_EQ(seen[0].body, seen[1].body);
  EXPECT_EQ(client->Call("m", "y", "m", In(seconds(20))).value_or("?"), "done");
  EXPECT_NE(seen[2].header.call_id(), seen[1].header.call_id());
}

TEST_F(Rpc, FailsOverToTheActiveNameNodeAndStaysThere) {
  int standby_calls = 0;
  ScriptedServer standby([&](const SeenCall& call) {
    ++standby_calls;
    return std::optional(Failure(call, "org.apache.hadoop.ipc.StandbyException"));
  });
  ScriptedServer active([&](const SeenCall& call) { return std::optional(Success(call, "active")); });
  const auto client = Client({standby.port(), active.port()});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client->Call("m", "", "m", In(seconds(20))).value_or("?"), "active");
  EXPECT_EQ(standby_calls, 1);
}

TEST_F(Rpc, GoesOnWhenANameNodeAnswersNothing) {
  ScriptedServer hung([&](const SeenCall&) { return std::optional<std::string>(""); });
  ScriptedServer active([&](const SeenCall& call) { return std::optional(Success(call, "active")); });
  const auto client = Client({hung.port(), active.port()}, std::chrono::milliseconds(200));
  EXPECT_EQ(client->Call("m", "", "m", In(seconds(20))).value_or("?"), "active");
}

TEST_F(Rpc, GivesErrorsOfTheServerTypedAndKeepsTheConnection) {
  ScriptedServer server([&](const SeenCall& call) -> std::optional<std::string> {
    if (call.method == "bad") return Failure(call, "java.io.FileNotFoundException");
    if (call.method == "fatal") return Failure(call, "org.apache.hadoop.security.authorize.AuthorizationException", 2);
    return Success(call, "ok");
  });
  const auto client = Client({server.port()});
  const Status missing = client->Call("bad", "", "bad /a", In(seconds(20))).status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_EQ(missing.message(), "bad /a: because (FileNotFoundException) [ENOENT]");
  EXPECT_EQ(client->Call("m", "", "m", In(seconds(20))).value_or("?"), "ok");
  EXPECT_EQ(server.connections(), 1);
  EXPECT_EQ(client->Call("fatal", "", "m", In(seconds(20))).status().code(), StatusCode::kPermissionDenied);
}

TEST_F(Rpc, EndsAtItsDeadline) {
  ScriptedServer hung([&](const SeenCall&) { return std::optional<std::string>(""); });
  const auto client = Client({hung.port()});
  EXPECT_EQ(client->Call("m", "", "m", In(std::chrono::milliseconds(300))).status().code(),
            StatusCode::kDeadlineExceeded);
}

TEST_F(Rpc, NamesAServerThatIsNotThere) {
  uint16_t port;
  {
    ScriptedServer gone([](const SeenCall&) { return std::nullopt; });
    port = gone.port();
  }
  const auto client = Client({port});
  const Status status = client->Call("m", "", "stat /a", In(std::chrono::milliseconds(300))).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), testing::HasSubstr("127.0.0.1:" + std::to_string(port)));
}

TEST_F(Rpc, DropsAServerThatTalksNonsense) {
  int calls = 0;
  ScriptedServer server([&](const SeenCall& call) -> std::optional<std::string> {
    if (++calls == 1) return std::string("\xff\xff\xff\xf0garbage");
    if (calls == 2) return Frame("\x05nonsense");
    return Success(call, "ok");
  });
  EXPECT_EQ(Client({server.port()})->Call("m", "", "m", In(seconds(20))).value_or("?"), "ok");
  EXPECT_EQ(calls, 3);
}

}  // namespace
}  // namespace paceline::hdfs
