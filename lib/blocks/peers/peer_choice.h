// Which node is asked for which chunks, and whether peers are worth asking at all: the decisions, apart from the
// network. docs/formats/peer-chunks.md, "Who owns a chunk".
//
// Pure values and functions, single-threaded; PeerClient locks around them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/blocks/engine/fetch_queue.h"
#include "lib/blocks/format/layer_index.h"
#include "lib/blocks/peers/peer_wire.h"

namespace paceline::blocks {

// The weight of a member for a stretch (kStretchBytes) of a blob: the largest one owns it.
uint64_t OwnerWeight(std::string_view address, const Digest& blob, uint64_t stretch);

// Chunks that are asked of one member together: of one stretch, and no more than one answer may hold.
struct AskPart {
  Digest blob;
  uint64_t stretch = 0;
  std::vector<size_t> places;  // in what was cut
  uint64_t content_bytes = 0;
};
// Cuts chunks of one blob, which are in the order of their offsets.
std::vector<AskPart> CutForOwners(const LayerIndex& index, const std::vector<uint32_t>& chunks);

// What asking costs, as a moving mean of the newest answers.
class CostEstimate {
 public:
  void Note(uint64_t content_bytes, Duration elapsed, TimePoint now);
  // Nothing before there were a few answers, and when the last one is long ago.
  std::optional<double> SecondsPerMebibyte(TimePoint now) const;

 private:
  double seconds_ = 0;
  int notes_ = 0;
  TimePoint last_{};
};

// Whether a peer takes more than `slack` times as long as the origin for the same bytes. What is not known is not slow.
bool IsSlowerThanOrigin(const CostEstimate& peer, const CostEstimate& origin, double slack, TimePoint now);

// How an answer counts: the time that the owner waited for the origin would have passed here as well, but a peer that
// makes everything take twice as long is a slow one.
Duration OwnShareOf(Duration elapsed, Duration waited);

enum class PeerResult {
  kGiven,        // something came
  kAbsent,       // it has nothing of this
  kBusy,         // turned away: it has enough to do
  kUnreachable,  // no connection, or it broke
  kTimedOut,
  kRefused,    // does not know us, or does not understand
  kMalformed,  // an answer that is none
  kDamaged,    // other bytes than those of the chunk
};
// "given", as in metrics.
std::string_view PeerResultText(PeerResult result);
inline constexpr PeerResult kPeerResults[] = {PeerResult::kGiven,     PeerResult::kAbsent,      PeerResult::kBusy,
                                              PeerResult::kTimedOut,  PeerResult::kUnreachable, PeerResult::kRefused,
                                              PeerResult::kMalformed, PeerResult::kDamaged};

// What is known of one peer.
class PeerHealth {
 public:
  // True when it may be asked now. After a failure only one at a time may try again: whoever gets true for one is it,
  // for `trial` at most.
  bool MayAsk(TimePoint now, Duration trial);
  void Note(PeerResult result, TimePoint now);

  // It has said that a layer is not there. True of that for a short while.
  void NoteLack(const Digest& layer, TimePoint now);
  bool Lacks(const Digest& layer, TimePoint now) const;

  // Of a slow peer only every so many-th request goes to it, to see whether it has got faster.
  bool IsTrialOfSlow() { return ++skipped_ % kSlowTrials == 0; }

  bool is_bad(TimePoint now) const { return now < closed_until_; }
  CostEstimate cost;

 private:
  static constexpr uint64_t kSlowTrials = 16;

  int failures_ = 0;
  bool is_on_trial_ = false;
  TimePoint closed_until_{};
  uint64_t skipped_ = 0;
  std::map<Digest, TimePoint> lacks_;  // until then
};

// Whom to ask for a stretch.
struct Candidate {
  size_t member = 0;      // in the list that was given
  bool is_owner = false;  // and may be told to fetch
};
// `addresses` are those of all peers, `is_usable` says of each whether it counts; `own` is our address. The owner, or
// when that is ourselves the next one, who may have the chunks all the same. Nothing when there is nobody.
std::optional<Candidate> ChoosePeer(const std::vector<std::string>& addresses, const std::vector<bool>& is_usable,
                                    std::string_view own, const Digest& blob, uint64_t stretch);

}  // namespace paceline::blocks
