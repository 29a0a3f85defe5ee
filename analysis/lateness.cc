#include "analysis/lateness.h"

#include <algorithm>

namespace paceline::analysis {

namespace {

template <typename T>
T MedianOf(std::vector<T> values) {
  if (values.empty()) return T{};
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::vector<RankLateness> LatenessOf(uint64_t comm, std::span<const Arrival> arrivals) {
  std::map<uint64_t, std::vector<const Arrival*>> operations;
  for (const Arrival& arrival : arrivals) {
    if (arrival.comm == comm) operations[arrival.index].push_back(&arrival);
  }
  std::map<int32_t, RankLateness> ranks;
  std::map<int32_t, std::vector<Duration>> behind;
  for (const auto& [index, present] : operations) {
    if (present.size() < 2) continue;
    const auto [first, last] =
        std::minmax_element(present.begin(), present.end(), [](const auto* a, const auto* b) { return a->at < b->at; });
    for (const Arrival* arrival : present) {
      RankLateness& rank = ranks[arrival->rank];
      rank.rank = arrival->rank;
      rank.operations++;
      rank.times_last += arrival == *last ? 1 : 0;
      behind[arrival->rank].push_back(arrival->at - (*first)->at);
    }
  }
  std::vector<RankLateness> result;
  for (auto& [number, rank] : ranks) {
    rank.median = MedianOf(std::move(behind[number]));
    result.push_back(rank);
  }
  return result;
}

std::optional<RankLateness> FindLateRank(std::span<const RankLateness> ranks, const LatenessOptions& options) {
  const RankLateness* latest = nullptr;
  for (const RankLateness& rank : ranks) {
    if (latest == nullptr || rank.median > latest->median) latest = &rank;
  }
  if (latest == nullptr || latest->operations < options.least_operations || latest->median < options.least) {
    return std::nullopt;
  }
  std::vector<Duration> others;
  for (const RankLateness& rank : ranks) {
    if (&rank != latest) others.push_back(rank.median);
  }
  const double usual = static_cast<double>(MedianOf(std::move(others)).count());
  const double last = static_cast<double>(latest->times_last) / static_cast<double>(latest->operations);
  const bool stands_out = static_cast<double>(latest->median.count()) >= options.times_others * usual;
  if (last < options.share_last || !stands_out) return std::nullopt;
  return *latest;
}

std::vector<LinkRate> RatesOf(uint64_t comm, std::span<const LinkUse> uses) {
  struct Sum {
    LinkRate rate;
    Duration network{};
  };
  std::map<std::pair<int32_t, int32_t>, Sum> links;
  for (const LinkUse& use : uses) {
    if (use.comm != comm || use.bytes == 0) continue;
    Sum& sum = links[{use.from, use.to}];
    sum.rate.from = use.from;
    sum.rate.to = use.to;
    sum.rate.operations++;
    sum.rate.bytes += use.bytes;
    sum.network += use.network;
  }
  std::vector<LinkRate> rates;
  for (auto& [ends, sum] : links) {
    if (sum.network <= Duration::zero()) continue;
    sum.rate.bytes_per_second = static_cast<double>(sum.rate.bytes) / ToSeconds(sum.network);
    rates.push_back(sum.rate);
  }
  return rates;
}

std::optional<LinkRate> FindSlowLink(std::span<const LinkRate> rates, double share) {
  if (rates.size() < 3) return std::nullopt;
  std::vector<double> all;
  const LinkRate* slowest = &rates[0];
  for (const LinkRate& rate : rates) {
    all.push_back(rate.bytes_per_second);
    if (rate.bytes_per_second < slowest->bytes_per_second) slowest = &rate;
  }
  if (slowest->bytes_per_second >= share * MedianOf(std::move(all))) return std::nullopt;
  return *slowest;
}

}  // namespace paceline::analysis
