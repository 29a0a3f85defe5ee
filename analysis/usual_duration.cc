#include "analysis/usual_duration.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace paceline::analysis {

namespace {

constexpr double kFirstNs = 1000;
constexpr double kPerOctave = 4;
constexpr uint64_t kAgeAt = 100'000;
constexpr uint64_t kLeastInWindow = 5;

}  // namespace

int SizeClass(uint64_t bytes) { return bytes == 0 ? 0 : std::bit_width(bytes) - 1; }

uint64_t DatatypeBytes(const std::string& datatype) {
  if (datatype.find("64") != std::string::npos) return 8;
  if (datatype.find("32") != std::string::npos) return 4;
  if (datatype.find("16") != std::string::npos) return 2;
  return 1;
}

void DurationCounts::Add(Duration duration) {
  const double ns = std::max(static_cast<double>(duration.count()), kFirstNs);
  const int bucket = static_cast<int>(std::log2(ns / kFirstNs) * kPerOctave);
  counts_[static_cast<size_t>(std::clamp(bucket, 0, kBuckets - 1))]++;
  count_++;
  if (count_ >= kAgeAt) Age();
}

void DurationCounts::Merge(const DurationCounts& other) {
  for (size_t i = 0; i < counts_.size(); i++) counts_[i] += other.counts_[i];
  count_ += other.count_;
  if (count_ >= kAgeAt) Age();
}

void DurationCounts::Age() {
  count_ = 0;
  for (uint32_t& count : counts_) {
    count /= 2;
    count_ += count;
  }
}

std::optional<Duration> DurationCounts::Percentile(double share) const {
  if (count_ == 0) return std::nullopt;
  const double wanted = std::clamp(share, 0.0, 1.0) * static_cast<double>(count_);
  uint64_t below = 0;
  for (int i = 0; i < kBuckets; i++) {
    below += counts_[static_cast<size_t>(i)];
    // The middle of the bucket.
    if (static_cast<double>(below) >= wanted && below > 0) {
      return Duration(std::llround(kFirstNs * std::exp2((i + 0.5) / kPerOctave)));
    }
  }
  return std::nullopt;
}

DurationCounts* UsualDurations::Find(const OperationKey& key) {
  const auto found = counts_.find(key);
  if (found != counts_.end()) return &found->second;
  return counts_.size() < max_keys_ ? &counts_.try_emplace(key).first->second : nullptr;
}

void UsualDurations::Add(const OperationKey& key, Duration duration) {
  if (DurationCounts* counts = Find(key)) counts->Add(duration);
}

void UsualDurations::Merge(const OperationKey& key, const DurationCounts& more) {
  if (DurationCounts* counts = Find(key)) counts->Merge(more);
}

std::optional<Duration> UsualDurations::Median(const OperationKey& key, uint64_t least) const {
  const auto found = counts_.find(key);
  if (found == counts_.end() || found->second.count() < least) return std::nullopt;
  return found->second.Percentile(0.5);
}

std::optional<Duration> UsualDurations::Percentile(const OperationKey& key, double share) const {
  const auto found = counts_.find(key);
  return found == counts_.end() ? std::nullopt : found->second.Percentile(share);
}

bool HasStalled(Duration still, std::optional<Duration> usual, const StallOptions& options) {
  if (still < options.floor) return false;
  if (still >= options.ceiling) return true;
  return usual && static_cast<double>(still.count()) >= options.times_usual * static_cast<double>(usual->count());
}

bool IsSlow(const DurationCounts& window, std::optional<Duration> usual, double factor) {
  const std::optional<Duration> now = window.Percentile(0.5);
  if (!now || !usual || window.count() < kLeastInWindow) return false;
  return static_cast<double>(now->count()) >= factor * static_cast<double>(usual->count());
}

}  // namespace paceline::analysis
