#include "lib/blocks/peers/peer_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace paceline::blocks {
namespace {

constexpr int kTriesForALayer = 3;

PeerResult ResultOf(const Status& failure) {
  switch (failure.code()) {
    case StatusCode::kDeadlineExceeded: return PeerResult::kTimedOut;
    case StatusCode::kDataLoss:
    case StatusCode::kResourceExhausted: return PeerResult::kMalformed;
    default: return PeerResult::kUnreachable;
  }
}

PeerResult ResultOf(int http_status) {
  if (http_status == 404) return PeerResult::kAbsent;
  return http_status == 503 || http_status == 429 ? PeerResult::kBusy : PeerResult::kRefused;
}

Duration WaitedOf(const net::HttpResponse& response) {
  const std::string_view text = response.Header(kWaitedHeader);
  uint32_t milliseconds = 0;
  std::from_chars(text.data(), text.data() + text.size(), milliseconds);
  return std::chrono::milliseconds(milliseconds);
}

}  // namespace

// The credentials as new connections find them.
struct PeerClient::Material {
  Mutex mutex;
  std::optional<PeerCredentials> credentials GUARDED_BY(mutex);

  bool IsThere() {
    MutexLock lock(mutex);
    return credentials.has_value();
  }
  Result<std::string> Read(std::string PeerCredentials::*field) {
    MutexLock lock(mutex);
    if (!credentials) return UnavailableError("no credentials for peers");
    return (*credentials).*field;
  }
};

struct PeerClient::Peer {
  std::string address;
  std::unique_ptr<net::HttpTransport> transport;
  PeerHealth health;  // guarded by the client's mutex
};

PeerClient::PeerClient(PeerClientOptions options, const Clock& clock)
    : options_(std::move(options)), clock_(clock), material_(std::make_shared<Material>()) {}

PeerClient::~PeerClient() = default;

void PeerClient::SetCredentials(std::optional<PeerCredentials> credentials) {
  MutexLock lock(material_->mutex);
  material_->credentials = std::move(credentials);
}

Status PeerClient::SetPeers(const std::string& own, const std::vector<std::string>& addresses) {
  std::vector<std::shared_ptr<Peer>> known, peers;
  {
    MutexLock lock(mutex_);
    known = peers_;
  }
  for (const std::string& address : addresses) {
    if (address == own) continue;
    const auto is_it = [&address](const std::shared_ptr<Peer>& peer) { return peer->address == address; };
    if (std::any_of(peers.begin(), peers.end(), is_it)) continue;
    if (const auto same = std::find_if(known.begin(), known.end(), is_it); same != known.end()) {
      peers.push_back(*same);
      continue;
    }
    net::HttpClientOptions options;
    options.base_url = "https://" + address;
    options.connect_timeout = options_.connect_limit;
    options.retry.max_attempts = 1;
    options.user_agent = "paceline-snapshotter";
    options.tls.server_name = options_.server_name;
    options.tls.ca = [material = material_] { return material->Read(&PeerCredentials::ca); };
    options.tls.client_certificate = [material = material_] { return material->Read(&PeerCredentials::certificate); };
    options.tls.client_key = [material = material_] { return material->Read(&PeerCredentials::key); };
    auto peer = std::make_shared<Peer>();
    peer->address = address;
    ASSIGN_OR_RETURN(peer->transport, net::NewHttpClient(std::move(options), clock_).Annotate("peer " + address));
    peers.push_back(std::move(peer));
  }
  MutexLock lock(mutex_);
  own_ = own;
  addresses_.clear();
  for (const auto& peer : peers) addresses_.push_back(peer->address);
  peers_ = std::move(peers);
  told_at_ = clock_.Now();
  return Status();
}

bool PeerClient::HasPeers(TimePoint now) const { return !peers_.empty() && now - told_at_ < options_.list_life; }

size_t PeerClient::peer_count() const {
  MutexLock lock(mutex_);
  return HasPeers(clock_.Now()) ? peers_.size() : 0;
}

size_t PeerClient::bad_count() const {
  const TimePoint now = clock_.Now();
  MutexLock lock(mutex_);
  if (!HasPeers(now)) return 0;
  return static_cast<size_t>(
      std::count_if(peers_.begin(), peers_.end(), [now](const auto& peer) { return peer->health.is_bad(now); }));
}

