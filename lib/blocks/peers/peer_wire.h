// Requests for chunks between nodes, and their answers: docs/formats/peer-chunks.md has the bytes. Pure functions; what
// comes from the other side is checked here in all that can be known without its index.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/blocks/format/digest.h"

namespace paceline::blocks {

inline constexpr size_t kMaxChunksPerAsk = 256;
inline constexpr uint64_t kMaxContentPerAsk = 2 << 20;  // of several; one chunk may be larger
inline constexpr std::string_view kPeerPathPrefix = "/v1/layers/";
inline constexpr const char* kWaitedHeader = "Paceline-Waited";

struct ChunkAsk {
  Digest layer;                  // of its index
  std::vector<uint32_t> chunks;  // ascending
  bool may_fetch = false;        // from the origin, for the asking node
  bool is_demand = false;        // somebody waits
  friend bool operator==(const ChunkAsk&, const ChunkAsk&) = default;
};

// Path and query.
std::string FormatAsk(const ChunkAsk& ask);
// kInvalidArgument for anything that FormatAsk does not write.
Result<ChunkAsk> ParseAsk(std::string_view path, std::string_view query);

// Null and empty contents are such that are not there.
std::string FormatAnswer(const std::vector<std::shared_ptr<const std::string>>& contents);
// The contents in `answer`, at the places of `content_bytes`; empty ones are not there. kDataLoss when a length is
// neither 0 nor what is expected, or when something is missing or left over.
Result<std::vector<std::string>> ParseAnswer(std::string_view answer, const std::vector<uint64_t>& content_bytes);

}  // namespace paceline::blocks
