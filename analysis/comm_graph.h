// The tables of a run, turned round: per communicator its ranks, what each has launched and what it has open.
//
// Built once per diagnosis and read by the steps of the walk; points into the tables, which must live longer. Internal
// to the analysis; pure, any thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/root_cause.h"

namespace paceline::analysis {

// A rank of a communicator.
struct Member {
  const ProcessView* process = nullptr;
  int32_t comm = -1;  // place in the process's communicators
};

// An operation by what is the same on all ranks.
struct Operation {
  uint64_t index = 0;
  std::string func;
  uint64_t sequence = 0;
};

struct CommNode {
  uint64_t id = 0;
  std::string name;  // of whoever has one, else the id
  int32_t ranks = 0;
  bool has_p2p = false;               // then places in the order differ from rank to rank
  std::map<int32_t, Member> members;  // by rank

  std::vector<int32_t> UnseenRanks() const;
};

class CommGraph {
 public:
  CommGraph(const Tables& tables, const DiagnoseOptions& options);

  const std::map<uint64_t, CommNode>& comms() const { return comms_; }
  const CommNode* Find(uint64_t id) const;
  const DiagnoseOptions& options() const { return options_; }

  // The oldest call of a member that goes on over the network and has not changed for the time that counts as still.
  // Of collectives; of sends and receives where there is none.
  const CallView* OldestStuck(const Member& member) const;
  // Whether a member has launched the collective; nothing when its tables do not say.
  std::optional<bool> HasLaunched(const CommNode& comm, const Member& member, const CallView& collective) const;
  // Whether both calls, of two members, are the same operation. Sends and receives are taken for each other's.
  static bool AreSame(const CommNode& comm, const CallView& one, const CallView& other);
  // Whether a member has seen the end of the collective, by the network's word: nothing of it goes on any more, or a
  // later one has begun. False when its tables do not say.
  static bool HasEnded(const CommNode& comm, const Member& member, const CallView& collective);
  // A call of the application that has not come back, of this communicator or of none.
  const CallView* OpenApiCall(const Member& member) const;
  // The operation of one channel and direction that belongs to the call at hand; null when there is none.
  const ProxyView* ProxyOf(const Member& member, const CallView& call, int32_t channel, bool is_send,
                           int32_t peer) const;

 private:
  const DiagnoseOptions options_;
  std::map<uint64_t, CommNode> comms_;
};

Culprit CulpritOf(const ProcessView& process);
double Seconds(Duration duration);
// "rank 3", or the host where the rank is not known.
std::string RankName(const ProcessView& process);

}  // namespace paceline::analysis
