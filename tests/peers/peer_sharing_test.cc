// Nodes that share chunks over real HTTPS: engines, clients and servers of one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "lib/blocks/peers/chunk_giver.h"
#include "lib/blocks/peers/peer_client.h"
#include "lib/net/http_server.h"
#include "lib/net/tls_certificates.h"
#include "tests/engine/made_layer.h"
#include "tests/fakes/capture_log.h"
#include "tests/fakes/simulated_clock.h"
#include "tests/fakes/temporary_folder.h"
#include "tests/fakes/test_ca.h"

namespace paceline::blocks {
namespace {

using std::chrono::seconds;

constexpr char kName[] = "paceline-peers";

PeerCredentials CredentialsOf(const fakes::TestCa& ca, const char* name = kName) {
  const net::CertificateAndKey leaf = net::IssuePeerCertificate(ca.ca, name, std::chrono::hours(1), ca.clock).value();
  return {ca.ca.certificate, leaf.certificate, leaf.private_key};
}

std::unique_ptr<net::HttpServer> Serve(const PeerCredentials& credentials, net::Handler handler, Logger& log,
                                       const Clock& clock) {
  auto tls = std::make_unique<net::ServerTls>();
  tls->load = [credentials]() -> Result<net::TlsPair> {
    return net::TlsPair{credentials.certificate, credentials.key};
  };
  tls->client_ca = credentials.ca;
  net::ServerOptions options;
  options.address = "127.0.0.1";
  options.threads = 34;  // two more than wait for the origin at most, as in the plugin
  Result<std::unique_ptr<net::HttpServer>> server =
      net::HttpServer::Start(options, {{"GET /v1/layers/", std::move(handler)}}, std::move(tls), clock, log);
  EXPECT_TRUE(server.ok()) << server.status().ToString();
  return *std::move(server);
}

std::string AddressOf(const net::HttpServer& server) { return "127.0.0.1:" + std::to_string(server.port()); }

// Asks as long as the tests need, and does not mind who is faster.
PeerClientOptions PatientOptions() {
  PeerClientOptions options;
  options.connect_limit = seconds(20);
  options.ask_limit = seconds(20);
  options.list_life = std::chrono::hours(1);
  options.slack = 1e9;
  return options;
}

struct Node {
  Node(const PeerCredentials& credentials, const MadeLayer& layer, Logger& log, const Clock& clock,
       GiveLimits limits = {.requests = 32, .bytes_per_second = uint64_t{1} << 40, .origin_wait = seconds(20)},
       PeerClientOptions options = PatientOptions())
      : made(layer) {
    store->Add(layer);
    options.on_result = [this](PeerResult result) { ++results[static_cast<size_t>(result)]; };
    client = std::make_unique<PeerClient>(options, clock);
    client->SetCredentials(credentials);
    cache = *ChunkCache::Open({.folder = folder / "cache"}, clock);
    engine = std::make_unique<ChunkEngine>(EngineOptions{}, *cache, client.get(), clock);
    ChunkGiver::Options giving;
    giving.limits = limits;
    giver = std::make_unique<ChunkGiver>(giving, *engine, clock);
    const auto handle = [this](const net::ServerRequest& request, Deadline deadline) {
      ++requests;
      return giver->Handle(request, deadline);
    };
    server = Serve(credentials, handle, log, clock);
  }
  ~Node() {
    server->Shutdown(seconds(0));
    image.reset();
  }

  void Open() {
    Result<std::unique_ptr<ImageReader>> opened = engine->Open({made.source()}, store);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    image = *std::move(opened);
  }
  void PrefetchAll() {
    std::vector<ChunkId> all;
    for (uint32_t chunk = 0; chunk < image->index(0).chunk_count(); ++chunk) all.push_back({0, chunk});
    image->Prefetch(all, FetchPriority::kPrefetch);
  }
  void ExpectReadsAreRight() {
    for (uint64_t at = 0; at < made.image.size(); at += 1 << 20) {
      std::string out(std::min<uint64_t>(1 << 20, made.image.size() - at), 'x');
      const Status read = image->Read(0, at, out);
      ASSERT_TRUE(read.ok()) << read.ToString();
      ASSERT_TRUE(out == made.image.substr(at, out.size())) << at;
    }
  }
  int count(PeerResult result) const { return results[static_cast<size_t>(result)]; }
  std::string address() const { return AddressOf(*server); }

