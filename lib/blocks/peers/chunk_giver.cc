#include "lib/blocks/peers/chunk_giver.h"

#include <algorithm>

#include "lib/blocks/peers/peer_wire.h"

namespace paceline::blocks {
namespace {

net::ServerResponse Refusal(int status, const std::string& why) {
  net::ServerResponse response;
  response.status = status;
  response.body = why + "\n";
  return response;
}

}  // namespace

bool ByteBudget::IsOpen(TimePoint now) {
  if (filled_at_) left_ = std::min(rate_, left_ + rate_ * ToSeconds(now - *filled_at_));
  filled_at_ = now;
  return left_ > 0;
}

std::string_view GiveResultText(GiveResult result) {
  switch (result) {
    case GiveResult::kGiven: return "given";
    case GiveResult::kAbsent: return "absent";
    case GiveResult::kBusy: return "busy";
    case GiveResult::kRefused: return "refused";
  }
  return "";
}

ChunkGiver::ChunkGiver(Options options, ChunkEngine& engine, const Clock& clock)
    : options_(std::move(options)), engine_(engine), clock_(clock), budget_(options_.limits.bytes_per_second) {}

bool ChunkGiver::HasRoom(bool is_demand, int under_way) {
  const int most = is_demand ? options_.limits.requests : std::max(options_.limits.requests / 2, 1);
  if (under_way > most) return false;
  const TimePoint now = clock_.Now();
  MutexLock lock(mutex_);
  return budget_.IsOpen(now);
}

net::ServerResponse ChunkGiver::Handle(const net::ServerRequest& request, Deadline deadline) {
  uint64_t given_bytes = 0;
  net::ServerResponse response = Answer(request, deadline, &given_bytes);
  --under_way_;
  GiveResult result = given_bytes > 0 ? GiveResult::kGiven : GiveResult::kAbsent;
  if (response.status == 503) result = GiveResult::kBusy;
  if (response.status == 400 || response.status == 403) result = GiveResult::kRefused;
  if (options_.on_result) options_.on_result(result, given_bytes);
  return response;
}

net::ServerResponse ChunkGiver::Answer(const net::ServerRequest& request, Deadline deadline, uint64_t* given_bytes) {
  const int under_way = ++under_way_;  // Handle takes it back
  if (request.client_certificate_cn != options_.client_name) return Refusal(403, "not the certificate of a peer");
  const Result<ChunkAsk> ask = ParseAsk(request.path, request.query);
  if (!ask.ok()) return Refusal(400, ask.status().message());
  if (!HasRoom(ask->is_demand, under_way)) return Refusal(503, "busy: ask the origin");

  const Result<ChunkEngine::Given> given =
      engine_.Give(ask->layer, ask->chunks,
                   {.may_fetch = ask->may_fetch,
                    .max_bytes = kMaxContentPerAsk,
                    .origin_deadline = deadline.Min(Deadline::After(clock_, options_.limits.origin_wait))});
  if (!given.ok()) {
    return Refusal(given.status().code() == StatusCode::kNotFound ? 404 : 400, given.status().message());
  }
  for (const ChunkEngine::Content& content : given->contents) *given_bytes += content == nullptr ? 0 : content->size();
  {
    MutexLock lock(mutex_);
    budget_.Spend(*given_bytes);
  }
  net::ServerResponse response;
  response.content_type = "application/octet-stream";
  response.headers[kWaitedHeader] =
      std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(given->waited).count());
  response.body = FormatAnswer(given->contents);
  return response;
}

}  // namespace paceline::blocks
