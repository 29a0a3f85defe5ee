#include "analysis/slow_link.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/lateness.h"
#include "analysis/root_cause.h"

namespace paceline::analysis {
namespace {

// A link that stands out, and by how much.
struct Found {
  uint64_t comm = 0;
  int32_t from = 0, to = 0;
  double times = 0;   // worse than the other links
  std::string cause;  // after the names of the ranks
  std::vector<Evidence> evidence;
};

double MedianOf(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::optional<Found> WorstRate(const Tables& tables, const SlowLinkOptions& options) {
  std::map<uint64_t, std::vector<LinkRate>> links;
  for (const LinkView& link : tables.links) {
    if (link.operations < options.least_operations || link.bytes_per_second <= 0) continue;
    links[link.comm].push_back({link.from, link.to, link.operations, link.bytes, link.bytes_per_second});
  }
  std::optional<Found> worst;
  for (const auto& [comm, rates] : links) {
    const std::optional<LinkRate> slow = FindSlowLink(rates, options.share);
    if (!slow) continue;
    std::vector<double> all;
    for (const LinkRate& rate : rates) all.push_back(rate.bytes_per_second);
    const double usual = MedianOf(std::move(all)), times = usual / slow->bytes_per_second;
    if (worst && worst->times >= times) continue;
    worst = Found{comm,
                  slow->from,
                  slow->to,
                  times,
                  fmt::format("carries {:.2g} of what the other links carry", 1 / times),
                  {{"rate", slow->bytes_per_second, "B/s", usual},
                   {"operations", static_cast<double>(slow->operations), "", std::nullopt}}};
  }
  return worst;
}

std::optional<Found> WorstGap(const LinkGaps& links, const SlowLinkOptions& options) {
  std::optional<Found> worst;
  for (auto& [comm, gaps] : links.gaps()) {
    std::vector<double> others;
    const LinkGaps::Gap* most = nullptr;
    for (const LinkGaps::Gap& gap : gaps) {
      if (gap.looks < options.least_looks) continue;
      others.push_back(gap.steps);
      if (most == nullptr || gap.steps > most->steps) most = &gap;
    }
    if (others.size() < 3) continue;
    others.erase(std::find(others.begin(), others.end(), most->steps));
    const double usual = MedianOf(std::move(others));
    if (most->steps < options.least_gap || most->steps < options.times_gap * usual) continue;
    // Where the others have none at all, a tenth of a step says enough.
    const double times = most->steps / std::max(usual, 0.1);
    if (worst && worst->times >= times) continue;
    worst = Found{
        comm,
        most->from,
        most->to,
        times,
        fmt::format("holds {:.1f} steps at a time that were sent and have not arrived", most->steps),
        {{"steps under way", most->steps, "", usual}, {"looks", static_cast<double>(most->looks), "", std::nullopt}}};
  }
  return worst;
}

// The rank of a communicator as the tables know it; world rank -1 when its process is in none.
Culprit RankOf(const Tables& tables, uint64_t comm, int32_t rank, std::string* name) {
  for (const ProcessView& process : tables.processes) {
    for (const CommView& view : process.comms) {
      if (view.id != comm || view.rank != rank) continue;
      if (name->empty()) *name = view.name;
      return {process.world_rank, process.node, process.host};
    }
  }
  return {};
}

// One side of an operation on one channel, as both sides name it.
using StepKey = std::tuple<uint64_t, int32_t, int32_t, int32_t, uint64_t>;  // comm, from, to, channel, call

struct Side {
  StepKey key;
  uint64_t done = 0;
};

void CollectSides(const ProcessView& process, std::vector<Side>& senders, std::map<StepKey, uint64_t>& receivers) {
  for (const ProxyView& proxy : process.proxies) {
    if (proxy.comm < 0 || proxy.call < 0) continue;
    const uint64_t comm = process.comms[static_cast<size_t>(proxy.comm)].id;
    const uint64_t call = process.calls[static_cast<size_t>(proxy.call)].sequence;
    if (proxy.is_send) {
      senders.push_back({{comm, proxy.rank, proxy.peer, proxy.channel, call}, proxy.done});
    } else {
      receivers[{comm, proxy.peer, proxy.rank, proxy.channel, call}] = proxy.done;
    }
  }
}

}  // namespace

void LinkGaps::Add(const Tables& tables) {
  std::vector<Side> senders;
  std::map<StepKey, uint64_t> receivers;
  for (const ProcessView& process : tables.processes) CollectSides(process, senders, receivers);
  std::map<std::tuple<uint64_t, int32_t, int32_t>, Sum> now;
  for (const Side& sender : senders) {
    const auto receiver = receivers.find(sender.key);
    if (receiver == receivers.end()) continue;
    Sum& sum = now[{std::get<0>(sender.key), std::get<1>(sender.key), std::get<2>(sender.key)}];
    sum.looks++;  // channels, here
    if (sender.done > receiver->second) sum.steps += static_cast<double>(sender.done - receiver->second);
  }
  for (const auto& [link, sum] : now) {
    sums_[link].looks++;
    sums_[link].steps += sum.steps / sum.looks;
  }
}

std::map<uint64_t, std::vector<LinkGaps::Gap>> LinkGaps::gaps() const {
  std::map<uint64_t, std::vector<Gap>> all;
  for (const auto& [link, sum] : sums_) {
    const auto& [comm, from, to] = link;
    all[comm].push_back({from, to, sum.looks, sum.steps / sum.looks});
  }
  return all;
}

std::optional<Verdict> FindSlowLinks(const Tables& tables, const LinkGaps& gaps, const SlowLinkOptions& options) {
  std::optional<Found> worst = WorstRate(tables, options);
  if (!worst) worst = WorstGap(gaps, options);
  if (!worst) return std::nullopt;
  Verdict verdict;
  verdict.category = Category::kNetwork;
  const Culprit from = RankOf(tables, worst->comm, worst->from, &verdict.communicator);
  const Culprit to = RankOf(tables, worst->comm, worst->to, &verdict.communicator);
  for (const Culprit& end : {from, to}) {
    if (end.world_rank >= 0) verdict.culprits.push_back(end);
  }
  verdict.edge = VerdictEdge{from.world_rank, to.world_rank, -1};
  verdict.cause = fmt::format("the network from rank {} to rank {} {}", from.world_rank, to.world_rank, worst->cause);
  // Twice as slow may be another job's traffic; ten times is a fault.
  constexpr double kLeast = 0.6, kMost = 0.95, kCertain = 10;
  verdict.confidence = kLeast + (kMost - kLeast) * std::min(worst->times, kCertain) / kCertain;
  verdict.evidence = std::move(worst->evidence);
  for (const std::string& missing : tables.missing) verdict.not_visible.push_back("links of " + missing);
  return verdict;
}

Verdict DiagnoseSlowdown(const Tables& tables, const LinkGaps& gaps) {
  Verdict verdict = Diagnose(tables);
  if (verdict.category != Category::kNone) return verdict;
  return FindSlowLinks(tables, gaps).value_or(std::move(verdict));
}

}  // namespace paceline::analysis
