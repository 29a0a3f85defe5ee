#include "lib/kube/leader_election.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <thread>

#include "lib/base/mutex.h"
#include "lib/kube/json_fields.h"

namespace paceline::kube {
namespace {

constexpr double kJitter = 1.2;

// A Lease's spec as far as the protocol reads it.
struct LeaseRecord {
  std::string holder;
  std::string acquire_time;
  std::string renew_time;
  int64_t duration_seconds = 0;
  int64_t transitions = 0;

  friend bool operator==(const LeaseRecord&, const LeaseRecord&) = default;
};

LeaseRecord RecordOf(const Json& lease) {
  const Json* spec = ObjectField(lease, "spec");
  if (spec == nullptr) return {};
  return {StringField(*spec, "holderIdentity"), StringField(*spec, "acquireTime"), StringField(*spec, "renewTime"),
          IntegerField(*spec, "leaseDurationSeconds"), IntegerField(*spec, "leaseTransitions")};
}

Json SpecOf(const LeaseRecord& record) {
  return {{"holderIdentity", record.holder},
          {"acquireTime", record.acquire_time},
          {"renewTime", record.renew_time},
          {"leaseDurationSeconds", record.duration_seconds},
          {"leaseTransitions", record.transitions}};
}

class Elector final : public LeaderElector {
 public:
  Elector(const LeaderElectionOptions& options, LeaderCallbacks callbacks, Client& client, const Clock& clock,
          Logger& log, MetricsRegistry& registry)
      : options_(options),
        callbacks_(std::move(callbacks)),
        client_(client),
        clock_(clock),
        log_(log),
        key_{options.ns, options.name},
        status_metric_(registry.GaugeFamily({"leader_election_master_status", "1 while this process leads", {"name"}})
                           .With({options.name})),
        slow_path_metric_(
            registry
                .CounterFamily(
                    {"leader_election_slowpath_total", "Renewals that had to read the Lease again first", {"name"}})
                .With({options.name})),
        random_(std::random_device{}()) {
    status_metric_.Set(0);
    thread_ = std::jthread([this](std::stop_token stop) { Run(stop); });
  }

  ~Elector() override { Stop(); }

  bool IsLeader() const override {
    MutexLock lock(mutex_);
    return is_leader_ && clock_.Now() < lease_end_;
  }

  std::string Leader() const override {
    MutexLock lock(mutex_);
    return leader_;
  }

  void Stop() override {
    thread_.request_stop();
    if (thread_.joinable()) thread_.join();
  }

 private:
  void Run(const std::stop_token& stop) {
    if (!Acquire(stop)) return;
    SetLeading(true);
    log_.Info("leading", {{"lease", key_.ToString()}, {"identity", options_.identity}});
    callbacks_.on_started_leading();
    const Status lost = Renew(stop);
    SetLeading(false);
    if (!lost.ok()) {
      log_.Error("lost the lease", {{"lease", key_.ToString()}, {"identity", options_.identity}, {"error", lost}});
      callbacks_.on_lost(lost);
      return;
    }
    if (Status released = Release(); !released.ok()) {
      log_.Warn("lease not released, it will expire", {{"lease", key_.ToString()}, {"error", released}});
    }
  }

  // Tries until we hold the lease; false when stopped.
  bool Acquire(const std::stop_token& stop) {
    bool is_failing = false;
    do {
      const Status tried = TryAcquireOrRenew();
      if (tried.ok()) return true;
      // kAborted means that somebody else leads; anything else is said once until it is over.
      const bool is_failure = tried.code() != StatusCode::kAborted;
      if (is_failure && !is_failing) {
        log_.Warn("cannot look at the lease, retrying", {{"lease", key_.ToString()}, {"error", tried}});
      }
      is_failing = is_failure;
    } while (clock_.SleepUntil(NextTry(), stop));
    return false;
  }

  // A little after the next period, so that candidates spread; but not later than the end of the lease that we see, so
  // that a crashed leader is replaced without one more period of waiting.
  TimePoint NextTry() {
    const TimePoint now = clock_.Now();
    std::uniform_real_distribution<double> jitter(1.0, kJitter);
    TimePoint next = now + std::chrono::duration_cast<Duration>(options_.retry_period * jitter(random_));
    if (!observed_.holder.empty() && ObservedEnd() > now) next = std::min(next, ObservedEnd());
    return next;
  }

