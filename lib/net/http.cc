#include "lib/net/http.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/net/ascii.h"

namespace paceline::net {
namespace {

bool IsUnreserved(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

StatusCode CodeOf(int http_status) {
  switch (http_status) {
    case 401:
    case 403:
    case 407: return StatusCode::kPermissionDenied;
    case 404: return StatusCode::kNotFound;
    case 409:
    case 410:
    case 412: return StatusCode::kAborted;
    case 408:
    case 425:
    case 429: return StatusCode::kUnavailable;
    case 405:
    case 501: return StatusCode::kUnimplemented;
    default: break;
  }
  if (http_status >= 400 && http_status < 500) return StatusCode::kInvalidArgument;
  if (http_status >= 500 && http_status < 600) return StatusCode::kUnavailable;
  return StatusCode::kInternal;  // 1xx and 3xx: nobody asked for these
}

}  // namespace

bool HeaderLess::operator()(std::string_view a, std::string_view b) const {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                      [](char x, char y) { return Lower(x) < Lower(y); });
}

std::string_view HttpResponse::Header(std::string_view name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

std::string UrlEncode(std::string_view text) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (IsUnreserved(c)) {
      out.push_back(c);
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out.push_back('%');
    out.push_back(kHex[byte >> 4]);
    out.push_back(kHex[byte & 15]);
  }
  return out;
}

Status HttpStatusToStatus(int http_status, std::string_view what) {
  if (http_status >= 200 && http_status < 300) return Status();
  return Status(CodeOf(http_status), fmt::format("{}: HTTP status {}", what, http_status));
}

}  // namespace paceline::net
