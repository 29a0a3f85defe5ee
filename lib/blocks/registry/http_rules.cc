#include "lib/blocks/registry/http_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "lib/base/json.h"

namespace paceline::blocks {
namespace {

constexpr size_t kMaxQuotedBytes = 200;

bool TakeNumber(std::string_view* text, uint64_t* number) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *number);
  if (error != std::errc() || end == text->data()) return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return true;
}

bool Take(std::string_view* text, std::string_view prefix) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

// "bytes FIRST-LAST/TOTAL", TOTAL may be "*".
bool IsContentRangeOf(std::string_view text, ByteRange range) {
  uint64_t first = 0, last = 0, total = 0;
  if (!Take(&text, "bytes ") || !TakeNumber(&text, &first) || !Take(&text, "-") || !TakeNumber(&text, &last) ||
      !Take(&text, "/")) {
    return false;
  }
  if (text != "*" && (!TakeNumber(&text, &total) || !text.empty() || last >= total)) return false;
  return first == range.offset && last == range.end() - 1;
}

std::string OneLine(std::string_view text) {
  std::string line;
  for (const char c : text.substr(0, kMaxQuotedBytes)) line += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  return line;
}

}  // namespace

std::string RangeHeader(ByteRange range) { return fmt::format("bytes={}-{}", range.offset, range.end() - 1); }

Status CheckRangeAnswer(const net::HttpResponse& head, ByteRange range) {
  if (head.status == 200) return UnimplementedError("the server ignores Range: it answered 200 to a ranged request");
  if (head.status != 206) return DataLossError(fmt::format("HTTP status {} to a ranged request", head.status));
  const std::string_view content_range = head.Header("Content-Range");
  if (IsContentRangeOf(content_range, range)) return Status();
  return DataLossError(
      fmt::format("asked for {}, got Content-Range \"{}\"", RangeHeader(range), OneLine(content_range)));
}

Result<Address> ResolveLocation(const net::Url& base, std::string_view target, std::string_view location) {
  const auto bad = [](std::string_view why) { return UnavailableError(fmt::format("Location header {}", why)); };
  const bool has_control =
      std::any_of(location.begin(), location.end(), [](char c) { return static_cast<unsigned char>(c) <= ' '; });
  if (location.empty() || has_control) return bad("is missing or malformed");
  location = location.substr(0, location.find('#'));
  Address address;
  if (location.starts_with("//") || location.find("://") < location.find_first_of("/?")) {
    const std::string whole = location.starts_with("//") ? (base.is_https ? "https:" : "http:") + std::string(location)
                                                         : std::string(location);
    const size_t authority = whole.find("://") + 3;
    const size_t path = whole.find_first_of("/?", authority);
    const Result<net::Url> url = net::ParseUrl(whole.substr(0, path));
    if (!url.ok()) return bad("is no http or https URL");  // the parser's message would quote it
    address.url = *url;
    address.target = path == std::string::npos ? "/" : whole.substr(path);
    if (address.target.front() == '?') address.target.insert(0, "/");
    if (base.is_https && !address.url.is_https) return bad("leads from https to http");
    return address;
  }
  address.url = base;
  address.url.path.clear();
  if (location.front() == '/') {
    address.target = location;
  } else {
    const std::string_view path = target.substr(0, target.find('?'));
    address.target = std::string(location.front() == '?' ? path : path.substr(0, path.rfind('/') + 1));
    address.target += location;
  }
  return address;
}

bool IsRedirect(int http_status) {
  return http_status == 301 || http_status == 302 || http_status == 303 || http_status == 307 || http_status == 308;
}

bool IsRetryableStatus(int http_status) {
  return http_status == 408 || http_status == 425 || http_status == 429 || http_status == 500 || http_status == 502 ||
         http_status == 503 || http_status == 504;
}

std::optional<Duration> NextRound(const RetryRules& rules, int rounds_made, std::optional<Duration> retry_after,
                                  double random) {
  if (rounds_made >= rules.max_attempts) return std::nullopt;
  const double ceiling =
      std::min(ToSeconds(rules.initial_backoff) * std::pow(2.0, rounds_made - 1), ToSeconds(rules.max_backoff));
  const auto jittered = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(ceiling * random));
  if (!retry_after) return jittered;
  return std::min(*retry_after, rules.max_retry_after) + jittered;
}

Status RegistryFailure(const net::HttpResponse& response, std::string_view what) {
  const Status status = net::HttpStatusToStatus(response.status, what);
  const Result<Json> body = ParseJson(response.body);
  const Json* error = body.ok() ? FindJson(*body, "errors.0") : nullptr;
  if (error == nullptr || !error->is_object()) return status;
  const Result<std::string> code = JsonStringOr(*error, "code", ""), message = JsonStringOr(*error, "message", "");
  const std::string said = OneLine((code.ok() ? *code : "") + " " + (message.ok() ? *message : ""));
  return Status(status.code(), fmt::format("{} ({})", status.message(), said));
}

std::vector<ByteRange> CoalesceRanges(std::vector<ByteRange> ranges, uint64_t max_gap, uint64_t max_length) {
  std::sort(ranges.begin(), ranges.end(), [](ByteRange a, ByteRange b) { return a.offset < b.offset; });
  std::vector<ByteRange> merged;
  for (const ByteRange range : ranges) {
    if (range.length == 0) continue;
    if (!merged.empty()) {
      ByteRange& last = merged.back();
      const uint64_t end = std::max(last.end(), range.end());
      if (range.offset <= last.end() + max_gap && end - last.offset <= max_length) {
        last.length = end - last.offset;
        continue;
      }
    }
    merged.push_back(range);
  }
  return merged;
}

}  // namespace paceline::blocks