  const MadeLayer& made;
  fakes::TemporaryFolder folder;
  std::shared_ptr<MadeStore> store = std::make_shared<MadeStore>();
  std::atomic<int> results[std::size(kPeerResults)] = {};
  std::atomic<int> requests{0};
  std::unique_ptr<PeerClient> client;
  std::unique_ptr<ChunkCache> cache;
  std::unique_ptr<ChunkEngine> engine;
  std::unique_ptr<ImageReader> image;
  std::unique_ptr<ChunkGiver> giver;
  std::unique_ptr<net::HttpServer> server;
};

class PeerSharingTest : public testing::Test {
 protected:
  std::unique_ptr<Node> MakeNode() { return std::make_unique<Node>(credentials_, made_, log_.logger(), clock_); }

  std::vector<std::unique_ptr<Node>> MakeNodes(size_t count) {
    std::vector<std::unique_ptr<Node>> nodes;
    for (size_t i = 0; i < count; ++i) nodes.push_back(MakeNode());
    std::vector<std::string> all;
    for (const auto& node : nodes) all.push_back(node->address());
    for (const auto& node : nodes) EXPECT_TRUE(node->client->SetPeers(node->address(), all).ok());
    return nodes;
  }

  // A peer that is not as it should be, beside one node that has no other.
  std::unique_ptr<Node> NodeBeside(const std::string& address) {
    auto node = MakeNode();
    EXPECT_TRUE(node->client->SetPeers(node->address(), {address}).ok());
    node->Open();
    return node;
  }

  static uint64_t OriginBytes(const std::vector<std::unique_ptr<Node>>& nodes) {
    uint64_t bytes = 0;
    for (const auto& node : nodes) bytes += node->store->read_bytes();
    return bytes;
  }

