#include "lib/blocks/peers/peer_wire.h"

#include <fmt/format.h>

#include <charconv>

namespace paceline::blocks {
namespace {

constexpr std::string_view kPathEnd = "/chunks";
constexpr size_t kLengthBytes = 4;

Result<uint32_t> ParseNumber(std::string_view text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) {
    return InvalidArgumentError("not the number of a chunk");
  }
  return number;
}

Status ParseNumbers(std::string_view text, std::vector<uint32_t>* chunks) {
  while (true) {
    const size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    const size_t dash = part.find('-');
    ASSIGN_OR_RETURN(const uint32_t first, ParseNumber(part.substr(0, dash)));
    uint32_t last = first;
    if (dash != std::string_view::npos) {
      ASSIGN_OR_RETURN(last, ParseNumber(part.substr(dash + 1)));
    }
    if (last < first || (!chunks->empty() && first <= chunks->back())) {
      return InvalidArgumentError("the numbers of chunks do not ascend");
    }
    if (uint64_t{last} - first + 1 > kMaxChunksPerAsk - chunks->size()) return InvalidArgumentError("too many chunks");
    for (uint64_t number = first; number <= last; ++number) chunks->push_back(static_cast<uint32_t>(number));
    if (comma == std::string_view::npos) return Status();
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

std::string FormatAsk(const ChunkAsk& ask) {
  std::string text = fmt::format("{}{}{}?n=", kPeerPathPrefix, ask.layer.Hex(), kPathEnd);
  for (size_t i = 0; i < ask.chunks.size();) {
    size_t next = i + 1;
    while (next < ask.chunks.size() && ask.chunks[next] == ask.chunks[next - 1] + 1) ++next;
    if (i > 0) text += ',';
    text += next - i > 1 ? fmt::format("{}-{}", ask.chunks[i], ask.chunks[next - 1]) : std::to_string(ask.chunks[i]);
    i = next;
  }
  if (ask.may_fetch) text += "&fetch";
  if (ask.is_demand) text += "&demand";
  return text;
}

Result<ChunkAsk> ParseAsk(std::string_view path, std::string_view query) {
  if (!path.starts_with(kPeerPathPrefix) || !path.ends_with(kPathEnd) ||
      path.size() < kPeerPathPrefix.size() + kPathEnd.size()) {
    return InvalidArgumentError("not a path of chunks");
  }
  path.remove_prefix(kPeerPathPrefix.size());
  path.remove_suffix(kPathEnd.size());
  ChunkAsk ask;
  ASSIGN_OR_RETURN(ask.layer, ParseDigest("sha256:" + std::string(path)));
  while (!query.empty()) {
    const size_t end = query.find('&');
    const std::string_view part = query.substr(0, end);
    if (part == "fetch") {
      ask.may_fetch = true;
    } else if (part == "demand") {
      ask.is_demand = true;
    } else if (part.starts_with("n=") && ask.chunks.empty()) {
      RETURN_IF_ERROR(ParseNumbers(part.substr(2), &ask.chunks));
    } else {
      return InvalidArgumentError("not a query for chunks");
    }
    query.remove_prefix(end == std::string_view::npos ? query.size() : end + 1);
  }
  if (ask.chunks.empty()) return InvalidArgumentError("no chunks are asked for");
  return ask;
}

std::string FormatAnswer(const std::vector<std::shared_ptr<const std::string>>& contents) {
  size_t bytes = 0;
  for (const auto& content : contents) bytes += kLengthBytes + (content == nullptr ? 0 : content->size());
  std::string answer;
  answer.reserve(bytes);
  for (const auto& content : contents) {
    const auto length = static_cast<uint32_t>(content == nullptr ? 0 : content->size());
    for (size_t i = 0; i < kLengthBytes; ++i) answer += static_cast<char>(length >> (8 * i));
    if (content != nullptr) answer += *content;
  }
  return answer;
}

Result<std::vector<std::string>> ParseAnswer(std::string_view answer, const std::vector<uint64_t>& content_bytes) {
  std::vector<std::string> contents;
  for (const uint64_t expected : content_bytes) {
    if (answer.size() < kLengthBytes) return DataLossError("the answer of a peer ends early");
    uint32_t length = 0;
    for (size_t i = 0; i < kLengthBytes; ++i) length |= uint32_t{static_cast<uint8_t>(answer[i])} << (8 * i);
    answer.remove_prefix(kLengthBytes);
    if (length != 0 && length != expected) return DataLossError("a peer gave a chunk of another length");
    if (answer.size() < length) return DataLossError("the answer of a peer ends early");
    contents.emplace_back(answer.substr(0, length));
    answer.remove_prefix(length);
  }
  if (!answer.empty()) return DataLossError("a peer gave more than was asked for");
  return contents;
}

}  // namespace paceline::blocks