  // Keeps the lease. Ok when stopped; otherwise why it is lost.
  Status Renew(const std::stop_token& stop) {
    TimePoint renewed = clock_.Now();
    TimePoint next = renewed + options_.retry_period;
    while (clock_.SleepUntil(next, stop)) {
      const TimePoint started = clock_.Now();
      // Also true after the process was stopped or the machine slept: then somebody else may lead already.
      if (started - renewed >= options_.renew_deadline) return LostBecause("no time to renew");
      const Status tried = TryAcquireOrRenew();
      if (tried.ok()) {
        renewed = clock_.Now();
      } else if (!observed_.holder.empty() && observed_.holder != options_.identity) {
        return AbortedError(fmt::format("lease {} was taken by {}", key_.ToString(), observed_.holder));
      } else if (clock_.Now() - renewed >= options_.renew_deadline) {
        return LostBecause(tried.ToString());
      } else {
        log_.Warn("lease not renewed, retrying", {{"lease", key_.ToString()}, {"error", tried}});
      }
      next = std::min(clock_.Now() + options_.retry_period, renewed + options_.renew_deadline);
    }
    return Status();
  }

  Status LostBecause(const std::string& cause) const {
    return DeadlineExceededError(fmt::format("lease {} not renewed for {:.1f} s: {}", key_.ToString(),
                                             ToSeconds(options_.renew_deadline), cause));
  }

  // Ok: we hold the lease from now on. kAborted: somebody else does. Other codes: could not look or write.
  Status TryAcquireOrRenew() {
    const TimePoint started = clock_.Now();
    const Deadline deadline = Deadline::At(started + options_.renew_deadline / 2);
    if (IsOurs() && started < ObservedEnd()) {
      // The usual case costs one request: nobody has written since we did.
      if (Write(observed_lease_, started, deadline).ok()) return Status();
      slow_path_metric_.Add();
    }
    Result<Json> lease = client_.Get(kLeases, key_, deadline);
    if (lease.status().code() == StatusCode::kNotFound) return CreateLease(started, deadline);
    if (!lease.ok()) return lease.status();
    Observe(*lease);
    if (!observed_.holder.empty() && !IsOurs() && clock_.Now() < ObservedEnd()) {
      return AbortedError(fmt::format("lease {} is held by {}", key_.ToString(), observed_.holder));
    }
    return Write(*lease, started, deadline);
  }

  Status CreateLease(TimePoint started, Deadline deadline) {
    Json lease = {{"apiVersion", kLeases.ApiVersion()},
                  {"kind", kLeases.kind},
                  {"metadata", {{"name", key_.name}, {"namespace", key_.ns}}},
                  {"spec", SpecOf(NextRecord(LeaseRecord{}))}};
    Result<Json> stored = client_.Create(kLeases, lease, {}, deadline);
    if (!stored.ok()) return stored.status();
    Accept(*stored, started);
    return Status();
  }

  // Replaces `lease`, which must still be the stored one.
  Status Write(Json lease, TimePoint started, Deadline deadline) {
    lease["spec"] = SpecOf(NextRecord(RecordOf(lease)));
    Result<Json> stored = client_.Update(kLeases, lease, {}, deadline);
    if (!stored.ok()) return stored.status();
    Accept(*stored, started);
    return Status();
  }

  // What we write over `before`.
  LeaseRecord NextRecord(const LeaseRecord& before) const {
    LeaseRecord next;
    next.holder = options_.identity;
    next.duration_seconds = std::chrono::duration_cast<std::chrono::seconds>(options_.lease_duration).count();
    next.renew_time = FormatRfc3339Micro(clock_.WallNow());
    const bool was_ours = before.holder == options_.identity;
    next.acquire_time = was_ours ? before.acquire_time : next.renew_time;
    const bool is_first = before.renew_time.empty();
    next.transitions = was_ours || is_first ? before.transitions : before.transitions + 1;
    return next;
  }

