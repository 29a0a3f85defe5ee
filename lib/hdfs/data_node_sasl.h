// The SASL handshake of the data port, and the streams behind it: by the block's token (dfs.data.transfer.protection),
// or by the cluster's encryption key (dfs.encrypt.data.transfer). Internal to lib/hdfs. Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/mutex.h"
#include "lib/hdfs/data_node_client.h"
#include "lib/hdfs/digest_md5.h"
#include "lib/hdfs/name_node.h"

namespace paceline::hdfs {

class DataNodeSasl final : public DataNodeSecurity {
 public:
  struct Options {
    std::vector<Qop> protection;  // empty: none configured
    bool offers_aes = false;      // dfs.encrypt.data.transfer.cipher.suites
  };
  // kInvalidArgument names the key that makes no sense.
  static Result<Options> ReadOptions(const HadoopConfig& config);

  DataNodeSasl(Options options, const Clock& clock) : options_(std::move(options)), clock_(clock) {}
  // Before the first connection. `namenode` is borrowed: it says whether the cluster encrypts, and gives the key.
  void SetNameNode(NameNode* namenode) { namenode_ = namenode; }

  Result<std::unique_ptr<ByteStream>> Protect(std::unique_ptr<ByteStream> stream, const DataNode& node,
                                              const LocatedBlock& block, Deadline deadline) override;

 private:
  struct Login {
    DigestMd5Client::Credentials credentials;
    std::vector<Qop> allowed;
    std::optional<std::pair<std::string, std::string>> handshake_secret;  // secret, block pool
  };

  // Nothing: the stream goes on as it is.
  Result<std::optional<Login>> ChooseLogin(const DataNode& node, const LocatedBlock& block, Deadline deadline);
  Result<std::optional<DataEncryptionKey>> EncryptionKey(Deadline deadline);
  Result<std::unique_ptr<ByteStream>> Handshake(std::unique_ptr<ByteStream> stream, const Login& login,
                                                Deadline deadline);

  const Options options_;
  const Clock& clock_;
  NameNode* namenode_ = nullptr;
  Mutex mutex_;
  std::optional<bool> cluster_encrypts_ GUARDED_BY(mutex_);
  std::optional<DataEncryptionKey> key_ GUARDED_BY(mutex_);
};

}  // namespace paceline::hdfs
