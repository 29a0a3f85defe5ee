// A NameNode and DataNodes of the test on loopback: enough of both to write files through pipelines, join them and read
// them back, with faults at the places where real ones have them. Blocks live in one table that all DataNodes share, so
// that a fault of one DataNode is a fault of that one only; a pipeline's later nodes are not spoken to, but answer in
// its acknowledgements. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lib/base/mutex.h"
#include "lib/hdfs/block.h"
#include "lib/hdfs/proto/datatransfer.pb.h"
#include "lib/hdfs/rpc_client.h"
#include "tests/hdfs/scripted_name_node.h"

namespace paceline::hdfs {

class FakeCluster {
 public:
  enum class Fault {
    kNone,
    kHangs,          // takes connections, never answers: a stopped process
    kRefuses,        // answers every operation with an error
    kCutsInWrite,    // closes the connection after the first packet of a write
    kSilentInWrite,  // takes packets, acknowledges none, answers questions: slow
    kBlamesSecond,   // acknowledges with a failure of the second node of the pipeline
    kCorrupts,       // serves reads with a wrong byte
    kHangsInRead,    // takes the request and sends nothing
  };

  explicit FakeCluster(size_t datanodes);
  ~FakeCluster();

  RpcClient::Options RpcOptions() const;
  const DataNode& node(size_t index) const { return nodes_[index]->info; }
  void SetFault(size_t index, Fault fault) { nodes_[index]->fault = fault; }
  // Reads and writes that the DataNode was asked for.
  int operations(size_t index) const { return nodes_[index]->operations; }

  // What the NameNode has. Nothing for a file that is not there.
  std::optional<std::string> Contents(const std::string& path) const EXCLUDES(mutex_);
  std::vector<std::string> Paths() const EXCLUDES(mutex_);
  // How often a method was called, and what answers it instead of us: an exception's class.
  int Calls(const std::string& method) const EXCLUDES(mutex_);
  void Refuse(const std::string& method, const std::string& exception) EXCLUDES(mutex_);
  // A block that is there already, on these DataNodes.
  LocatedBlock PlantBlock(const std::string& bytes, uint64_t offset, const std::vector<size_t>& on) EXCLUDES(mutex_);

 private:
  struct Node {
    DataNode info;
    std::atomic<Fault> fault{Fault::kNone};
    std::atomic<int> operations{0};
    std::unique_ptr<fakes::ScriptedPeer> peer;
  };
  struct File {
    std::vector<uint64_t> blocks;
    uint64_t id = 0;
  };

  std::optional<std::string> HandleCall(const SeenCall& call) EXCLUDES(mutex_);
  Result<std::string> Answer(const SeenCall& call) REQUIRES(mutex_);
  Result<std::string> AnswerAddBlock(const std::string& body) REQUIRES(mutex_);
  Result<std::string> AnswerConcat(const std::string& body) REQUIRES(mutex_);
  void ServeData(Node& node, fakes::ScriptedPeer::Link& link);
  void ServeWrite(Node& node, const wire::OpWriteBlock& request, fakes::ScriptedPeer::Link& link);
  void ServeRead(Node& node, const wire::OpReadBlock& request, fakes::ScriptedPeer::Link& link);

  std::vector<std::unique_ptr<Node>> nodes_;
  mutable Mutex mutex_;
  std::map<std::string, File> files_ GUARDED_BY(mutex_);
  std::map<uint64_t, std::string> blocks_ GUARDED_BY(mutex_);
  std::map<std::string, int> calls_ GUARDED_BY(mutex_);
  std::map<std::string, std::string> refused_ GUARDED_BY(mutex_);
  uint64_t next_id_ GUARDED_BY(mutex_) = 1;
  size_t next_node_ GUARDED_BY(mutex_) = 0;
  std::unique_ptr<ScriptedNameNode> namenode_;
};

}  // namespace paceline::hdfs
