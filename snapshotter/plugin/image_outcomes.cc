#include "snapshotter/plugin/image_outcomes.h"

#include <algorithm>

namespace paceline::snapshotter {

std::string FallBackReason(const Status& why) {
  return why.code() == StatusCode::kNotFound ? "NotConverted" : std::string(StatusCodeName(why.code()));
}

void ImageOutcomes::Put(ImageOutcome outcome) {
  MutexLock lock(mutex_);
  const auto same = std::find_if(outcomes_.begin(), outcomes_.end(), [&](const ImageOutcome& known) {
    return known.name == outcome.name && known.manifest == outcome.manifest;
  });
  if (same != outcomes_.end()) {
    const bool is_one_pull = !same->ready_at && same->converted == outcome.converted;
    if (is_one_pull && outcome.converted) outcome.asked_at = same->asked_at;
    outcomes_.erase(same);
  }
  outcomes_.push_back(std::move(outcome));
  if (outcomes_.size() > kMaxKept) outcomes_.erase(outcomes_.begin());
}

void ImageOutcomes::Opened(const std::string& name, const std::string& manifest, const blocks::Digest& converted,
                           WallTime asked_at) {
  Put({name, manifest, converted, "", "", asked_at, std::nullopt});
}

void ImageOutcomes::Pulled(const std::string& name, const std::string& manifest, const Status& why, WallTime asked_at) {
  Put({name, manifest, std::nullopt, FallBackReason(why), why.message(), asked_at, std::nullopt});
}

void ImageOutcomes::NotMounted(const blocks::Digest& converted, const Status& why) {
  MutexLock lock(mutex_);
  for (ImageOutcome& outcome : outcomes_) {
    if (outcome.converted != converted || outcome.ready_at) continue;
    outcome.converted.reset();
    outcome.reason = FallBackReason(why);
    outcome.message = why.message();
  }
}

void ImageOutcomes::Ready(const blocks::Digest& converted) {
  const WallTime now = clock_.WallNow();
  MutexLock lock(mutex_);
  for (ImageOutcome& outcome : outcomes_) {
    if (outcome.converted == converted && !outcome.ready_at) outcome.ready_at = now;
  }
}

std::vector<ImageOutcome> ImageOutcomes::All() const {
  MutexLock lock(mutex_);
  return outcomes_;
}

}  // namespace paceline::snapshotter
