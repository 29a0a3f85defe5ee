// The parts of an http or https URL that a connection needs. Base URLs come from configuration (kubeconfig, registry
// settings), so a mistake in them must be named; this is not a general URI parser. A pure value, no thread-safety
// needed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace paceline::net {

struct Url {
  bool is_https = false;
  std::string host;      // lower-case name or IP literal; an IPv6 literal stands without brackets
  uint16_t port = 0;     // never 0 after ParseUrl
  std::string path;      // "" or "/prefix", without a trailing '/'
  std::string username;  // percent-decoded; only proxies use them
  std::string password;

  bool is_ipv6_literal() const { return host.find(':') != std::string::npos; }
  // host[:port] as it stands in a Host header: brackets around IPv6, the port only when it is not the scheme's own.
  std::string HostHeader() const;
};

// kInvalidArgument, naming the URL, for anything but http(s)://[user[:password]@]host[:port][/path].
Result<Url> ParseUrl(std::string_view text);

// Decodes %XX. kInvalidArgument for a cut or non-hexadecimal escape.
Result<std::string> UrlDecode(std::string_view text);

// True when `text` is an IPv4 or IPv6 address (no brackets).
bool IsIpLiteral(const std::string& text);

}  // namespace paceline::net