PeerClient::Chosen PeerClient::Choose(const Digest& layer, const AskPart& part) {
  const TimePoint now = clock_.Now();
  MutexLock lock(mutex_);
  if (!HasPeers(now)) return {};
  std::vector<bool> is_usable;
  for (const auto& peer : peers_) is_usable.push_back(!peer->health.is_bad(now) && !peer->health.Lacks(layer, now));
  const std::optional<Candidate> choice = ChoosePeer(addresses_, is_usable, own_, part.blob, part.stretch);
  if (!choice) return {};
  const std::shared_ptr<Peer>& peer = peers_[choice->member];
  const bool is_slow = IsSlowerThanOrigin(peer->health.cost, origin_, options_.slack, now);
  if (is_slow && !peer->health.IsTrialOfSlow()) return {nullptr, false, true};
  if (!peer->health.MayAsk(now, options_.ask_limit)) return {};
  return {peer, choice->is_owner, false};
}

PeerClient::Outcome PeerClient::Ask(net::HttpTransport& peer, const ChunkAsk& ask, const PeerWant& want,
                                    const AskPart& part, const Take& take, Deadline deadline) {
  std::vector<uint64_t> content_bytes;
  for (const uint32_t chunk : ask.chunks) content_bytes.push_back(want.index.chunk(chunk).content_bytes());
  const size_t max_bytes = part.content_bytes + 4 * ask.chunks.size();
  net::HttpRequest request;
  request.target = FormatAsk(ask);
  std::string body;
  const auto collect = [&](std::string_view piece) -> Status {
    if (body.size() + piece.size() > max_bytes) return DataLossError("a peer gave more than was asked for");
    body += piece;
    return Status();
  };
  const Result<net::HttpResponse> response = peer.Stream(request, collect, options_.ask_limit, deadline, {});
  Outcome outcome;
  if (!response.ok() || response->status != 200) {
    outcome.result = response.ok() ? ResultOf(response->status) : ResultOf(response.status());
    outcome.lacks_layer = outcome.result == PeerResult::kAbsent;
    return outcome;
  }
  outcome.waited = WaitedOf(*response);
  Result<std::vector<std::string>> contents = ParseAnswer(body, content_bytes);
  if (!contents.ok()) {
    outcome.result = PeerResult::kMalformed;
    return outcome;
  }
  bool is_lying = false;
  for (size_t i = 0; i < contents->size(); ++i) {
    if ((*contents)[i].empty()) continue;
    if (take(part.places[i], std::move((*contents)[i]))) {
      outcome.given_bytes += content_bytes[i];
    } else {
      is_lying = true;
    }
  }
  outcome.result = outcome.given_bytes > 0 ? PeerResult::kGiven : PeerResult::kAbsent;
  if (is_lying) outcome.result = PeerResult::kDamaged;
  return outcome;
}

void PeerClient::Note(Peer& peer, const Outcome& outcome, const Digest& layer, Duration elapsed) {
  const TimePoint now = clock_.Now();
  {
    MutexLock lock(mutex_);
    peer.health.Note(outcome.result, now);
    if (outcome.lacks_layer) peer.health.NoteLack(layer, now);
    if (outcome.given_bytes > 0) {
      peer.health.cost.Note(outcome.given_bytes, OwnShareOf(elapsed, outcome.waited), now);
    }
  }
  if (options_.on_result) options_.on_result(outcome.result);
}

void PeerClient::Fetch(const PeerWant& want, const Take& take, Deadline deadline) {
  {
    MutexLock lock(mutex_);
    if (!HasPeers(clock_.Now())) return;
  }
  if (!material_->IsThere()) return;
  for (const AskPart& part : CutForOwners(want.index, want.chunks)) {
    // One that says that it does not have the layer at all has cost a round trip, and the next one may have it.
    for (int tries = 0; tries < kTriesForALayer && AskOwner(want, part, take, deadline); ++tries) {
    }
  }
}

bool PeerClient::AskOwner(const PeerWant& want, const AskPart& part, const Take& take, Deadline deadline) {
  const Chosen chosen = Choose(want.layer, part);
  if (chosen.is_skipped && options_.on_skipped) options_.on_skipped();
  if (chosen.peer == nullptr) return false;
  ChunkAsk ask{want.layer, {}, chosen.is_owner, want.priority == FetchPriority::kDemand};
  for (const size_t place : part.places) ask.chunks.push_back(want.chunks[place]);
  const TimePoint began = clock_.Now();
  const Outcome outcome =
      Ask(*chosen.peer->transport, ask, want, part, take, deadline.Min(Deadline::After(clock_, options_.ask_limit)));
  Note(*chosen.peer, outcome, want.layer, clock_.Now() - began);
  return outcome.lacks_layer;
}

void PeerClient::NoteOrigin(uint64_t content_bytes, Duration elapsed) {
  MutexLock lock(mutex_);
  origin_.Note(content_bytes, elapsed, clock_.Now());
}

}  // namespace paceline::blocks
