#include "operator/names.h"

#include <algorithm>
#include <cstdint>

namespace paceline::operator_ {
namespace {

constexpr size_t kHashChars = 8;
constexpr size_t kSnapshotKeyChars = 16;
constexpr size_t kMaxJobBase = 48;  // 63 less "-g999999" and "-999999"
constexpr size_t kMaxRunBase = 42;  // 63 less "-<8 of hash>" and "-<up to 11 digits>"

bool IsLowerLetter(char c) { return c >= 'a' && c <= 'z'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsServiceName(std::string_view name) {
  if (name.empty() || !IsLowerLetter(name.front()) || name.back() == '-') return false;
  return std::all_of(name.begin(), name.end(), [](char c) { return IsLowerLetter(c) || IsDigit(c) || c == '-'; });
}

// The readable part: letters, digits and single dashes, starting with a letter, not ending in a dash.
std::string Readable(std::string_view name, size_t max_length) {
  std::string out;
  for (char c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (!IsLowerLetter(c) && !IsDigit(c)) c = '-';
    if (out.empty() && !IsLowerLetter(c)) {
      out = "j";
      if (c == '-') continue;
    }
    if (c == '-' && !out.empty() && out.back() == '-') continue;
    out += c;
  }
  if (out.empty()) out = "j";
  out.resize(std::min(out.size(), max_length));
  while (out.size() > 1 && out.back() == '-') out.pop_back();
  return out;
}

}  // namespace

std::string ShortHash(std::string_view text, size_t chars) {
  // FNV-1a and a final mix: no secret is kept here, only names apart.
  uint64_t hash = 14695981039346656037ULL;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 1099511628211ULL;
  }
  hash ^= hash >> 33;
  hash *= 0xff51afd7ed558ccdULL;
  hash ^= hash >> 33;
  // No vowels, as in the names that Kubernetes makes up, so no words appear by accident.
  constexpr std::string_view kAlphabet = "bcdfghjklmnpqrstvwxz0123456789bc";
  std::string out;
  for (size_t i = 0; i < chars; ++i) {
    out += kAlphabet[hash & 31];
    hash >>= 5;
  }
  return out;
}

std::string DnsLabel(std::string_view name, size_t max_length) {
  if (name.size() <= max_length && IsServiceName(name)) return std::string(name);
  return Readable(name, max_length - kHashChars - 1) + "-" + ShortHash(name, kHashChars);
}

std::string ServiceName(std::string_view training_job) { return DnsLabel(training_job, kMaxJobBase); }

std::string JobName(std::string_view training_job, int64_t generation) {
  return DnsLabel(training_job, kMaxJobBase) + "-g" + std::to_string(generation);
}

std::string WorkerHostName(std::string_view job_name, int64_t index) {
  return std::string(job_name) + "-" + std::to_string(index);
}

std::string RunName(std::string_view job, std::string_view job_uid, int64_t generation) {
  return DnsLabel(job, kMaxRunBase) + "-" + ShortHash(job_uid, kHashChars) + "-" + std::to_string(generation);
}

std::string ImageProfileName(std::string_view digest, std::string_view platform) {
  std::string name = std::string(digest) + "." + std::string(platform);
  // ':' and '/' are all that an object's name cannot have of these.
  for (char& c : name) {
    if (c == ':' || c == '/') c = '-';
  }
  return name;
}

std::string ConversionJobName(std::string_view profile) {
  constexpr size_t kDigestStart = 7, kShownChars = 12;  // behind "sha256-"
  return "paceline-convert-" + std::string(profile.substr(std::min(profile.size(), kDigestStart), kShownChars)) + "-" +
         ShortHash(profile, kHashChars);
}

std::string SnapshotName(std::string_view key) { return "deps-" + std::string(key.substr(0, kSnapshotKeyChars)); }

std::string NodePlanName(std::string_view node) { return std::string(node); }

}  // namespace paceline::operator_