  // After a write of ours: the lease counts from before the request was sent, the earliest that others can have seen
  // it.
  void Accept(const Json& stored, TimePoint started) {
    Observe(stored);
    observed_at_ = started;
    MutexLock lock(mutex_);
    lease_end_ = started + options_.lease_duration;
  }

  void Observe(const Json& lease) {
    observed_lease_ = lease;
    const LeaseRecord record = RecordOf(lease);
    if (record != observed_) {
      observed_ = record;
      observed_at_ = clock_.Now();
    }
    bool is_new_leader = false;
    {
      MutexLock lock(mutex_);
      is_new_leader = leader_ != record.holder;
      leader_ = record.holder;
    }
    if (is_new_leader && !record.holder.empty() && callbacks_.on_new_leader) callbacks_.on_new_leader(record.holder);
  }

  // By our own clock, from when we saw the record change. The holder's own duration counts: it may be configured
  // differently, and a released lease says one second.
  TimePoint ObservedEnd() const { return observed_at_ + std::chrono::seconds(observed_.duration_seconds); }
  bool IsOurs() const { return observed_.holder == options_.identity; }

  Status Release() {
    if (!IsOurs()) return Status();
    const std::string now = FormatRfc3339Micro(clock_.WallNow());
    Json lease = observed_lease_;
    lease["spec"] = SpecOf({"", now, now, 1, observed_.transitions});
    const Deadline deadline = Deadline::After(clock_, options_.renew_deadline / 2);
    Result<Json> stored = client_.Update(kLeases, lease, {}, deadline);
    if (!stored.ok()) return stored.status();
    MutexLock lock(mutex_);
    leader_.clear();
    return Status();
  }

  void SetLeading(bool is_leading) {
    status_metric_.Set(is_leading ? 1 : 0);
    MutexLock lock(mutex_);
    is_leader_ = is_leading;
  }

  const LeaderElectionOptions options_;
  const LeaderCallbacks callbacks_;
  Client& client_;
  const Clock& clock_;
  Logger& log_;
  const ObjectKey key_;
  Gauge& status_metric_;
  Counter& slow_path_metric_;

  // Used by the thread alone.
  std::mt19937 random_;
  Json observed_lease_;
  LeaseRecord observed_;
  TimePoint observed_at_{};

  mutable Mutex mutex_;
  bool is_leader_ GUARDED_BY(mutex_) = false;
  TimePoint lease_end_ GUARDED_BY(mutex_){};
  std::string leader_ GUARDED_BY(mutex_);

  std::jthread thread_;  // last: it uses everything above
};

}  // namespace

Status ValidateLeaderElection(const LeaderElectionOptions& options) {
  if (options.ns.empty() || options.name.empty() || options.identity.empty()) {
    return InvalidArgumentError("leader election needs a namespace, a name and an identity");
  }
  const Duration whole = std::chrono::duration_cast<std::chrono::seconds>(options.lease_duration);
  if (options.lease_duration < std::chrono::seconds(1) || whole != options.lease_duration) {
    return InvalidArgumentError("lease_duration must be whole seconds, at least one");
  }
  if (options.retry_period <= Duration::zero()) return InvalidArgumentError("retry_period must be positive");
  if (options.lease_duration <= options.renew_deadline) {
    return InvalidArgumentError("lease_duration must be longer than renew_deadline");
  }
  if (ToSeconds(options.renew_deadline) <= kJitter * ToSeconds(options.retry_period)) {
    return InvalidArgumentError("renew_deadline must be longer than 1.2 * retry_period");
  }
  return Status();
}

Result<std::unique_ptr<LeaderElector>> LeaderElector::Start(const LeaderElectionOptions& options,
                                                            LeaderCallbacks callbacks, Client& client,
                                                            const Clock& clock, Logger& log, MetricsRegistry& metrics) {
  RETURN_IF_ERROR(ValidateLeaderElection(options));
  if (!callbacks.on_started_leading || !callbacks.on_lost) {
    return InvalidArgumentError("leader election needs on_started_leading and on_lost");
  }
  return std::unique_ptr<LeaderElector>(
      std::make_unique<Elector>(options, std::move(callbacks), client, clock, log, metrics));
}

}  // namespace paceline::kube
