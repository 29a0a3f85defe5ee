#include "lib/net/url.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace paceline::net {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool IsHostCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
}

Status BadUrl(std::string_view text, std::string_view why) {
  return InvalidArgumentError(fmt::format("URL \"{}\": {}", text, why));
}

Status ParsePort(std::string_view url, std::string_view digits, uint16_t* port) {
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value < 1 || value > 65535) {
    return BadUrl(url, "the port must be a number from 1 to 65535");
  }
  *port = static_cast<uint16_t>(value);
  return Status();
}

// Splits "host:port" or "[v6]:port"; `*port` stays as it is when none is given.
Status ParseHostPort(std::string_view url, std::string_view text, Url* out) {
  std::string_view rest;
  if (!text.empty() && text.front() == '[') {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return BadUrl(url, "'[' without ']'");
    out->host = std::string(text.substr(1, end - 1));
    if (out->host.find(':') == std::string::npos || !IsIpLiteral(out->host)) {
      return BadUrl(url, "no IPv6 address between '[' and ']'");
    }
    rest = text.substr(end + 1);
    if (!rest.empty() && rest.front() != ':') return BadUrl(url, "unexpected text after ']'");
  } else {
    const size_t colon = text.find(':');
    out->host = std::string(text.substr(0, colon));
    if (colon != std::string_view::npos) rest = text.substr(colon);
    std::transform(out->host.begin(), out->host.end(), out->host.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    if (out->host.empty()) return BadUrl(url, "the host is missing");
    if (!std::all_of(out->host.begin(), out->host.end(), IsHostCharacter)) {
      return BadUrl(url, "the host has a character that no host name has (IPv6 needs brackets)");
    }
  }
  if (!rest.empty()) return ParsePort(url, rest.substr(1), &out->port);
  return Status();
}

}  // namespace

std::string Url::HostHeader() const {
  const std::string bracketed = is_ipv6_literal() ? "[" + host + "]" : host;
  const uint16_t default_port = is_https ? 443 : 80;
  return port == default_port ? bracketed : fmt::format("{}:{}", bracketed, port);
}

Result<Url> ParseUrl(std::string_view text) {
  Url url;
  std::string_view rest = text;
  constexpr std::string_view kHttp = "http://";
  constexpr std::string_view kHttps = "https://";
  if (rest.substr(0, kHttps.size()) == kHttps) {
    url.is_https = true;
    rest.remove_prefix(kHttps.size());
  } else if (rest.substr(0, kHttp.size()) == kHttp) {
    rest.remove_prefix(kHttp.size());
  } else {
    return BadUrl(text, "it must start with http:// or https://");
  }
  url.port = url.is_https ? 443 : 80;
  if (rest.find_first_of("?#") != std::string_view::npos) return BadUrl(text, "'?' and '#' have no place in it");
  for (const char c : rest) {
    if (static_cast<unsigned char>(c) <= ' ' || static_cast<unsigned char>(c) >= 0x7f) {
      return BadUrl(text, "it has a blank or a character outside ASCII");
    }
  }

  const size_t slash = rest.find('/');
  std::string_view authority = rest.substr(0, slash);
  if (slash != std::string_view::npos) url.path = std::string(rest.substr(slash));
  while (!url.path.empty() && url.path.back() == '/') url.path.pop_back();

  if (const size_t at = authority.rfind('@'); at != std::string_view::npos) {
    const std::string_view user = authority.substr(0, at);
    const size_t colon = user.find(':');
    ASSIGN_OR_RETURN(url.username, UrlDecode(user.substr(0, colon)));
    if (colon != std::string_view::npos) {
      ASSIGN_OR_RETURN(url.password, UrlDecode(user.substr(colon + 1)));
    }
    authority.remove_prefix(at + 1);
  }
  RETURN_IF_ERROR(ParseHostPort(text, authority, &url));
  return url;
}

Result<std::string> UrlDecode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    const int high = i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? HexDigit(text[i + 2]) : -1;
    if (high < 0 || low < 0) return InvalidArgumentError("'%' without two hexadecimal digits");
    out.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return out;
}

bool IsIpLiteral(const std::string& text) {
  unsigned char address[sizeof(in6_addr)];
  return inet_pton(AF_INET, text.c_str(), address) == 1 || inet_pton(AF_INET6, text.c_str(), address) == 1;
}

}  // namespace paceline::net
