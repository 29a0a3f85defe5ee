#include "lib/blocks/registry/authorizer.h"

#include <fmt/format.h>

#include "lib/blocks/format/digest.h"
#include "lib/blocks/registry/http_rules.h"

namespace paceline::blocks {
namespace {

constexpr std::string_view kBearer = "Bearer ";

std::string HostKey(const net::Url& host) { return (host.is_https ? "https://" : "http://") + host.HostHeader(); }

// Tells credentials apart without holding them.
std::string Fingerprint(const Credential& credential) {
  Sha256 hash;
  for (const std::string* part : {&credential.username, &credential.password, &credential.identity_token}) {
    hash.Update(std::to_string(part->size()) + ":");
    hash.Update(*part);
  }
  return hash.Finish().Hex();
}

}  // namespace

Authorizer::Authorizer(std::shared_ptr<CredentialSource> credentials, SendTo send, const Clock& clock)
    : credentials_(std::move(credentials)), send_(std::move(send)), tokens_(clock, MakeRandomSource()) {}

Result<std::string> Authorizer::UpFront(const AuthSubject& subject, Deadline deadline, std::stop_token stop) {
  Challenge challenge;
  {
    MutexLock lock(mutex_);
    const auto found = asked_.find(HostKey(subject.host));
    if (found == asked_.end()) return std::string();
    challenge = found->second;
  }
  return Respond(subject, challenge, "", deadline, std::move(stop));
}

Result<std::string> Authorizer::Answer(const AuthSubject& subject, std::string_view www_authenticate,
                                       const std::string& rejected, Deadline deadline, std::stop_token stop) {
  const std::vector<Challenge> challenges = ParseChallenges(www_authenticate);
  const Challenge* chosen = ChooseChallenge(challenges);
  if (chosen == nullptr) return std::string();
  {
    MutexLock lock(mutex_);
    Challenge& remembered = asked_[HostKey(subject.host)];
    remembered = *chosen;
    remembered.scope.clear();  // differs from repository to repository
  }
  return Respond(subject, *chosen, rejected, deadline, std::move(stop));
}

Result<std::string> Authorizer::Respond(const AuthSubject& subject, const Challenge& challenge,
                                        const std::string& rejected, Deadline deadline, std::stop_token stop) {
  Credential credential;
  if (credentials_ != nullptr) {
    const auto ask = rejected.empty() ? CredentialSource::Ask::kFirst : CredentialSource::Ask::kAfterRejection;
    ASSIGN_OR_RETURN(credential, credentials_->Find(subject.registry, subject.repository, ask));
  }
  std::string value;
  if (!credential.registry_token.empty()) {
    value = std::string(kBearer) + credential.registry_token;
  } else if (challenge.scheme == Challenge::Scheme::kBasic) {
    if (credential.username.empty()) return std::string();
    value = BasicAuthorization(credential);
  } else {
    Challenge wanted = challenge;
    if (wanted.scope.empty() && !subject.repository.empty())
      wanted.scope = ScopeOf(subject.repository, subject.actions);
    const std::string key =
        fmt::format("{}\n{}\n{}\n{}", wanted.realm, wanted.service, wanted.scope, Fingerprint(credential));
    const std::string old = rejected.starts_with(kBearer) ? rejected.substr(kBearer.size()) : "";
    const auto fetch = [&] { return FetchToken(subject, wanted, credential, deadline, stop); };
    ASSIGN_OR_RETURN(const std::string token, tokens_.Get(key, old, fetch, deadline, stop));
    value = std::string(kBearer) + token;
  }
  return value == rejected ? std::string() : value;
}

Result<Token> Authorizer::FetchToken(const AuthSubject& subject, const Challenge& challenge,
                                     const Credential& credential, Deadline deadline, std::stop_token stop) {
  const std::string what = "token service of " + subject.host.HostHeader();
  const size_t scheme = challenge.realm.find("://");
  const size_t path = scheme == std::string::npos ? scheme : challenge.realm.find_first_of("/?", scheme + 3);
  const Result<net::Url> service = net::ParseUrl(challenge.realm.substr(0, path));
  if (!service.ok()) return UnavailableError(what + ": the realm is no http or https URL");
  if (subject.host.is_https && !service->is_https && !credential.is_anonymous()) {
    return PermissionDeniedError(what + ": credentials are not sent over plain http");
  }
  std::string realm_path = path == std::string::npos ? "/" : challenge.realm.substr(path);
  if (realm_path.front() == '?') realm_path.insert(0, "/");
  const net::HttpRequest request = TokenRequest(challenge, realm_path, credential);
  const Result<net::HttpResponse> answer = send_(*service, request, deadline, std::move(stop));
  if (!answer.ok()) return answer.status().Annotate(what);
  // 400 and 404 too are how services refuse.
  const bool is_refusal = answer->status >= 400 && answer->status < 500 && !IsRetryableStatus(answer->status);
  if (is_refusal) return PermissionDeniedError(fmt::format("{}: HTTP status {}", what, answer->status));
  if (answer->status != 200) return UnavailableError(fmt::format("{}: HTTP status {}", what, answer->status));
  Result<Token> token = ParseTokenAnswer(answer->body);
  if (!token.ok()) return UnavailableError(what + ": " + token.status().message());
  return token;
}

}  // namespace paceline::blocks
