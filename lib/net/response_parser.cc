#include "lib/net/response_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "lib/net/ascii.h"

namespace paceline::net {
namespace {

// Far more than any server sends; a bound for the memory that a broken one can take.
constexpr size_t kMaxHeadBytes = 256 * 1024;
constexpr size_t kMaxChunkLineBytes = 4 * 1024;

Status Malformed(std::string_view what) { return UnavailableError(fmt::format("malformed response: {}", what)); }

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool IsTokenCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         (c != '\0' && std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos);
}

bool EqualsIgnoringCase(std::string_view a, std::string_view lower) {
  return std::equal(a.begin(), a.end(), lower.begin(), lower.end(), [](char x, char y) { return Lower(x) == y; });
}

// Whether a comma-separated header has `token` (lower case) among its elements.
bool ListHas(std::string_view list, std::string_view token) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    if (EqualsIgnoringCase(Trim(list.substr(0, comma)), token)) return true;
    if (comma == std::string_view::npos) return false;
    list.remove_prefix(comma + 1);
  }
  return false;
}

template <typename Number>
bool ParseWhole(std::string_view text, int base, Number* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out, base);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

}  // namespace

Result<size_t> ResponseParser::Feed(std::string_view input, const BodyConsumer& consumer) {
  std::string_view rest = input;
  while (!rest.empty() && state_ != State::kDone) {
    if (IsLineState()) {
      ASSIGN_OR_RETURN(const bool is_complete, TakeLine(&rest));
      if (is_complete) {
        RETURN_IF_ERROR(OnLine());
        line_.clear();
      }
    } else {
      RETURN_IF_ERROR(TakeBody(&rest, consumer));
    }
  }
  return input.size() - rest.size();
}

Status ResponseParser::FeedEnd() {
  if (state_ == State::kDone) return Status();
  if (state_ == State::kBodyToEnd) {
    state_ = State::kDone;
    keeps_alive_ = false;
    return Status();
  }
  if (state_ == State::kStatusLine && line_.empty()) {
    return UnavailableError("the server closed the connection without an answer");
  }
  return UnavailableError("the server closed the connection in the middle of the answer");
}

Result<bool> ResponseParser::TakeLine(std::string_view* input) {
  const bool is_chunk_line = state_ == State::kChunkSize || state_ == State::kChunkEnd;
  const size_t limit = is_chunk_line ? kMaxChunkLineBytes : kMaxHeadBytes - head_bytes_;
  const size_t end = input->find('\n');
  const size_t taken = end == std::string_view::npos ? input->size() : end + 1;
  if (line_.size() + taken > limit)
    return Malformed(is_chunk_line ? "a chunk line is too long" : "the head is too long");
  line_.append(*input, 0, taken);
  input->remove_prefix(taken);
  if (end == std::string_view::npos) return false;
  if (!is_chunk_line) head_bytes_ += line_.size();
  line_.pop_back();
  if (!line_.empty() && line_.back() == '\r') line_.pop_back();
  return true;
}

Status ResponseParser::OnLine() {
  switch (state_) {
    case State::kStatusLine: return OnStatusLine();
    case State::kHeaders: return line_.empty() ? OnHeadEnd() : OnHeaderLine();
    case State::kChunkSize: return OnChunkSize();
    case State::kChunkEnd:
      if (!line_.empty()) return Malformed("a chunk is longer than its size says");
      state_ = State::kChunkSize;
      return Status();
    case State::kTrailers:
      // Nobody uses trailers here; they only must not be taken for the next response.
      if (line_.empty()) state_ = State::kDone;
      return Status();
    default: return InternalError("no line is expected in this state");
  }
}