  RealClock clock_;
  fakes::CaptureLog log_;
  const fakes::TestCa ca_;
  const PeerCredentials credentials_ = CredentialsOf(ca_);
  // 20 MiB, of which every third chunk does not compress: two stretches.
  const MadeLayer made_{std::vector<uint32_t>(160, 32), 1};
};

TEST_F(PeerSharingTest, ALaterNodeGetsAllFromTheFirst) {
  const auto nodes = MakeNodes(3);
  nodes[0]->Open();
  nodes[0]->ExpectReadsAreRight();
  EXPECT_EQ(nodes[0]->image->stats().peer_bytes, 0u);
  const uint64_t one_copy = OriginBytes(nodes);
  nodes[1]->Open();
  nodes[1]->ExpectReadsAreRight();
  EXPECT_EQ(OriginBytes(nodes), one_copy);
  EXPECT_EQ(nodes[1]->image->stats().peer_bytes, 160u * 32 * kBlockBytes);
  EXPECT_EQ(nodes[1]->count(PeerResult::kDamaged), 0);
}

TEST_F(PeerSharingTest, NodesThatStartTogetherFetchAboutOneCopy) {
  const auto nodes = MakeNodes(3);
  for (const auto& node : nodes) node->Open();
  for (const auto& node : nodes) node->PrefetchAll();
  for (const auto& node : nodes) ASSERT_TRUE(node->engine->AwaitIdle(Deadline::Infinite()));
  // Each chunk once, by its owner, but for what lies in the gaps of ranges.
  EXPECT_LT(OriginBytes(nodes), made_.blob.size() * 13 / 10);
  uint64_t peer_bytes = 0;
  for (const auto& node : nodes) {
    node->ExpectReadsAreRight();
    EXPECT_EQ(node->image->stats().chunk_misses, 0u);
    peer_bytes += node->image->stats().peer_bytes;
  }
  EXPECT_GT(peer_bytes, uint64_t{160} * 32 * kBlockBytes * 17 / 10);  // two copies of three
}

TEST_F(PeerSharingTest, ANodeThatDoesNotHaveTheImageIsLeftOut) {
  const auto nodes = MakeNodes(2);
  nodes[0]->Open();
  nodes[0]->ExpectReadsAreRight();
  EXPECT_GT(nodes[0]->count(PeerResult::kAbsent), 0);
  EXPECT_EQ(nodes[0]->client->bad_count(), 0u);
  EXPECT_EQ(nodes[1]->store->read_bytes(), 0u) << "an image was opened for somebody else";
}

TEST_F(PeerSharingTest, ARestartedNodeGivesWhatItsDiskHas) {
  auto nodes = MakeNodes(2);
  nodes[0]->Open();
  nodes[0]->ExpectReadsAreRight();
  ASSERT_TRUE(nodes[0]->engine->AwaitIdle(Deadline::Infinite()));
  nodes[0]->image.reset();
  nodes[0]->engine.reset();  // its giver goes on with another one, as a new process does
  nodes[0]->cache.reset();
  nodes[0]->cache = *ChunkCache::Open({.folder = nodes[0]->folder / "cache"}, clock_);
  nodes[0]->engine = std::make_unique<ChunkEngine>(EngineOptions{}, *nodes[0]->cache, nullptr, clock_);
  nodes[0]->giver = std::make_unique<ChunkGiver>(ChunkGiver::Options{}, *nodes[0]->engine, clock_);
  nodes[1]->Open();
  nodes[1]->ExpectReadsAreRight();
  EXPECT_EQ(nodes[1]->store->read_bytes(), 0u);
}

TEST_F(PeerSharingTest, ALiarIsFoundOutOnceAndNotAskedAgain) {
  std::atomic<int> asked{0};
  const auto lie = [&](const net::ServerRequest& request, Deadline) {
    ++asked;
    net::ServerResponse response;
    const Result<ChunkAsk> ask = ParseAsk(request.path, request.query);
    EXPECT_TRUE(ask.ok());
    std::vector<std::shared_ptr<const std::string>> contents(
        ask->chunks.size(), std::make_shared<const std::string>(32 * kBlockBytes, 'z'));
    response.body = FormatAnswer(contents);
    return response;
  };
  const auto liar = Serve(credentials_, lie, log_.logger(), clock_);
  const auto node = NodeBeside(AddressOf(*liar));
  node->ExpectReadsAreRight();
  EXPECT_EQ(node->count(PeerResult::kDamaged), 1);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(node->client->bad_count(), 1u);
  EXPECT_EQ(node->image->stats().peer_bytes, 0u);
  EXPECT_GT(node->image->stats().damaged_chunks, 0u);
  liar->Shutdown(seconds(0));
}

TEST_F(PeerSharingTest, WhatIsNoAnswerIsNotTaken) {
  const auto node_beside = [&](const std::function<void(net::ServerResponse&)>& answer) {
    const auto handle = [answer](const net::ServerRequest&, Deadline) {
      net::ServerResponse response;
      answer(response);
      return response;
    };
    const auto server = Serve(credentials_, handle, log_.logger(), clock_);
    const auto node = NodeBeside(AddressOf(*server));
    node->ExpectReadsAreRight();
    server->Shutdown(seconds(0));
    std::string results;
    for (const PeerResult result : kPeerResults) {
      if (node->count(result) > 0) results += std::string(PeerResultText(result)) + " ";
    }
    return results;
  };
  EXPECT_EQ(node_beside([](auto& response) { response.body = "short"; }), "malformed ");
  EXPECT_EQ(node_beside([](auto& response) { response.body = std::string(8 << 20, '\1'); }), "malformed ");
  EXPECT_EQ(node_beside([](auto& response) { response.status = 500; }), "refused ");
  EXPECT_EQ(node_beside([](auto& response) { response.status = 503; }), "busy ");
}

TEST_F(PeerSharingTest, ADeadPeerCostsNothingButATry) {
  uint16_t port = 0;
  {
    const auto gone = Serve(
        credentials_, [](const net::ServerRequest&, Deadline) { return net::ServerResponse{}; }, log_.logger(), clock_);
    port = gone->port();
    gone->Shutdown(seconds(0));
  }
  const auto node = NodeBeside("127.0.0.1:" + std::to_string(port));
  node->ExpectReadsAreRight();
  EXPECT_GE(node->count(PeerResult::kUnreachable), 1);
  EXPECT_EQ(node->client->bad_count(), 1u);
}

TEST_F(PeerSharingTest, AStuckPeerIsGivenUpAndThenLeftAlone) {
  std::atomic<bool> may_end{false};
  std::atomic<int> asked{0};
  const auto hang = [&](const net::ServerRequest&, Deadline) {
    ++asked;
    may_end.wait(false);
    return net::ServerResponse{};
  };
  const auto server = Serve(credentials_, hang, log_.logger(), clock_);
  PeerClientOptions options = PatientOptions();
  options.ask_limit = std::chrono::milliseconds(200);
  Node node(credentials_, made_, log_.logger(), clock_, {}, options);
  ASSERT_TRUE(node.client->SetPeers(node.address(), {AddressOf(*server)}).ok());
  node.Open();
  node.ExpectReadsAreRight();
  EXPECT_GE(node.count(PeerResult::kTimedOut), 1);
  EXPECT_EQ(node.image->stats().failed_reads, 0u);
  EXPECT_LT(asked, 10);  // of some 40 requests
  may_end = true;
  may_end.notify_all();
  server->Shutdown(seconds(0));
}

// The run's other half dies while images are being read.
TEST_F(PeerSharingTest, APeerThatDiesInTheMiddleFailsNoRead) {
  auto nodes = MakeNodes(2);
  nodes[0]->Open();
  nodes[0]->ExpectReadsAreRight();
  nodes[1]->Open();
  std::jthread killer([&] {
    while (nodes[0]->requests < 2) std::this_thread::yield();
    nodes[0]->server->Shutdown(seconds(0));
  });
  nodes[1]->ExpectReadsAreRight();
  killer.join();
  EXPECT_EQ(nodes[1]->image->stats().failed_reads, 0u);
}

TEST_F(PeerSharingTest, OnlyPeersAreAnswered) {
  const auto nodes = MakeNodes(1);
  nodes[0]->Open();
  nodes[0]->ExpectReadsAreRight();
  const auto results_with = [&](const PeerCredentials& credentials) {
    Node other(credentials, made_, log_.logger(), clock_);
    EXPECT_TRUE(other.client->SetPeers(other.address(), {nodes[0]->address()}).ok());
    other.Open();
    other.ExpectReadsAreRight();
    EXPECT_EQ(other.image->stats().peer_bytes, 0u);
    return std::pair(other.count(PeerResult::kUnreachable) > 0, other.count(PeerResult::kRefused) > 0);
  };
  const int before = nodes[0]->requests;
  // Of another authority: no connection comes about.
  EXPECT_EQ(results_with(CredentialsOf(fakes::TestCa("another"))), std::pair(true, false));
  EXPECT_EQ(nodes[0]->requests, before);
  // A certificate that somebody else has from the same authority.
  PeerCredentials foreign = CredentialsOf(ca_, "somebody-else");
  EXPECT_EQ(results_with(foreign), std::pair(false, true));
}

TEST_F(PeerSharingTest, AServerOfAnotherNameIsNotAsked) {
  std::atomic<int> asked{0};
  const auto server = Serve(
      CredentialsOf(ca_, "somebody-else"),
      [&](const net::ServerRequest&, Deadline) {
        ++asked;
        return net::ServerResponse{};
      },
      log_.logger(), clock_);
  const auto node = NodeBeside(AddressOf(*server));
  node->ExpectReadsAreRight();
  EXPECT_EQ(asked, 0);
  EXPECT_GE(node->count(PeerResult::kUnreachable), 1);
  server->Shutdown(seconds(0));
}

TEST_F(PeerSharingTest, WithoutCredentialsNobodyIsAsked) {
  const auto nodes = MakeNodes(2);
  nodes[0]->Open();
  nodes[0]->ExpectReadsAreRight();
  nodes[1]->client->SetCredentials(std::nullopt);
  nodes[1]->Open();
  nodes[1]->ExpectReadsAreRight();
  EXPECT_EQ(nodes[1]->image->stats().peer_bytes, 0u);
  EXPECT_EQ(nodes[0]->requests, 0);
}

TEST_F(PeerSharingTest, BusyNodesTurnOthersAwayAtOnce) {
  Node node(credentials_, made_, log_.logger(), clock_, {.requests = 2, .bytes_per_second = 1 << 20});
  node.Open();
  node.ExpectReadsAreRight();
  const auto ask = [&](const std::string& query, const std::string& name = kName) {
    net::ServerRequest request;
    request.path = std::string(kPeerPathPrefix) + made_.index_digest.Hex() + "/chunks";
    request.query = query;
    request.client_certificate_cn = name;
    return node.giver->Handle(request, Deadline::Infinite()).status;
  };
  EXPECT_EQ(ask("n=1", ""), 403);
  EXPECT_EQ(ask("n=x"), 400);
  EXPECT_EQ(ask("n=160"), 400);
  EXPECT_EQ(ask("n=0-99"), 400);  // more than one answer may hold
  EXPECT_EQ(ask("n=0-15"), 200);  // and that is more than the budget of a second
  EXPECT_EQ(ask("n=16"), 503);
  EXPECT_EQ(ask("n=16&demand"), 503);
}

TEST_F(PeerSharingTest, TwoRequestsAreEnoughForANodeThatAllowsOne) {
  Node node(credentials_, made_, log_.logger(), clock_,
            {.requests = 1, .bytes_per_second = uint64_t{1} << 40, .origin_wait = seconds(600)});
  node.Open();
  std::atomic<bool> is_reading{false}, may_end{false};
  node.store->SetFault([&](const auto&, auto) {
    is_reading = true;
    is_reading.notify_all();
    may_end.wait(false);
    return Status();
  });
  const auto ask = [&](const std::string& query) {
    net::ServerRequest request;
    request.path = std::string(kPeerPathPrefix) + made_.index_digest.Hex() + "/chunks";
    request.query = query;
    request.client_certificate_cn = kName;
    return node.giver->Handle(request, Deadline::Infinite()).status;
  };
  std::jthread first([&] { EXPECT_EQ(ask("n=1&fetch"), 200); });
  is_reading.wait(false);
  EXPECT_EQ(ask("n=2"), 503);
  EXPECT_EQ(ask("n=2&demand"), 503);
  may_end = true;
  may_end.notify_all();
  first.join();
  EXPECT_EQ(ask("n=1"), 200);
}

TEST(PeerClient, PeersOfWhichNobodySpeaksAreForgotten) {
  fakes::SimulatedClock clock;
  PeerClient client({}, clock);
  EXPECT_EQ(client.peer_count(), 0u);
  ASSERT_TRUE(client.SetPeers("10.0.0.1:1", {"10.0.0.2:1", "10.0.0.1:1", "10.0.0.2:1", "[fd00::1]:1"}).ok());
  EXPECT_EQ(client.peer_count(), 2u);
  clock.Advance(std::chrono::minutes(4));
  ASSERT_TRUE(client.SetPeers("10.0.0.1:1", {"10.0.0.2:1"}).ok());
  EXPECT_EQ(client.peer_count(), 1u);
  EXPECT_FALSE(client.SetPeers("10.0.0.1:1", {"10.0.0.3:1", "no address/"}).ok());
  EXPECT_EQ(client.peer_count(), 1u);
  clock.Advance(std::chrono::minutes(5));
  EXPECT_EQ(client.peer_count(), 0u);
}

TEST(ByteBudget, GivesASecondsWorthAndThenTheRate) {
  const TimePoint start{std::chrono::hours(1)};
  ByteBudget budget(1000);
  EXPECT_TRUE(budget.IsOpen(start));
  budget.Spend(1500);
  EXPECT_FALSE(budget.IsOpen(start));
  EXPECT_FALSE(budget.IsOpen(start + std::chrono::milliseconds(499)));
  EXPECT_TRUE(budget.IsOpen(start + std::chrono::milliseconds(501)));
  EXPECT_TRUE(budget.IsOpen(start + std::chrono::hours(1)));
  budget.Spend(1001);  // no more was saved up than of one second
  EXPECT_FALSE(budget.IsOpen(start + std::chrono::hours(1)));
}

}  // namespace
}  // namespace paceline::blocks
