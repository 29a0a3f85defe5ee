// Lets one replica at a time lead, by a Lease object, with client-go's protocol, so that kubectl and other tools read
// it as usual. Runs on a thread of its own; give it a Client (connection) of its own too, because a renewal that queues
// behind a big list is a lost lease.
//
// Expiry is judged by the local time at which a change of the Lease was last seen, never by comparing its timestamps
// with our clock, so skewed clocks do no harm. Whoever loses the lease must exit: every cache and every half-done
// reconcile of that process is void. Callers: operator's main.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lib/base/log.h"
#include "lib/base/metrics.h"
#include "lib/kube/client.h"

namespace paceline::kube {

struct LeaderElectionOptions {
  std::string ns;
  std::string name;
  std::string identity;  // unique to this process: "<pod name>_<random>"
  // A crashed leader is replaced after at most lease_duration + 1.2 * retry_period. Slow API servers need longer times.
  Duration lease_duration = std::chrono::seconds(15);
  Duration renew_deadline = std::chrono::seconds(10);  // gives up after so long without a renewal
  Duration retry_period = std::chrono::seconds(2);
};

// kInvalidArgument, naming the field, unless lease_duration > renew_deadline > 1.2 * retry_period > 0, lease_duration
// is whole seconds and >= 1 s, and the names are not empty.
Status ValidateLeaderElection(const LeaderElectionOptions& options);

// Called on the elector's thread; must return soon.
struct LeaderCallbacks {
  std::function<void()> on_started_leading;
  // The lease is lost: another holder, or renew_deadline passed. Once; the elector does nothing after it. main() ends
  // the process here. Not called on a clean Stop.
  std::function<void(const Status& why)> on_lost;
  // May be null. Each time another identity (or we) is seen as the holder.
  std::function<void(const std::string& identity)> on_new_leader;
};

class LeaderElector {
 public:
  // Validates and starts the thread; kInvalidArgument for bad options. `client`, `clock`, `log` and `metrics` must
  // outlive the elector. Metrics: leader_election_master_status{name}, leader_election_slowpath_total{name}.
  static Result<std::unique_ptr<LeaderElector>> Start(const LeaderElectionOptions& options, LeaderCallbacks callbacks,
                                                      Client& client, const Clock& clock, Logger& log,
                                                      MetricsRegistry& metrics);
  virtual ~LeaderElector() = default;  // Stop

  // True while we hold a lease that nobody else can have taken yet. Does not block.
  virtual bool IsLeader() const = 0;
  // The holder last seen; empty before the first look.
  virtual std::string Leader() const = 0;

  // Ends the thread and, when we lead, frees the lease, so that a successor need not wait for it to expire. Stop the
  // leader's own work first. Blocks for at most renew_deadline. Safe to call twice.
  virtual void Stop() = 0;
};

}  // namespace paceline::kube
