#include "analysis/slowdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace paceline::analysis {

namespace {

constexpr double kNormalPerMad = 1.4826;
constexpr double kDisturbed = 0.5;      // of the usual operations of a window
constexpr double kLeastError = 0.005;   // ranks do not end a collective at exactly the same moment
constexpr double kUnknownNoise = 0.05;  // where too few windows tell
constexpr size_t kLeastForNoise = 4;

int64_t SecondsOf(Duration duration) { return duration / std::chrono::seconds(1); }

// Starts of the short windows that count: those in which the run did about as much as usual.
std::set<int64_t> UsualWindows(std::span<const RankPace> ranks, int64_t from, int64_t until) {
  std::map<int64_t, std::pair<double, double>> windows;  // operations and ranks
  for (const RankPace& rank : ranks) {
    for (const PaceWindow& window : rank.windows) {
      if (window.start < from || window.start >= until) continue;
      windows[window.start].first += static_cast<double>(window.operations);
      windows[window.start].second += 1;
    }
  }
  std::vector<double> means;
  for (const auto& [start, sum] : windows) means.push_back(sum.first / sum.second);
  const double usual = LowerMedian(means);
  std::set<int64_t> kept;
  for (const auto& [start, sum] : windows) {
    if (sum.first / sum.second >= kDisturbed * usual) kept.insert(start);
  }
  return kept;
}

struct Sum {
  double own = 0, all = 0;
  uint64_t operations = 0, ahead = 0;
};

Sum SumOf(const RankPace& rank, const std::set<int64_t>& usual, int64_t from, int64_t until) {
  Sum sum;
  for (const PaceWindow& window : rank.windows) {
    if (window.start < from || window.start >= until || usual.count(window.start) == 0) continue;
    sum.own += ToSeconds(window.own);
    sum.all += ToSeconds(window.own + window.inside);
    sum.operations += window.operations;
    sum.ahead += window.ahead;
  }
  return sum;
}

double NoiseOf(const RankPace& rank, const std::set<int64_t>& usual, double per_window) {
  std::vector<double> shares;
  for (const PaceWindow& window : rank.windows) {
    if (usual.count(window.start) != 0) shares.push_back(ToSeconds(window.own) / ToSeconds(window.own + window.inside));
  }
  if (shares.size() < kLeastForNoise) return kUnknownNoise;
  return RobustDeviation(shares) / std::sqrt(std::max(per_window, 1.0));
}

ShareWindow WindowOf(std::span<const RankPace> ranks, const std::set<int64_t>& usual, size_t expected, int64_t from,
                     const SlowdownOptions& options) {
  ShareWindow window;
  window.start = WallTime(std::chrono::seconds(from));
  size_t known = 0;
  uint64_t operations = 0, ahead = 0;
  for (const RankPace& rank : ranks) {
    const Sum sum = SumOf(rank, usual, from, from + SecondsOf(options.window));
    const bool is_known = sum.operations >= options.least_operations && sum.all > 0;
    operations += sum.operations;
    ahead += sum.ahead;
    known += is_known ? 1 : 0;
    window.ranks.push_back(
        is_known ? std::optional(RankShare{sum.own / sum.all, sum.all / static_cast<double>(sum.operations)})
                 : std::nullopt);
  }
  expected = std::max({expected, ranks.size(), size_t{1}});
  window.missing = 1 - static_cast<double>(known) / static_cast<double>(expected);
  if (window.missing > options.maximum_missing) {
    window.why_not = fmt::format("{} of {} ranks have no fresh data", expected - known, expected);
  } else if (static_cast<double>(ahead) > options.maximum_ahead * static_cast<double>(operations)) {
    window.why_not = "launches run ahead of the device: what the host does in between says nothing";
  }
  window.is_known = window.why_not.empty();
  return window;
}

// A rank over all known windows.
struct RankFigure {
  size_t place = 0;
  double share = 0;
  double error = 0;
  double seconds_per_operation = 0;
};

std::vector<RankFigure> FiguresOf(std::span<const RankPace> ranks, const ShareTable& shares) {
  std::vector<RankFigure> figures;
  for (size_t i = 0; i < ranks.size(); i++) {
    std::vector<double> values, lengths;
    for (const ShareWindow& window : shares.windows) {
      if (!window.is_known || !window.ranks[i]) continue;
      values.push_back(window.ranks[i]->share);
      lengths.push_back(window.ranks[i]->seconds_per_operation);
    }
    if (values.empty()) continue;
    const double windows = static_cast<double>(values.size());
    // Of a median: 1.25 times that of a mean. What windows of a while have in common is not noise of the short ones.
    const double spread = values.size() >= kLeastForNoise ? RobustDeviation(values) : 0;
    const double error = 1.25 * std::max(shares.noise[i], spread) / std::sqrt(windows);
    figures.push_back({i, LowerMedian(values), error, LowerMedian(lengths)});
  }
  return figures;
}

}  // namespace

