#include "agent/images/peer_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "lib/base/json.h"

namespace paceline::agent {
namespace {

constexpr int kMaxAnswerDepth = 8;
constexpr int64_t kMaxPort = 65535;

}  // namespace

SharingStatus ParseSharing(std::string_view status) {
  SharingStatus sharing;
  const Result<Json> json = ParseJson(status, kMaxAnswerDepth);
  const Json* peers = json.ok() ? FindJson(*json, "peers") : nullptr;
  if (peers == nullptr || !peers->is_object()) return sharing;
  sharing.is_configured = true;
  sharing.peers = JsonIntOr(*peers, "count", 0).value_or(0);
  const int64_t port = JsonIntOr(*peers, "port", 0).value_or(0);
  if (port > 0 && port <= kMaxPort) sharing.port = static_cast<int>(port);
  return sharing;
}

std::string JoinHostPort(const std::string& host, int port) {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return is_ipv6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

void PeerLink::See(std::string_view status) {
  const SharingStatus sharing = ParseSharing(status);
  const bool is_offered = sharing.port != 0 && !options_.host.empty();
  const std::string own = is_offered ? JoinHostPort(options_.host, sharing.port) : std::string();
  bool is_new = false;
  {
    MutexLock lock(mutex_);
    is_new = address_ != own;
    address_ = own;
  }
  if (is_new && options_.on_news) options_.on_news();
  // A node that gives nothing is given nothing: its plan has no peers then.
  if (!own.empty()) Tell(sharing, own);
}

void PeerLink::Tell(const SharingStatus& sharing, const std::string& own) {
  std::optional<std::vector<std::string>> peers = options_.peers();
  if (!peers) return;
  std::erase(*peers, own);
  const bool is_known = told_at_ && told_ == *peers && sharing.peers == static_cast<int64_t>(peers->size());
  if (is_known && clock_.Now() - *told_at_ < options_.repeat) return;
  if (peers->empty() && sharing.peers == 0) return;
  const std::string line = "peers " + DumpJson({{"own", own}, {"peers", *peers}});
  const Result<std::string> answer = options_.ask(line, Deadline::After(clock_, options_.ask_limit));
  Status status = answer.status();
  if (answer.ok()) {
    const Result<Json> json = ParseJson(*answer, kMaxAnswerDepth);
    const std::string refusal = json.ok() ? JsonStringOr(*json, "error", "").value_or("") : "no JSON";
    if (!refusal.empty()) status = InvalidArgumentError(refusal);
  }
  if (!status.ok() && !std::exchange(has_failed_, true)) {
    log_.Warn("snapshotter not told its peers, retrying", {{"error", status}});
  }
  if (!status.ok()) return;
  has_failed_ = false;
  told_ = *std::move(peers);
  told_at_ = clock_.Now();
}

std::string PeerLink::address() const {
  MutexLock lock(mutex_);
  return address_;
}

}  // namespace paceline::agent
