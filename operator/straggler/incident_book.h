// The Incidents of one StragglerPolicy: one open at a time for each slow node, with what is found and what was done.
// Reads the cache, writes through the client, blocks until the deadline. One pass of the straggler controller makes
// one; not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/api/incident.h"
#include "lib/api/straggler_policy.h"
#include "lib/api/training_run.h"
#include "lib/kube/cache.h"
#include "lib/kube/client.h"
#include "operator/straggler/policy_plan.h"

namespace paceline::operator_ {

class IncidentBook {
 public:
  // `policy` and `client` must outlive the book. Of a policy that is gone the name is enough.
  IncidentBook(const api::StragglerPolicy& policy, const kube::Store<kube::ObjectView>& incidents, kube::Client& client,
               WallTime now, Deadline deadline);

  // The open Incident of `node`, or null.
  const api::Incident* OpenOf(const std::string& node) const;
  std::vector<std::string> OpenNodes() const;
  // Makes one for `run`, or completes the one that an operator began and did not get to tell. Two passes make the same.
  // kUnavailable while the cache is behind.
  Result<const api::Incident*> Open(const api::TrainingRun& run, const std::string& node,
                                    const api::IncidentStatus& status);
  Status Resolve(const std::string& node);
  // Notes what was done, or why nothing was, with the incident `key` (namespace/name), and a condition with it. A gone
  // incident is no error.
  Status Note(const std::string& key, const api::IncidentAction& action,
              const std::optional<api::Condition>& condition = std::nullopt);
  // The same for what is known to be done and may have been noted, unless it was: the open incident of `action.node`.
  Status NoteOnce(const api::IncidentAction& action);
  // What a probe of `action.node` says, and its numbers, in place of those of the one before. False when the latest one
  // that is noted there says the same; then nothing is written.
  Result<bool> NoteProbe(const std::string& key, const api::IncidentAction& action,
                         const std::vector<api::EvidenceNumber>& evidence);
  // Whether the incident `key` has this very action, its result included. Asks the server.
  Result<bool> HasNoted(const std::string& key, const api::IncidentAction& action) const;

  // Of an open incident. An answer is needed only where something can be done.
  ApprovalState ApprovalOf(const api::Incident& incident) const;
  static std::string KeyOf(const api::Incident& incident);

 private:
  Result<api::Incident> Create(const api::TrainingRun& run, const std::string& node);
  // From the server; nothing when it is gone.
  Result<std::optional<api::Incident>> Fetch(const std::string& key) const;
  Status WriteStatus(const api::Incident& incident);

  const api::StragglerPolicy& policy_;
  kube::Client& client_;
  const WallTime now_;
  const Deadline deadline_;
  std::map<std::string, api::Incident> open_;  // by node
  std::set<std::string> taken_;                // names, as KeyOf gives them
};

}  // namespace paceline::operator_