double LowerMedian(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double RobustDeviation(const std::vector<double>& values) {
  const double median = LowerMedian(values);
  std::vector<double> distances;
  for (const double value : values) distances.push_back(std::abs(value - median));
  std::sort(distances.begin(), distances.end());
  // The upper median: of two values it must not be zero.
  return distances.empty() ? 0 : kNormalPerMad * distances[distances.size() / 2];
}

ShareTable SharesOf(std::span<const RankPace> ranks, size_t expected_ranks, WallTime now, WallTime since,
                    const SlowdownOptions& options) {
  ShareTable table;
  const Duration length = std::max(options.window, kPaceWindow);
  SlowdownOptions rounded = options;
  rounded.window = std::chrono::seconds(SecondsOf(length));
  const int64_t next = (now - options.lag).time_since_epoch() / rounded.window;
  const int64_t first = (next - options.windows) * SecondsOf(rounded.window);
  const std::set<int64_t> usual = UsualWindows(ranks, first, next * SecondsOf(rounded.window));
  for (int64_t number = next - options.windows; number < next; number++) {
    const int64_t start = number * SecondsOf(rounded.window);
    ShareWindow& window = table.windows.emplace_back(WindowOf(ranks, usual, expected_ranks, start, rounded));
    if (window.start >= since) continue;
    window.is_known = false;
    window.why_not = "it began before what counts";
  }
  const double per_window = ToSeconds(rounded.window) / ToSeconds(kPaceWindow);
  for (const RankPace& rank : ranks) table.noise.push_back(NoiseOf(rank, usual, per_window));
  return table;
}

Slowdown SlowdownOf(std::span<const RankPace> ranks, const ShareTable& shares, const SlowdownOptions& options) {
  Slowdown result;
  int known = 0;
  for (const ShareWindow& window : shares.windows) {
    known += window.is_known ? 1 : 0;
    if (!window.is_known) result.why_not = window.why_not;
  }
  const int needed = (options.windows + 1) / 2;
  if (known < needed) {
    result.why_not = fmt::format("{} of {} windows are known, {} are needed; the last: {}", known, options.windows,
                                 needed, result.why_not);
    return result;
  }
  const std::vector<RankFigure> figures = FiguresOf(ranks, shares);
  std::vector<double> all, errors;
  const RankFigure* slowest = nullptr;
  for (const RankFigure& figure : figures) {
    all.push_back(figure.share);
    errors.push_back(figure.error);
    if (slowest == nullptr || figure.share > slowest->share) slowest = &figure;
  }
  if (figures.size() < 2) {
    result.why_not = "there is one rank only: nobody waits for it";
    return result;
  }
  result.why_not.clear();
  const double median = LowerMedian(all);
  const double left = 1 - std::min(slowest->share - median, kLargestExcess);
  result.slowdown = 1 / left;
  // The slowest of many equal ranks is slow by chance: sqrt(2 ln n) deviations.
  const auto count = static_cast<double>(figures.size());
  const double deviations = std::max(2.0, std::sqrt(2 * std::log(count)));
  const double of_median = LowerMedian(errors) * 1.25 / std::sqrt(count);
  result.error = std::max(kLeastError, deviations * std::hypot(slowest->error, of_median) / (left * left));
  for (const RankFigure& figure : figures) {
    const double excess = figure.share - median;
    result.workers.push_back({ranks[figure.place].world_rank, ranks[figure.place].node,
                              1 + std::max(excess, 0.0) / left, excess * figure.seconds_per_operation});
  }
  std::sort(result.workers.begin(), result.workers.end(), [](const WorkerSlowdown& a, const WorkerSlowdown& b) {
    return a.slowdown != b.slowdown ? a.slowdown > b.slowdown : a.world_rank < b.world_rank;
  });
  return result;
}

}  // namespace paceline::analysis
