#include "lib/blocks/registry/image_reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace paceline::blocks {
namespace {

constexpr std::string_view kDigestPrefix = "sha256:";
constexpr size_t kMaxRepositoryBytes = 255;
constexpr size_t kMaxTagBytes = 128;

bool IsLowerOrDigit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool IsWordCharacter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// One part between slashes: lower-case words, joined by one '.', one or two '_', or any number of '-'.
bool IsRepositoryPart(std::string_view part) {
  if (part.empty() || !IsLowerOrDigit(part.front()) || !IsLowerOrDigit(part.back())) return false;
  for (size_t at = 0; at < part.size();) {
    if (IsLowerOrDigit(part[at])) {
      ++at;
      continue;
    }
    const char joint = part[at];
    size_t end = at;
    while (end < part.size() && part[end] == joint) ++end;
    const size_t longest = joint == '.' ? 1 : joint == '_' ? 2 : joint == '-' ? part.size() : 0;
    if (end - at > longest || !IsLowerOrDigit(part[end])) return false;
    at = end;
  }
  return true;
}

bool IsRepository(std::string_view name) {
  if (name.empty() || name.size() > kMaxRepositoryBytes) return false;
  while (true) {
    const size_t slash = name.find('/');
    if (!IsRepositoryPart(name.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    name.remove_prefix(slash + 1);
  }
}

bool IsTag(std::string_view tag) {
  if (tag.empty() || tag.size() > kMaxTagBytes || !IsWordCharacter(tag.front())) return false;
  return std::all_of(tag.begin(), tag.end(), [](char c) { return IsWordCharacter(c) || c == '.' || c == '-'; });
}

// host[:port] or [ipv6][:port]
bool IsRegistry(std::string_view text) {
  std::string_view port;
  if (text.starts_with('[')) {
    const size_t close = text.find(']');
    if (close == std::string_view::npos || close < 3) return false;
    port = text.substr(close + 1);
    const std::string_view address = text.substr(1, close - 1);
    if (address.find_first_not_of("0123456789abcdefABCDEF:.") != std::string_view::npos) return false;
  } else {
    const size_t colon = text.find(':');
    const std::string_view host = text.substr(0, colon);
    if (host.empty() || host.front() == '.' || host.front() == '-') return false;
    const auto is_host = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-'; };
    if (!std::all_of(host.begin(), host.end(), is_host)) return false;
    if (colon == std::string_view::npos) return true;
    port = text.substr(colon);
  }
  if (port.empty()) return true;
  return port.front() == ':' && port.size() > 1 && port.size() <= 6 &&
         port.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

// The first part is a registry when nothing else can look like that: docker's rule.
bool LooksLikeRegistry(std::string_view part) {
  return part == "localhost" || part.find_first_of(".:") != std::string_view::npos ||
         std::any_of(part.begin(), part.end(), [](char c) { return std::isupper(static_cast<unsigned char>(c)); });
}

}  // namespace

bool IsSha256Digest(std::string_view text) {
  if (!text.starts_with(kDigestPrefix)) return false;
  text.remove_prefix(kDigestPrefix.size());
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string_view DigestHex(std::string_view digest) { return digest.substr(kDigestPrefix.size()); }

std::string ImageReference::ToString() const {
  std::string text = registry + "/" + repository;
  if (!tag.empty()) text += ":" + tag;
  if (!digest.empty()) text += "@" + digest;
  return text;
}

Result<ImageReference> ParseImageReference(std::string_view text) {
  const std::string whole(text);
  const auto fail = [&whole](std::string_view why) {
    return InvalidArgumentError(fmt::format("image reference \"{}\": {}", whole, why));
  };
  if (text.starts_with("docker://")) text.remove_prefix(9);
  ImageReference reference;
  if (const size_t at = text.find('@'); at != std::string_view::npos) {
    reference.digest = text.substr(at + 1);
    if (!IsSha256Digest(reference.digest)) return fail("the digest must be sha256: and 64 hexadecimal digits");
    text = text.substr(0, at);
  }
  const size_t slash = text.find('/');
  if (slash != std::string_view::npos && LooksLikeRegistry(text.substr(0, slash))) {
    reference.registry = text.substr(0, slash);
    text.remove_prefix(slash + 1);
  }
  if (const size_t colon = text.rfind(':'); colon != std::string_view::npos) {
    reference.tag = text.substr(colon + 1);
    if (!IsTag(reference.tag)) return fail("the tag has a character that is not allowed");
    text = text.substr(0, colon);
  }
  reference.repository = text;
  if (reference.registry.empty() || reference.registry == "index.docker.io") reference.registry = "docker.io";
  const bool is_short = reference.registry == "docker.io" && reference.repository.find('/') == std::string::npos;
  if (is_short && !reference.repository.empty()) reference.repository = "library/" + reference.repository;
  if (!IsRegistry(reference.registry)) return fail("the registry must be host[:port]");
  if (!IsRepository(reference.repository)) {
    return fail("the repository must be lower-case words, digits and . _ - between slashes");
  }
  if (reference.tag.empty() && reference.digest.empty()) reference.tag = "latest";
  return reference;
}

}  // namespace paceline::blocks