Status ResponseParser::OnStatusLine() {
  const std::string_view line = line_;
  if (line.empty() && head_bytes_ <= 2) return Status();  // one blank line before the answer: RFC 9112 2.2
  const std::string_view version = line.substr(0, 8);
  if ((version != "HTTP/1.1" && version != "HTTP/1.0") || line.size() < 12 || line[8] != ' ' ||
      (line.size() > 12 && line[12] != ' ') || !ParseWhole(line.substr(9, 3), 10, &response_.status) ||
      response_.status < 100) {
    return Malformed(fmt::format("status line \"{}\"", line.substr(0, 40)));
  }
  is_http_1_0_ = version == "HTTP/1.0";
  state_ = State::kHeaders;
  return Status();
}

Status ResponseParser::OnHeaderLine() {
  const std::string_view line = line_;
  const size_t colon = line.find(':');
  if (colon == 0 || colon == std::string_view::npos ||
      !std::all_of(line.begin(), line.begin() + static_cast<ptrdiff_t>(colon), IsTokenCharacter)) {
    return Malformed("a header line without a name");
  }
  const std::string_view value = Trim(line.substr(colon + 1));
  if (value.find('\0') != std::string_view::npos || value.find('\r') != std::string_view::npos) {
    return Malformed("a header with a control character");
  }
  auto [entry, is_new] = response_.headers.emplace(line.substr(0, colon), value);
  if (!is_new) entry->second.append(", ").append(value);
  return Status();
}

Status ResponseParser::OnHeadEnd() {
  const int status = response_.status;
  if (status == 101) return Malformed("a protocol switch that nobody asked for");
  if (status < 200) {  // informational: the answer is still to come
    response_ = HttpResponse();
    state_ = State::kStatusLine;
    return Status();
  }
  const std::string_view connection = response_.Header("Connection");
  keeps_alive_ = is_http_1_0_ ? ListHas(connection, "keep-alive") : !ListHas(connection, "close");

  if (body_ == Body::kNone || status == 204 || status == 304) {
    state_ = State::kDone;
    return Status();
  }
  const std::string_view coding = response_.Header("Transfer-Encoding");
  std::string_view length = response_.Header("Content-Length");
  if (!coding.empty()) {
    if (!EqualsIgnoringCase(coding, "chunked")) return Malformed(fmt::format("transfer encoding \"{}\"", coding));
    // Both lengths at once is how responses get smuggled; what follows on this connection cannot be trusted.
    if (!length.empty()) keeps_alive_ = false;
    state_ = State::kChunkSize;
    return Status();
  }
  if (response_.headers.count("Content-Length") == 0) {
    keeps_alive_ = false;
    state_ = State::kBodyToEnd;
    return Status();
  }
  // Repeated with the same value is legal.
  const std::string_view first = Trim(length.substr(0, length.find(',')));
  while (!length.empty()) {
    const size_t comma = length.find(',');
    if (Trim(length.substr(0, comma)) != first) return Malformed("two content lengths");
    length.remove_prefix(comma == std::string_view::npos ? length.size() : comma + 1);
  }
  if (!ParseWhole(first, 10, &remaining_)) return Malformed(fmt::format("content length \"{}\"", first));
  state_ = remaining_ == 0 ? State::kDone : State::kSizedBody;
  return Status();
}

Status ResponseParser::OnChunkSize() {
  const std::string_view size = Trim(std::string_view(line_).substr(0, line_.find(';')));
  if (!ParseWhole(size, 16, &remaining_)) return Malformed(fmt::format("chunk size \"{}\"", size.substr(0, 20)));
  state_ = remaining_ == 0 ? State::kTrailers : State::kChunkData;
  return Status();
}

Status ResponseParser::TakeBody(std::string_view* input, const BodyConsumer& consumer) {
  size_t taken = input->size();
  if (state_ != State::kBodyToEnd) taken = static_cast<size_t>(std::min<uint64_t>(taken, remaining_));
  const std::string_view piece = input->substr(0, taken);
  input->remove_prefix(taken);
  if (state_ != State::kBodyToEnd) {
    remaining_ -= taken;
    if (remaining_ == 0) state_ = state_ == State::kSizedBody ? State::kDone : State::kChunkEnd;
  }
  return consumer(piece);
}

}  // namespace paceline::net
