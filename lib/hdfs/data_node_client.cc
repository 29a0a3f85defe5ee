#include "lib/hdfs/data_node_client.h"

#include <algorithm>
#include <thread>

#include "lib/hdfs/packet.h"
#include "lib/hdfs/wire_convert.h"

namespace paceline::hdfs {
namespace {

// A DataNode keeps an idle connection for 4 s (dfs.datanode.socket.reuse.keepalive).
constexpr Duration kIdleLife = std::chrono::seconds(3);
constexpr size_t kMaxIdlePerNode = 16;
constexpr int kMaxDoublings = 4;

}  // namespace

Result<DataNodeClient::Connection> DataNodeClient::Connect(const DataNode& node, const LocatedBlock& block, Reuse reuse,
                                                           Deadline deadline) {
  std::list<Idle> candidates;
  if (reuse == Reuse::kAllowed) {
    MutexLock lock(mutex_);
    candidates.swap(idle_[node.Key()]);
  }
  Connection found;
  while (found.stream == nullptr && !candidates.empty()) {
    Idle idle = std::move(candidates.back());  // the youngest
    candidates.pop_back();
    if (idle.expires > clock_.Now() && idle.stream->IsIdleAndOpen()) found = {std::move(idle.stream), false};
  }
  if (!candidates.empty()) {
    MutexLock lock(mutex_);
    std::list<Idle>& held = idle_[node.Key()];
    held.splice(held.begin(), candidates);
  }
  if (found.stream != nullptr) return found;

  const Deadline limit = deadline.Min(Deadline::After(clock_, options_.connect_limit));
  const std::string& host = options_.uses_host_names ? node.host_name : node.ip;
  ASSIGN_OR_RETURN(found.stream, ConnectTcp(host, node.transfer_port, clock_, limit));
  if (options_.security != nullptr) {
    ASSIGN_OR_RETURN(found.stream, options_.security->Protect(std::move(found.stream), node, block, limit));
  }
  found.is_fresh = true;
  return found;
}

void DataNodeClient::GiveBack(const DataNode& node, std::unique_ptr<ByteStream> stream) {
  std::list<Idle> dropped;  // closed outside of the lock
  MutexLock lock(mutex_);
  std::list<Idle>& held = idle_[node.Key()];
  held.push_back({std::move(stream), clock_.Now() + kIdleLife});
  while (held.size() > kMaxIdlePerNode || (!held.empty() && held.front().expires <= clock_.Now())) {
    dropped.splice(dropped.end(), held, held.begin());
  }
}

void DataNodeClient::MarkDead(const DataNode& node) {
  MutexLock lock(mutex_);
  const TimePoint now = clock_.Now();
  const auto [place, is_new] = dead_.try_emplace(node.Key(), Dead{.node = node, .until = TimePoint{}});
  Dead& dead = place->second;
  // Several threads find the same death; only one after the memory has run out is another one.
  if (!is_new && dead.until > now) return;
  dead.until = now + options_.dead_memory * (1 << std::min(dead.chances, kMaxDoublings));
  ++dead.chances;
}

void DataNodeClient::MarkAlive(const DataNode& node) {
  MutexLock lock(mutex_);
  dead_.erase(node.Key());
}

bool DataNodeClient::IsDead(const DataNode& node) const {
  MutexLock lock(mutex_);
  const auto found = dead_.find(node.Key());
  return found != dead_.end() && found->second.until > clock_.Now();
}

std::vector<DataNode> DataNodeClient::DeadNodes() const {
  MutexLock lock(mutex_);
  std::vector<DataNode> nodes;
  for (const auto& [key, dead] : dead_) {
    if (dead.until > clock_.Now()) nodes.push_back(dead.node);
  }
  return nodes;
}

bool DataNodeClient::Answers(const DataNode& node, const LocatedBlock& block) {
  const Deadline deadline = Deadline::After(clock_, options_.probe_patience);
  Result<Connection> connection = Connect(node, block, Reuse::kForbidden, deadline);
  if (!connection.ok()) return false;
  wire::OpReadBlock request;
  *request.mutable_header()->mutable_base()->mutable_block() = ToWire(block.block);
  *request.mutable_header()->mutable_base()->mutable_token() = ToWire(block.token);
  request.mutable_header()->set_client_name(options_.client_name);
  // No byte at all: for bytes that have not arrived yet a DataNode waits, 3 s, before it answers.
  request.set_offset(0);
  request.set_length(0);
  if (!connection->stream->Write(EncodeOperation(kOpReadBlock, request), deadline).ok()) return false;
  std::string answer;
  // An error is an answer as well: the node is there.
  return BufferedReader(*connection->stream).ReadDelimited(&answer, kMaxAnswerBytes, deadline).ok();
}

std::vector<size_t> DataNodeClient::SilentNodes(const LocatedBlock& block) {
  std::vector<char> answers(block.nodes.size(), 0);
  {
    std::vector<std::jthread> asking;
    for (size_t i = 0; i < answers.size(); ++i) {
      asking.emplace_back([&, i] { answers[i] = Answers(block.nodes[i], block) ? 1 : 0; });
    }
  }
  std::vector<size_t> silent;
  for (size_t i = 0; i < answers.size(); ++i) {
    if (answers[i] == 0) silent.push_back(i);
  }
  return silent;
}

}  // namespace paceline::hdfs
