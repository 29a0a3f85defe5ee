#include "analysis/pace.h"

#include <algorithm>

namespace paceline::analysis {

namespace {

int64_t WindowOf(WallTime time) { return time.time_since_epoch() / kPaceWindow; }

WallTime StartOf(int64_t window) { return WallTime(kPaceWindow * window); }

}  // namespace

void PaceMeter::Add(uint64_t comm, bool is_collective, WallTime start, WallTime end) {
  if (end < start) return;
  const auto found = comms_.find(comm);
  if (found != comms_.end() || comms_.size() < options_.kept_comms) {
    PaceComm& seen = comms_[comm];
    seen.id = comm;
    (is_collective ? seen.has_collectives : seen.has_p2p) = true;
  }
  first_ = first_ ? std::min(*first_, start) : start;
  if (waiting_.size() >= options_.max_operations) {
    has_overflowed_ = true;
    return;
  }
  waiting_.push_back({start, end, is_collective});
}

void PaceMeter::Count(const Span& span, PaceWindow& window) {
  const WallTime begin = std::max(span.start, *last_end_);
  window.operations += 1;
  // Sends and receives of one group overlap by nature.
  window.ahead += span.is_collective && span.start < *last_end_ ? 1 : 0;
  window.own += begin - *last_end_;
  if (span.end > begin) window.inside += span.end - begin;
  last_end_ = std::max(*last_end_, span.end);
}

void PaceMeter::Close(WallTime now) {
  const int64_t open = WindowOf(now - options_.grace);  // the first window that is not over
  if (open == open_) return;
  open_ = open;
  const auto is_over = [&](const Span& span) { return WindowOf(span.end) < open; };
  const auto rest = std::partition(waiting_.begin(), waiting_.end(), is_over);
  std::vector<Span> over(waiting_.begin(), rest);
  waiting_.erase(waiting_.begin(), rest);
  if (over.empty()) return;
  std::sort(over.begin(), over.end(), [](const Span& a, const Span& b) { return a.end < b.end; });
  std::map<int64_t, PaceWindow> counted;
  for (const Span& span : over) {
    if (last_end_) {
      PaceWindow& window = counted[WindowOf(span.end)];
      Count(span, window);
    } else {
      last_end_ = span.end;  // what came before the first is not known
    }
  }
  for (auto& [number, window] : counted) {
    const bool is_warm_up = StartOf(number) < *first_ + options_.warm_up;
    // One that was told before and gets a late operation now: dropped, its numbers would be of a part.
    const bool is_late =
        !windows_.empty() && windows_.back().start >= StartOf(number).time_since_epoch() / std::chrono::seconds(1);
    if (is_warm_up || is_late || has_overflowed_) continue;
    window.start = StartOf(number).time_since_epoch() / std::chrono::seconds(1);
    windows_.push_back(window);
  }
  has_overflowed_ = false;
  while (windows_.size() > options_.kept_windows) windows_.pop_front();
}

std::vector<PaceWindow> PaceMeter::Windows(WallTime since) const {
  std::vector<PaceWindow> windows;
  for (const PaceWindow& window : windows_) {
    if (WallTime(std::chrono::seconds(window.start)) >= since) windows.push_back(window);
  }
  return windows;
}

}  // namespace paceline::analysis
