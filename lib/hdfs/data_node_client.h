// Connections to DataNodes: makes them, protects them when the cluster is secure, keeps idle ones for the next read,
// and remembers which DataNodes did not answer. Internal to lib/hdfs. Thread-safe.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/mutex.h"
#include "lib/hdfs/block.h"
#include "lib/hdfs/byte_stream.h"

namespace paceline::hdfs {

// To write: a machine that is gone answers no SYN, and one that is there does at the second at the latest.
inline constexpr Duration kWriteConnectLimit = std::chrono::milliseconds(2500);

// The seam of the data port's SASL handshake; null on a cluster without it.
class DataNodeSecurity {
 public:
  virtual ~DataNodeSecurity() = default;
  // Gives the stream to go on with. kPermissionDenied when the token or the key is not accepted.
  virtual Result<std::unique_ptr<ByteStream>> Protect(std::unique_ptr<ByteStream> stream, const DataNode& node,
                                                      const LocatedBlock& block, Deadline deadline) = 0;
};

class DataNodeClient {
 public:
  struct Options {
    std::string client_name;
    bool uses_host_names = false;  // dfs.client.use.datanode.hostname
    Duration connect_limit = std::chrono::seconds(5);
    Duration silence_limit = std::chrono::seconds(15);
    Duration dead_memory = std::chrono::seconds(30);
    // After this much silence each node of a pipeline is asked whether it is there, and has so long to say so. One that
    // is there may be slow for as long as the silence limit; one that is not is left out at once. Together with what
    // comes before and after they keep the time that a stopped DataNode costs a write below 5 s.
    Duration probe_after = std::chrono::milliseconds(1500);
    Duration probe_patience = std::chrono::milliseconds(1500);
    Duration heartbeat_interval = std::chrono::seconds(20);  // of an idle pipeline; DataNodes wait a minute
    DataNodeSecurity* security = nullptr;                    // borrowed
  };

  DataNodeClient(Options options, const Clock& clock) : options_(std::move(options)), clock_(clock) {}

  // A stream that stands ready for an operation on `block`. `is_fresh` is false for one that was idle, which may turn
  // out to be dead without that being the node's fault.
  struct Connection {
    std::unique_ptr<ByteStream> stream;
    bool is_fresh = true;
  };
  enum class Reuse { kAllowed, kForbidden };
  Result<Connection> Connect(const DataNode& node, const LocatedBlock& block, Reuse reuse, Deadline deadline);
  // For the next Connect to the same node; only after an operation that ended properly.
  void GiveBack(const DataNode& node, std::unique_ptr<ByteStream> stream);

  // For Options::dead_memory; for longer each time that the node turns out dead again when it was given another chance.
  void MarkDead(const DataNode& node);
  void MarkAlive(const DataNode& node);
  bool IsDead(const DataNode& node) const;
  // Those that a new block had better not go to.
  std::vector<DataNode> DeadNodes() const;

  // The indexes of those nodes of `block` that do not answer an operation at all within Options::probe_patience, in
  // order: a stopped process still takes connections. All are asked at once.
  std::vector<size_t> SilentNodes(const LocatedBlock& block);

  const Options& options() const { return options_; }
  const Clock& clock() const { return clock_; }
  // The limit of one wait for bytes.
  Deadline Silence(Deadline deadline) const { return deadline.Min(Deadline::After(clock_, options_.silence_limit)); }

 private:
  bool Answers(const DataNode& node, const LocatedBlock& block);

  struct Idle {
    std::unique_ptr<ByteStream> stream;
    TimePoint expires;
  };

  const Options options_;
  const Clock& clock_;
  mutable Mutex mutex_;
  std::map<std::string, std::list<Idle>> idle_ GUARDED_BY(mutex_);
  struct Dead {
    DataNode node;
    TimePoint until;
    int chances = 0;  // that it has had since it was alive last
  };
  std::map<std::string, Dead> dead_ GUARDED_BY(mutex_);
};

}  // namespace paceline::hdfs
