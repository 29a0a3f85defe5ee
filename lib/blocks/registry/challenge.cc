#include "lib/blocks/registry/challenge.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>

#include "lib/base/base64.h"
#include "lib/base/json.h"

namespace paceline::blocks {
namespace {

constexpr std::chrono::seconds kDefaultLifetime{60};
constexpr std::chrono::hours kLongestLifetime{24};

bool IsTokenCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool EqualsWithoutCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  });
}

class HeaderScanner {
 public:
  explicit HeaderScanner(std::string_view text) : text_(text) {}

  bool at_end() const { return at_ >= text_.size(); }
  void SkipBlanks() {
    while (!at_end() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool Take(char c) {
    if (at_end() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void Skip() { ++at_; }

  std::string_view Word() {
    const size_t start = at_;
    while (!at_end() && IsTokenCharacter(text_[at_])) ++at_;
    return text_.substr(start, at_ - start);
  }

  // A quoted string, or what there is up to a blank or comma: some servers leave the quotes of a URL out.
  std::string Value() {
    std::string value;
    if (!Take('"')) {
      while (!at_end() && std::string_view(" \t,").find(text_[at_]) == std::string_view::npos) value += text_[at_++];
      return value;
    }
    while (!at_end() && text_[at_] != '"') {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      value += text_[at_++];
    }
    Take('"');
    return value;
  }

  // "name =" at this place, or nothing, and then the place is as before.
  std::optional<std::string_view> ParameterName() {
    const size_t start = at_;
    const std::string_view name = Word();
    SkipBlanks();
    if (!name.empty() && Take('=')) {
      SkipBlanks();
      return name;
    }
    at_ = start;
    return std::nullopt;
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

void SetParameter(std::string_view name, std::string value, Challenge* challenge) {
  if (EqualsWithoutCase(name, "realm")) {
    challenge->realm = std::move(value);
  } else if (EqualsWithoutCase(name, "service")) {
    challenge->service = std::move(value);
  } else if (EqualsWithoutCase(name, "scope")) {
    challenge->scope = std::move(value);
  }
}

std::string QueryParameter(std::string_view name, std::string_view value) {
  return std::string(name) + "=" + net::UrlEncode(value);
}

}  // namespace

std::vector<Challenge> ParseChallenges(std::string_view header) {
  std::vector<Challenge> challenges;
  std::string scheme;
  Challenge current;
  const auto finish = [&] {
    if (EqualsWithoutCase(scheme, "basic") || (EqualsWithoutCase(scheme, "bearer") && !current.realm.empty())) {
      challenges.push_back(std::move(current));
    }
    current = Challenge();
  };
  HeaderScanner scanner(header);
  while (!scanner.at_end()) {
    scanner.SkipBlanks();
    if (scanner.Take(',')) continue;
    if (const auto name = scanner.ParameterName()) {
      SetParameter(*name, scanner.Value(), &current);
      continue;
    }
    const std::string_view word = scanner.Word();
    if (word.empty()) {
      if (!scanner.at_end()) scanner.Skip();  // not a character of this grammar
      continue;
    }
    finish();
    scheme = word;
    current.scheme = EqualsWithoutCase(word, "bearer") ? Challenge::Scheme::kBearer : Challenge::Scheme::kBasic;
  }
  finish();
  return challenges;
}

const Challenge* ChooseChallenge(const std::vector<Challenge>& challenges) {
  for (const Challenge& challenge : challenges) {
    if (challenge.scheme == Challenge::Scheme::kBearer) return &challenge;
  }
  return challenges.empty() ? nullptr : &challenges.front();
}

std::string ScopeOf(std::string_view repository, std::string_view actions) {
  return "repository:" + std::string(repository) + ":" + std::string(actions);
}

net::HttpRequest TokenRequest(const Challenge& challenge, std::string_view realm_path, const Credential& credential) {
  net::HttpRequest request;
  request.target = realm_path;
  request.headers["Accept"] = "application/json";
  std::string parameters = QueryParameter("service", challenge.service);
  if (!challenge.scope.empty()) parameters += "&" + QueryParameter("scope", challenge.scope);
  if (!credential.identity_token.empty()) {
    request.method = "POST";
    request.headers["Content-Type"] = "application/x-www-form-urlencoded";
    request.body = "grant_type=refresh_token&client_id=paceline&" + parameters + "&" +
                   QueryParameter("refresh_token", credential.identity_token);
    return request;
  }
  request.target += (request.target.find('?') == std::string::npos ? "?" : "&") + parameters;
  if (!credential.is_anonymous()) request.headers["Authorization"] = BasicAuthorization(credential);
  return request;
}

std::string BasicAuthorization(const Credential& credential) {
  return "Basic " + EncodeBase64(credential.username + ":" + credential.password);
}

Result<Token> ParseTokenAnswer(std::string_view json) {
  const Result<Json> parsed = ParseJson(json);
  if (!parsed.ok() || !parsed->is_object()) return InvalidArgumentError("the token service's answer is no JSON object");
  Token token;
  for (const char* field : {"token", "access_token"}) {
    const auto found = parsed->find(field);
    if (token.value.empty() && found != parsed->end() && found->is_string()) token.value = found->get<std::string>();
  }
  const bool is_printable =
      std::all_of(token.value.begin(), token.value.end(), [](char c) { return c > ' ' && c < '\x7f'; });
  if (token.value.empty() || !is_printable) return InvalidArgumentError("the token service gave no token");
  const Result<double> seconds = JsonDoubleOr(*parsed, "expires_in", 0);
  token.lifetime = kDefaultLifetime;
  if (seconds.ok() && *seconds >= 1) {
    token.lifetime = std::chrono::seconds(static_cast<int64_t>(std::min(*seconds, ToSeconds(kLongestLifetime))));
  }
  return token;
}

}  // namespace paceline::blocks
