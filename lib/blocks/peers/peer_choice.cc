#include "lib/blocks/peers/peer_choice.h"

#include <algorithm>

namespace paceline::blocks {
namespace {

constexpr double kWeightOfNewest = 0.2;
constexpr int kFewNotes = 4;
constexpr Duration kEstimateLife = std::chrono::minutes(2);
// Smaller answers are all latency; they count as if they had been this large.
constexpr uint64_t kSmallBytes = 256 << 10;
constexpr double kMebibyte = 1 << 20;

constexpr Duration kFirstClose = std::chrono::seconds(1);
constexpr Duration kLongestClose = std::chrono::minutes(5);
constexpr Duration kCloseOfLiars = std::chrono::minutes(30);
constexpr Duration kCloseOfBusy = std::chrono::milliseconds(500);
constexpr Duration kLackLife = std::chrono::seconds(5);
constexpr size_t kMaxLacks = 1024;

}  // namespace

uint64_t OwnerWeight(std::string_view address, const Digest& blob, uint64_t stretch) {
  Sha256 hash;
  hash.Update(address);
  hash.Update(std::string_view("\0", 1));
  hash.Update(blob.View());
  char number[8];
  for (size_t i = 0; i < sizeof number; ++i) number[i] = static_cast<char>(stretch >> (8 * i));
  hash.Update({number, sizeof number});
  const Digest digest = hash.Finish();
  uint64_t weight = 0;
  for (size_t i = 0; i < 8; ++i) weight = weight << 8 | digest.bytes[i];
  return weight;
}

std::vector<AskPart> CutForOwners(const LayerIndex& index, const std::vector<uint32_t>& chunks) {
  std::vector<AskPart> parts;
  for (size_t place = 0; place < chunks.size(); ++place) {
    const Chunk chunk = index.chunk(chunks[place]);
    const Digest& blob = index.blobs()[chunk.blob].digest;
    const uint64_t stretch = chunk.offset_bytes / kStretchBytes;
    const bool fits = !parts.empty() && parts.back().stretch == stretch && parts.back().blob == blob &&
                      parts.back().places.size() < kMaxChunksPerAsk &&
                      parts.back().content_bytes + chunk.content_bytes() <= kMaxContentPerAsk;
    if (!fits) parts.push_back({blob, stretch, {}, 0});
    parts.back().places.push_back(place);
    parts.back().content_bytes += chunk.content_bytes();
  }
  return parts;
}

void CostEstimate::Note(uint64_t content_bytes, Duration elapsed, TimePoint now) {
  if (now - last_ > kEstimateLife) notes_ = 0;
  const double cost = ToSeconds(elapsed) * kMebibyte / static_cast<double>(std::max(content_bytes, kSmallBytes));
  seconds_ = notes_ == 0 ? cost : seconds_ + kWeightOfNewest * (cost - seconds_);
  ++notes_;
  last_ = now;
}

std::optional<double> CostEstimate::SecondsPerMebibyte(TimePoint now) const {
  if (notes_ < kFewNotes || now - last_ > kEstimateLife) return std::nullopt;
  return seconds_;
}

bool IsSlowerThanOrigin(const CostEstimate& peer, const CostEstimate& origin, double slack, TimePoint now) {
  const std::optional<double> of_peer = peer.SecondsPerMebibyte(now), of_origin = origin.SecondsPerMebibyte(now);
  return of_peer && of_origin && *of_peer > slack * *of_origin;
}

Duration OwnShareOf(Duration elapsed, Duration waited) { return std::max(elapsed - waited, elapsed / 2); }

std::string_view PeerResultText(PeerResult result) {
  switch (result) {
    case PeerResult::kGiven: return "given";
    case PeerResult::kAbsent: return "absent";
    case PeerResult::kBusy: return "busy";
    case PeerResult::kUnreachable: return "unreachable";
    case PeerResult::kTimedOut: return "timeout";
    case PeerResult::kRefused: return "refused";
    case PeerResult::kMalformed: return "malformed";
    case PeerResult::kDamaged: return "damaged";
  }
  return "";
}

bool PeerHealth::MayAsk(TimePoint now, Duration trial) {
  if (now < closed_until_) return false;
  if (failures_ == 0) return true;
  // The others go on without it until this one has been answered.
  closed_until_ = now + trial;
  is_on_trial_ = true;
  return true;
}

void PeerHealth::Note(PeerResult result, TimePoint now) {
  switch (result) {
    case PeerResult::kGiven:
    case PeerResult::kAbsent:
      if (is_on_trial_ || failures_ == 0) {
        failures_ = 0;
        is_on_trial_ = false;
        closed_until_ = now;
      }
      return;
    case PeerResult::kBusy: closed_until_ = std::max(closed_until_, now + kCloseOfBusy); return;
    case PeerResult::kDamaged:
      ++failures_;
      is_on_trial_ = false;
      closed_until_ = now + kCloseOfLiars;
      return;
    case PeerResult::kUnreachable:
    case PeerResult::kTimedOut:
    case PeerResult::kRefused:
    case PeerResult::kMalformed: {
      // Requests that were under way together fail together, and count once.
      if (now < closed_until_ && !is_on_trial_) return;
      is_on_trial_ = false;
      const int doublings = std::min(failures_++, 20);
      closed_until_ = now + std::min<Duration>(kFirstClose * (int64_t{1} << doublings), kLongestClose);
      return;
    }
  }
}

void PeerHealth::NoteLack(const Digest& layer, TimePoint now) {
  if (lacks_.size() >= kMaxLacks) lacks_.clear();
  lacks_[layer] = now + kLackLife;
}

bool PeerHealth::Lacks(const Digest& layer, TimePoint now) const {
  const auto found = lacks_.find(layer);
  return found != lacks_.end() && now < found->second;
}

std::optional<Candidate> ChoosePeer(const std::vector<std::string>& addresses, const std::vector<bool>& is_usable,
                                    std::string_view own, const Digest& blob, uint64_t stretch) {
  std::optional<size_t> best;
  uint64_t weight_of_best = 0;
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (!is_usable[i]) continue;
    const uint64_t weight = OwnerWeight(addresses[i], blob, stretch);
    if (best && weight <= weight_of_best) continue;
    best = i;
    weight_of_best = weight;
  }
  if (!best) return std::nullopt;
  return Candidate{*best, weight_of_best > OwnerWeight(own, blob, stretch)};
}

}  // namespace paceline::blocks
