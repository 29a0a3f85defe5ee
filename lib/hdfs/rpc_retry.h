// Whether a NameNode call that did not work is tried again, where, and after how long. Pure, so that every case stands
// in a table of its test; RpcClient does what it says.
#pragma once

#include "lib/base/clock.h"
#include "lib/hdfs/remote_error.h"
#include "lib/hdfs/rpc_connection.h"

namespace paceline::hdfs {

struct RpcTrouble {
  RpcOutcome::Kind kind = RpcOutcome::Kind::kRemoteError;
  RemoteErrorKind remote = RemoteErrorKind::kOther;  // of kRemoteError
  int earlier_tries = 0;                             // of this call, without this one
  int namenodes = 1;
};

struct RetryStep {
  enum class Action { kGiveUp, kSameServer, kOtherServer };
  Action action = Action::kGiveUp;
  Duration wait = Duration::zero();
};

// `random` in [0, 1) spreads the waits of many clients. The bound on the whole is the caller's deadline; besides, a
// call is given up after 15 tries, one in safe mode after about 15 seconds.
RetryStep DecideRetry(const RpcTrouble& trouble, double random);

}  // namespace paceline::hdfs
