#include "lib/deps/secret_scan.h"

#include <algorithm>
#include <cctype>

namespace paceline::deps {
namespace {

enum class Letters { kAlphanumeric, kUpperAndDigits, kWord };

struct TokenForm {
  std::string_view prefix;
  size_t letters;  // at least so many after it
  Letters kind;
  const char* name;
};
// Forms with a prefix of their own: what looks random only is not told from a digest.
constexpr TokenForm kTokens[] = {
    {"AKIA", 16, Letters::kUpperAndDigits, "an access key of AWS"},
    {"ghp_", 36, Letters::kAlphanumeric, "a token of GitHub"},
    {"gho_", 36, Letters::kAlphanumeric, "a token of GitHub"},
    {"ghs_", 36, Letters::kAlphanumeric, "a token of GitHub"},
    {"github_pat_", 60, Letters::kWord, "a token of GitHub"},
    {"glpat-", 20, Letters::kWord, "a token of GitLab"},
    {"hf_", 34, Letters::kAlphanumeric, "a token of Hugging Face"},
    {"pypi-AgE", 50, Letters::kWord, "a token of PyPI"},
    {"xoxb-", 30, Letters::kWord, "a token of Slack"},
    {"xoxp-", 30, Letters::kWord, "a token of Slack"},
    {"AIza", 35, Letters::kWord, "a key of Google"},
    {"npm_", 36, Letters::kAlphanumeric, "a token of npm"},
};
constexpr std::string_view kSettings[] = {".conf", ".cfg", ".ini", ".toml", ".json", ".yaml", ".yml", ".env", ".list"};
constexpr std::string_view kPlaceholders[] = {"user", "username", "pass",  "password", "passwd", "pwd",  "secret",
                                              "xxx",  "****",     "token", "foo",      "bar",    "test", "example"};

bool Fits(char c, Letters kind) {
  const auto letter = static_cast<unsigned char>(c);
  if (kind == Letters::kUpperAndDigits) return std::isupper(letter) != 0 || std::isdigit(letter) != 0;
  return std::isalnum(letter) != 0 || (kind == Letters::kWord && (c == '_' || c == '-'));
}

bool HasToken(std::string_view text, const TokenForm& form) {
  for (size_t at = text.find(form.prefix); at != std::string_view::npos; at = text.find(form.prefix, at + 1)) {
    if (at > 0 && Fits(text[at - 1], Letters::kWord)) continue;  // inside of a longer word
    const std::string_view rest = text.substr(at + form.prefix.size());
    const auto fits = [&](char c) { return Fits(c, form.kind); };
    const auto end = std::find_if_not(rest.begin(), rest.end(), fits);
    const auto letters = static_cast<size_t>(end - rest.begin());
    if (letters < form.letters) continue;
    // Examples repeat one letter: "ghp_xxxxxxxx".
    const bool is_example = std::all_of(rest.begin(), end, [&](char c) { return c == rest[0]; });
    if (!is_example) return true;
  }
  return false;
}

bool HasPrivateKey(std::string_view text) {
  constexpr std::string_view kBegin = "-----BEGIN ", kEnd = "PRIVATE KEY-----";
  for (size_t at = text.find(kBegin); at != std::string_view::npos; at = text.find(kBegin, at + 1)) {
    const size_t end = text.find(kEnd, at);
    if (end == std::string_view::npos || end - at > 60) continue;
    // Code that writes or looks for the line has no key behind it.
    const std::string_view body = text.substr(end + kEnd.size(), 200);
    const auto is_base64 = [](char c) { return Fits(c, Letters::kAlphanumeric) || c == '+' || c == '/'; };
    if (std::count_if(body.begin(), body.end(), is_base64) > 120 && body.starts_with('\n')) return true;
  }
  return false;
}

bool HasPasswordUrl(std::string_view text) {
  for (size_t at = text.find("://"); at != std::string_view::npos; at = text.find("://", at + 3)) {
    const std::string_view rest = text.substr(at + 3, 512);
    const std::string_view authority = rest.substr(0, rest.find_first_of("/?# \t\r\n\"'<>)]},`"));
    const size_t sign = authority.rfind('@');
    const size_t colon = authority.find(':');
    if (sign == std::string_view::npos || colon == std::string_view::npos || colon + 1 >= sign) continue;
    const std::string_view password = authority.substr(colon + 1, sign - colon - 1);
    const bool is_variable = password.find_first_of("${%") != std::string_view::npos;
    const bool is_placeholder =
        std::find(std::begin(kPlaceholders), std::end(kPlaceholders), password) != std::end(kPlaceholders);
    if (!is_variable && !is_placeholder) return true;
  }
  return false;
}

bool IsForTests(std::string_view path) {
  for (const std::string_view folder : {"/test/", "/tests/", "/testing/", "/test_data/", "/testdata/"}) {
    if (path.find(folder) != std::string_view::npos) return true;
  }
  return false;
}

bool HoldsSettings(std::string_view path) {
  const auto ends = [&](std::string_view suffix) { return path.ends_with(suffix); };
  return std::any_of(std::begin(kSettings), std::end(kSettings), ends) || path.ends_with("/.git/config") ||
         path.find(".dist-info/") != std::string_view::npos;
}

}  // namespace

bool IsText(std::string_view beginning) { return beginning.substr(0, 4096).find('\0') == std::string_view::npos; }

std::string FindSecret(std::string_view path, std::string_view text) {
  if (IsForTests(path)) return "";
  if (HasPrivateKey(text)) return "a private key";
  for (const TokenForm& form : kTokens) {
    if (HasToken(text, form)) return form.name;
  }
  return HoldsSettings(path) && HasPasswordUrl(text) ? "a URL with a password" : "";
}

}  // namespace paceline::deps
