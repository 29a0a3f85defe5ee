#include "lib/hdfs/stripe_manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "lib/hdfs/checksum.h"
#include "lib/hdfs/posix_error.h"

namespace paceline::hdfs {
namespace {

constexpr std::string_view kHead =
    "paceline-striped 1\n"
    "This file's bytes lie in the hidden folder(s) named below, dealt round-robin by Paceline.\n"
    "Read it through paceline-hdfs-mount or with \"pacectl fs get\"; other tools see this text only.\n"
    "Do not move or delete the folders: they belong to this file.\n";
constexpr std::string_view kSet = "set ", kEnd = "end ";

uint32_t CrcOf(std::string_view text) { return Crc(ChecksumType::kCrc32c, text); }

// Takes a number and the blank behind it from the front of `*line`.
template <typename Number>
bool TakeNumber(std::string_view* line, Number* out) {
  const auto [end, error] = std::from_chars(line->data(), line->data() + line->size(), *out);
  const size_t used = static_cast<size_t>(end - line->data());
  if (error != std::errc() || used >= line->size() || (*line)[used] != ' ') return false;
  line->remove_prefix(used + 1);
  return true;
}

std::optional<StripeSet> ParseSet(std::string_view line) {
  StripeSet set;
  if (!TakeNumber(&line, &set.files) || !TakeNumber(&line, &set.unit_bytes) || !TakeNumber(&line, &set.length_bytes)) {
    return std::nullopt;
  }
  const bool is_sane = set.files >= 1 && set.files <= kMaxStripeFiles && set.unit_bytes >= kMinStripeUnit &&
                       set.unit_bytes <= kMaxStripeUnit && set.length_bytes <= INT64_MAX / kMaxStripeSets;
  if (!is_sane || line.empty() || line == "." || line == ".." || line.find('/') != std::string_view::npos) {
    return std::nullopt;
  }
  set.folder = line;
  return set;
}

}  // namespace

uint64_t StripeManifest::length_bytes() const {
  uint64_t total = 0;
  for (const StripeSet& set : sets) total += set.length_bytes;
  return total;
}

std::vector<StripeSet> StripeManifest::Cut(uint64_t length) {
  std::vector<StripeSet> dropped;
  uint64_t at = 0;
  for (auto it = sets.begin(); it != sets.end();) {
    const uint64_t keep = std::min(it->length_bytes, length - std::min(length, at));
    at += it->length_bytes;
    if (keep == 0) {
      dropped.push_back(*it);
      it = sets.erase(it);
    } else {
      it->length_bytes = keep;
      ++it;
    }
  }
  return dropped;
}

Result<std::string> EncodeManifest(const StripeManifest& manifest) {
  std::string text(kHead);
  for (const StripeSet& set : manifest.sets) {
    text += fmt::format("set {} {} {} {}\n", set.files, set.unit_bytes, set.length_bytes, set.folder);
  }
  text += fmt::format("end {:08x}\n", CrcOf(text));
  if (manifest.sets.size() > kMaxStripeSets || text.size() >= kManifestBytes) {
    return PosixError(EOPNOTSUPP, "a striped file cannot be appended to so often");
  }
  text.resize(kManifestBytes - 1, ' ');
  return text + "\n";
}

std::optional<StripeManifest> ParseManifest(std::string_view text) {
  if (text.size() != kManifestBytes || !text.starts_with(kHead)) return std::nullopt;
  StripeManifest manifest;
  for (size_t at = kHead.size();;) {
    const size_t end = text.find('\n', at);
    if (end == std::string_view::npos) return std::nullopt;
    std::string_view line = text.substr(at, end - at);
    if (line.starts_with(kEnd)) {
      if (line.substr(kEnd.size()) != fmt::format("{:08x}", CrcOf(text.substr(0, at)))) return std::nullopt;
      break;
    }
    if (!line.starts_with(kSet) || manifest.sets.size() == kMaxStripeSets) return std::nullopt;
    std::optional<StripeSet> set = ParseSet(line.substr(kSet.size()));
    if (!set.has_value()) return std::nullopt;
    manifest.sets.push_back(*std::move(set));
    at = end + 1;
  }
  if (manifest.sets.empty()) return std::nullopt;
  return manifest;
}

std::string StripeName(uint32_t stripe) { return fmt::format("s{:04}", stripe); }

std::vector<StripePiece> PlanStripes(const StripeSet& set, ByteRange range) {
  std::vector<StripePiece> pieces;
  const uint64_t end = range.offset + range.length;
  for (uint64_t at = range.offset; at < end;) {
    const uint64_t unit = at / set.unit_bytes, into = at % set.unit_bytes;
    const uint64_t size = std::min(set.unit_bytes - into, end - at);
    pieces.push_back({.stripe = static_cast<uint32_t>(unit % set.files),
                      .in_stripe = {.offset = unit / set.files * set.unit_bytes + into, .length = size},
                      .in_set = at});
    at += size;
  }
  return pieces;
}

std::vector<ByteRange> SpanStripes(const StripeSet& set, ByteRange range) {
  std::vector<ByteRange> spans(set.files);
  if (range.length == 0) return spans;
  // The bytes of a range that a stripe holds follow each other in it, so the first and the last unit tell all.
  const uint64_t first = range.offset / set.unit_bytes, last = (range.offset + range.length - 1) / set.unit_bytes;
  for (uint64_t unit = first; unit <= last && unit < first + set.files; ++unit) {
    const uint64_t final_unit = last - (last - unit) % set.files;
    const auto place = [&](uint64_t number) { return number / set.files * set.unit_bytes; };
    const uint64_t begin = place(unit) + (unit == first ? range.offset % set.unit_bytes : 0);
    const uint64_t end = place(final_unit) +
                         (final_unit == last ? (range.offset + range.length - 1) % set.unit_bytes + 1 : set.unit_bytes);
    spans[unit % set.files] = {begin, end - begin};
  }
  return spans;
}

}  // namespace paceline::hdfs
