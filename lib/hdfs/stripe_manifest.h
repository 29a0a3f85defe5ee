// The manifest of a striped file, and where its bytes lie: docs/formats/hdfs-striped.md. Pure functions and values;
// used by StripedFileSystem and its readers and writers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/hdfs/file_system.h"
#include "lib/hdfs/open.h"

namespace paceline::hdfs {

inline constexpr uint64_t kManifestBytes = 4093;
inline constexpr size_t kMaxStripeSets = 16;
inline constexpr uint64_t kMinStripeUnit = 64 << 10, kMaxStripeUnit = 64 << 20;

struct StripeSet {
  uint32_t files = 0;
  uint64_t unit_bytes = 0;
  uint64_t length_bytes = 0;  // of the file's bytes in it
  std::string folder;         // beside the manifest
  friend bool operator==(const StripeSet&, const StripeSet&) = default;
};

struct StripeManifest {
  std::vector<StripeSet> sets;
  uint64_t length_bytes() const;
  // Drops what lies behind `length`, which is at most length_bytes(). Returns the sets that are not needed any more.
  std::vector<StripeSet> Cut(uint64_t length);
  friend bool operator==(const StripeManifest&, const StripeManifest&) = default;
};

// kUnimplemented (EOPNOTSUPP) when it does not fit.
Result<std::string> EncodeManifest(const StripeManifest& manifest);
// Nothing when `text` is no manifest.
std::optional<StripeManifest> ParseManifest(std::string_view text);

// "s0003".
std::string StripeName(uint32_t stripe);

// A run of bytes of a set that lies in one piece of one stripe.
struct StripePiece {
  uint32_t stripe = 0;
  ByteRange in_stripe;
  uint64_t in_set = 0;
};
// The pieces of [range.offset, range.offset + range.length) of a set, in the order of its bytes.
std::vector<StripePiece> PlanStripes(const StripeSet& set, ByteRange range);
// For each stripe what it holds of that range, in one piece; empty ranges for stripes with nothing.
std::vector<ByteRange> SpanStripes(const StripeSet& set, ByteRange range);

}  // namespace paceline::hdfs
