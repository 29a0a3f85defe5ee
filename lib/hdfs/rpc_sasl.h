// How a client proves itself to a NameNode of a secure cluster: by a delegation token (DIGEST-MD5) when there is one
// for it, else by Kerberos. Internal to lib/hdfs. Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/hdfs/digest_md5.h"
#include "lib/hdfs/hadoop_config.h"
#include "lib/hdfs/security.h"

namespace paceline::hdfs {

struct RpcSaslOptions {
  std::string principal;          // of the NameNode, as configured: "nn/_HOST@REALM"
  std::string principal_pattern;  // dfs.namenode.kerberos.principal.pattern, a glob; empty: the principal must fit
  std::vector<Qop> allowed = {Qop::kAuth};
  std::string token_file;              // read anew for each connection: tokens are renewed from outside
  std::optional<SecurityToken> token;  // used whatever its service; instead of the file
  std::vector<std::string> services;   // under which names a token may be for these NameNodes
};

// Null when hadoop.security.authentication is not kerberos. kInvalidArgument names the key that makes no sense.
Result<std::unique_ptr<RpcSecurity>> MakeRpcSecurity(const HadoopConfig& config, const NameService& service);

// Whether the service "protocol/server" that a server names itself is the one that we mean. `host` is the one that we
// connected to. Pure.
bool IsExpectedPrincipal(const RpcSaslOptions& options, const std::string& host, const std::string& named);

}  // namespace paceline::hdfs
