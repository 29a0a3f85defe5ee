#include "agent/images/image_watch.h"

#include <algorithm>
#include <utility>

#include "agent/images/image_status.h"
#include "lib/base/local_socket.h"

namespace paceline::agent {
namespace {

constexpr size_t kMaxAnswerBytes = 4 << 20;

// All but the figures.
bool IsSameState(const api::ImageReport& a, const api::ImageReport& b) {
  return a.image == b.image && a.manifest == b.manifest && a.mode == b.mode && a.reason == b.reason &&
         a.message == b.message && a.asked_at == b.asked_at && a.ready_at == b.ready_at && a.store == b.store &&
         a.hot_set == b.hot_set && a.hot_set_digest == b.hot_set_digest;
}

bool IsSameFigures(const api::ImageReport& a, const api::ImageReport& b) { return a.figures == b.figures; }

}  // namespace

Result<std::string> AskSnapshotter(const std::string& socket, std::string_view line, const Clock& clock,
                                   Deadline deadline) {
  return AskLocal(socket, line, kMaxAnswerBytes, clock, deadline);
}

void ImageWatch::Run(std::stop_token stop) {
  do {
    if (Look() && options_.on_news) options_.on_news();
  } while (clock_.SleepFor(options_.period, stop));
}

bool ImageWatch::IsDue(const std::vector<api::ImageReport>& now) const {
  if (!std::equal(now.begin(), now.end(), reports_.begin(), reports_.end(), IsSameState)) return true;
  if (std::equal(now.begin(), now.end(), reports_.begin(), reports_.end(), IsSameFigures)) return false;
  const WallTime wall = clock_.WallNow();
  const bool has_young = std::any_of(now.begin(), now.end(), [&](const api::ImageReport& report) {
    return report.figures && report.asked_at && wall - report.ready_at.value_or(*report.asked_at) < options_.young;
  });
  return clock_.Now() - told_at_ >= (has_young ? options_.young_period : options_.settled_period);
}

bool ImageWatch::Look() {
  Result<std::string> answer = options_.ask(Deadline::After(clock_, options_.ask_limit));
  Result<std::vector<api::ImageReport>> reports = std::vector<api::ImageReport>();
  if (answer.ok()) reports = ParseImageStatus(*answer);
  if (answer.ok() && options_.on_answer) options_.on_answer(*answer);
  // What a plugin that is away has said stays true of the images.
  const Status failure = answer.ok() ? reports.status() : answer.status();
  const bool is_odd = !failure.ok() && failure.code() != StatusCode::kUnavailable;
  if (is_odd && !std::exchange(has_failed_, true)) {
    log_.Warn("images of the snapshotter not known, retrying", {{"error", failure}});
  }
  if (!failure.ok()) return false;
  has_failed_ = false;
  MutexLock lock(mutex_);
  if (!IsDue(*reports)) return false;
  reports_ = *std::move(reports);
  told_at_ = clock_.Now();
  return true;
}

std::vector<api::ImageReport> ImageWatch::Reports() const {
  MutexLock lock(mutex_);
  return reports_;
}

}  // namespace paceline::agent
