// etcd and kube-apiserver alone, as processes of the test, so that a test may kill them without harming others. From
// the programs that tests/testbed/build keeps; a test skips when they are not there.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/kube/config.h"

namespace paceline::kube {

class LocalApiServer {
 public:
  // kNotFound when the programs are not built; blocks until the server is ready.
  static Result<std::unique_ptr<LocalApiServer>> Start(const std::string& folder, const Clock& clock);
  ~LocalApiServer();

  const KubeConfig& config() const { return config_; }
  // SIGKILL, as a crash would be.
  void KillApiServer();
  // Blocks until it is ready again.
  Status StartApiServer();

 private:
  LocalApiServer(std::string programs, std::string folder, const Clock& clock);
  Status StartEtcd();
  Status AwaitReady();
  Result<pid_t> Spawn(const std::string& name, std::vector<std::string> arguments);

  const std::string programs_;
  const std::string folder_;
  const Clock& clock_;
  int etcd_port_ = 0;
  int port_ = 0;
  pid_t etcd_ = -1;
  pid_t server_ = -1;
  KubeConfig config_;
};

}  // namespace paceline::kube
