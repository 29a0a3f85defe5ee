#include "tests/fakes/registry.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "lib/base/base64.h"
#include "lib/base/json.h"
#include "lib/blocks/format/digest.h"
#include "lib/net/url.h"

namespace paceline::fakes {
namespace {

constexpr std::string_view kApi = "/v2/";

std::string QueryValue(const std::string& target, const std::string& name) {
  const size_t query = target.find('?');
  if (query == std::string::npos) return "";
  std::string_view rest = std::string_view(target).substr(query + 1);
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    if (!pair.starts_with(name + "=")) continue;
    return net::UrlDecode(pair.substr(name.size() + 1)).value_or("");
  }
  return "";
}

std::string ErrorBody(std::string_view code) {
  return fmt::format(R"({{"errors":[{{"code":"{}","message":"from the fake"}}]}})", code);
}

std::string DigestOf(std::string_view bytes) { return blocks::Sha256Of(bytes).ToString(); }

// "bytes=A-B", both given.
std::optional<std::pair<size_t, size_t>> ReadRange(const std::string& text) {
  size_t first = 0, last = 0;
  if (!text.starts_with("bytes=")) return std::nullopt;
  const size_t dash = text.find('-');
  if (dash == std::string::npos) return std::nullopt;
  const char* begin = text.data();
  if (std::from_chars(begin + 6, begin + dash, first).ec != std::errc()) return std::nullopt;
  if (std::from_chars(begin + dash + 1, begin + text.size(), last).ec != std::errc()) return std::nullopt;
  return std::make_pair(first, last);
}

// Reads one request; nothing at the end of the connection.
std::optional<Registry::Request> ReadRequest(ScriptedPeer::Link& link, std::string* unread) {
  size_t head_end;
  while ((head_end = unread->find("\r\n\r\n")) == std::string::npos) {
    const std::string more = link.ReadSome();
    if (more.empty()) return std::nullopt;
    *unread += more;
  }
  Registry::Request request;
  const std::string head = unread->substr(0, head_end + 2);
  unread->erase(0, head_end + 4);
  size_t at = head.find("\r\n");
  const std::string line = head.substr(0, at);
  const size_t blank = line.find(' '), second = line.rfind(' ');
  request.method = line.substr(0, blank);
  request.target = line.substr(blank + 1, second - blank - 1);
  for (at += 2; at < head.size();) {
    const size_t end = head.find("\r\n", at);
    const size_t colon = head.find(':', at);
    request.headers[head.substr(at, colon - at)] = head.substr(colon + 2, end - colon - 2);
    at = end + 2;
  }
  const auto length = request.headers.find("Content-Length");
  const size_t body_bytes = length == request.headers.end() ? 0 : std::stoul(length->second);
  while (unread->size() < body_bytes) {
    const std::string more = link.ReadSome();
    if (more.empty()) return std::nullopt;
    *unread += more;
  }
  request.body = unread->substr(0, body_bytes);
  unread->erase(0, body_bytes);
  return request;
}

}  // namespace

Registry::Registry(const Clock& clock) : clock_(clock) {
  storage_ = std::make_unique<ScriptedPeer>([this](ScriptedPeer::Link& link) { Serve(link, true); });
  api_ = std::make_unique<ScriptedPeer>([this](ScriptedPeer::Link& link) { Serve(link, false); });
}

Registry::~Registry() {
  api_.reset();
  storage_.reset();
}

std::string Registry::address() const { return fmt::format("127.0.0.1:{}", api_->port()); }
std::string Registry::storage_address() const { return fmt::format("127.0.0.1:{}", storage_->port()); }

void Registry::Set(const RegistrySwitches& switches) {
  MutexLock lock(mutex_);
  switches_ = switches;
}

RegistrySwitches Registry::switches() const {
  MutexLock lock(mutex_);
  return switches_;
}

void Registry::RevokeTokens() {
  MutexLock lock(mutex_);
  tokens_.clear();
}

std::string Registry::AddBlob(std::string bytes) {
  MutexLock lock(mutex_);
  std::string digest = DigestOf(bytes);
  blobs_[digest] = std::move(bytes);
  return digest;
}

std::string Registry::AddManifest(const std::string& repository, const std::string& tag, const std::string& media_type,
                                  std::string bytes) {
  MutexLock lock(mutex_);
  std::string digest = DigestOf(bytes);
  manifests_[repository + "@" + digest] = {media_type, std::move(bytes)};
  if (!tag.empty()) tags_[repository + ":" + tag] = digest;
  return digest;
}

bool Registry::HasBlob(const std::string& digest) const {
  MutexLock lock(mutex_);
  return blobs_.contains(digest);
}

void Registry::RemoveBlob(const std::string& digest) {
  MutexLock lock(mutex_);
  blobs_.erase(digest);
}

std::vector<Registry::Request> Registry::requests() const {
  MutexLock lock(mutex_);
  return requests_;
}

size_t Registry::CountRequests(std::string_view method, std::string_view path_prefix) const {
  MutexLock lock(mutex_);
  size_t count = 0;
  for (const Request& request : requests_) {
    if (request.method == method && request.target.starts_with(path_prefix)) ++count;
  }
  return count;
}

void Registry::ForgetRequests() {
  MutexLock lock(mutex_);
  requests_.clear();
}

void Registry::Serve(ScriptedPeer::Link& link, bool at_storage) {
  std::string unread;
  while (std::optional<Request> request = ReadRequest(link, &unread)) {
    request->at_storage = at_storage;
    const Duration latency = switches().latency;
    if (latency > Duration::zero()) clock_.SleepFor(latency, {});
    Answer answer = Handle(*request);
    std::string text = fmt::format("HTTP/1.1 {} Answer\r\n", answer.status);
    if (!answer.headers.contains("Content-Length")) {
      answer.headers["Content-Length"] = std::to_string(answer.body.size());
    }
    for (const auto& [name, value] : answer.headers) text += name + ": " + value + "\r\n";
    text += "\r\n";
    const bool is_cut = !answer.cut_at.empty();
    if (answer.cut_at == "head") return link.Cut();
    if (is_cut) answer.body.resize(std::min(answer.body.size(), static_cast<size_t>(std::stoul(answer.cut_at))));
    if (request->method != "HEAD") text += answer.body;
    if (!link.Write(text)) return;
    if (is_cut) return link.Cut();
  }
}

Registry::Answer Registry::Handle(const Request& request) {
  MutexLock lock(mutex_);
  requests_.push_back(request);
  requests_.back().body.clear();
  Answer answer = HandleLocked(request);
  return answer;
}

Registry::Answer Registry::HandleLocked(const Request& request) {
  if (switches_.failures_left > 0) {
    --switches_.failures_left;
    Answer answer{switches_.failure_status, {}, ErrorBody("TOOMANYREQUESTS")};
    if (!switches_.retry_after.empty()) answer.headers["Retry-After"] = switches_.retry_after;
    return answer;
  }
  if (request.at_storage) return Storage(request);
  const std::string path = request.Path();
  if (path == "/token") return GiveToken(request);
  if (switches_.requires_ns && QueryValue(request.target, "ns").empty()) return {400, {}, ErrorBody("UNSUPPORTED")};
  if (!path.starts_with(kApi)) return {404, {}, ""};
  std::string rest = path.substr(kApi.size());
  const bool writes = request.method != "GET" && request.method != "HEAD";
  std::string repository, kind, name;
  for (const char* word : {"/manifests/", "/blobs/uploads/", "/blobs/", "/referrers/"}) {
    const size_t at = rest.find(word);
    if (at == std::string::npos) continue;
    repository = rest.substr(0, at);
    kind = word;
    name = rest.substr(at + kind.size());
    break;
  }
  if (!IsAllowed(request)) return Unauthorized(repository, writes);
  if (writes && switches_.is_read_only) return {405, {}, ErrorBody("UNSUPPORTED")};
  if (kind == "/manifests/") return ManifestCall(request, repository, name);
  if (kind == "/blobs/uploads/") return Upload(request, repository, name);
  if (kind == "/blobs/") return Blob(request, name);
  if (kind == "/referrers/") return Referrers(request, repository, name);
  return rest.empty() ? Answer{200, {}, "{}"} : Answer{404, {}, ErrorBody("NAME_UNKNOWN")};
}

bool Registry::IsAllowed(const Request& request) const {
  if (switches_.auth == RegistrySwitches::Auth::kNone) return true;
  const auto found = request.headers.find("Authorization");
  if (found == request.headers.end()) return false;
  if (switches_.auth == RegistrySwitches::Auth::kBasic) {
    return found->second == "Basic " + EncodeBase64(switches_.username + ":" + switches_.password);
  }
  if (!found->second.starts_with("Bearer ")) return false;
  const auto token = tokens_.find(found->second.substr(7));
  return token != tokens_.end() && clock_.Now() < token->second;
}

Registry::Answer Registry::Unauthorized(const std::string& repository, bool writes) const {
  std::string challenge = "Basic realm=\"fake\"";
  if (switches_.auth == RegistrySwitches::Auth::kBearer) {
    challenge = fmt::format("Bearer realm=\"http://{}/token\",service=\"fake\"", address());
    const char* actions = writes ? "pull,push" : "pull";
    if (!switches_.hides_scope) challenge += fmt::format(",scope=\"repository:{}:{}\"", repository, actions);
  }
  return {401, {{"WWW-Authenticate", challenge}}, ErrorBody("UNAUTHORIZED")};
}

Registry::Answer Registry::GiveToken(const Request& request) {
  const auto found = request.headers.find("Authorization");
  const std::string wanted = "Basic " + EncodeBase64(switches_.username + ":" + switches_.password);
  if (found == request.headers.end() || found->second != wanted) return {401, {}, "{}"};
  const std::string token = fmt::format("token-{}-{}", next_id_++, QueryValue(request.target, "scope").size());
  tokens_[token] = clock_.Now() + switches_.token_lifetime;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(switches_.token_lifetime).count();
  return {200, {}, fmt::format(R"({{"token":"{}","expires_in":{}}})", token, seconds)};
}

Registry::Answer Registry::Storage(const Request& request) {
  const std::string expires = QueryValue(request.target, "signature");
  const int64_t now = clock_.Now().time_since_epoch().count();
  if (expires.empty() || std::stoll(expires) <= now) return {403, {}, "the signature has expired"};
  const auto found = blobs_.find(request.Path().substr(1));
  if (found == blobs_.end()) return {404, {}, ""};
  return BlobBytes(request, found->second);
}

Registry::Answer Registry::Blob(const Request& request, const std::string& digest) {
  const auto found = blobs_.find(digest);
  if (found == blobs_.end()) return {404, {}, ErrorBody("BLOB_UNKNOWN")};
  if (request.method == "HEAD") {
    return {200, {{"Content-Length", std::to_string(found->second.size())}, {"Docker-Content-Digest", digest}}, ""};
  }
  if (!switches_.redirects_blobs) return BlobBytes(request, found->second);
  const int64_t expires = (clock_.Now() + switches_.redirect_lifetime).time_since_epoch().count();
  return {307, {{"Location", fmt::format("http://{}/{}?signature={}", storage_address(), digest, expires)}}, ""};
}

Registry::Answer Registry::BlobBytes(const Request& request, const std::string& bytes) {
  Answer answer{200, {{"Content-Type", "application/octet-stream"}}, bytes};
  const auto header = request.headers.find("Range");
  if (header != request.headers.end() && !switches_.ignores_range) {
    auto range = ReadRange(header->second);
    if (!range || range->first >= bytes.size() || range->second < range->first) return {416, {}, ""};
    range->second = std::min(range->second, bytes.size() - 1);
    if (switches_.shifts_ranges && range->first > 0) {
      --range->first;
      --range->second;
    }
    answer.status = 206;
    answer.body = bytes.substr(range->first, range->second - range->first + 1);
    const size_t label = switches_.mislabels_ranges ? range->first + 1 : range->first;
    answer.headers["Content-Range"] = fmt::format("bytes {}-{}/{}", label, range->second, bytes.size());
  }
  if (switches_.corrupts_blobs && !answer.body.empty()) answer.body[answer.body.size() / 2] ^= 1;
  if (switches_.cuts_left > 0) {
    --switches_.cuts_left;
    answer.headers["Content-Length"] = std::to_string(answer.body.size());
    answer.cut_at = std::to_string(switches_.cut_after_bytes);
  }
  return answer;
}

Registry::Answer Registry::ManifestCall(const Request& request, const std::string& repository,
                                        const std::string& selector) {
  if (request.method == "PUT") return PutManifest(request, repository, selector);
  std::string digest = selector;
  if (const auto tag = tags_.find(repository + ":" + selector); tag != tags_.end()) digest = tag->second;
  const auto found = manifests_.find(repository + "@" + digest);
  if (found == manifests_.end()) return {404, {}, ErrorBody("MANIFEST_UNKNOWN")};
  Answer answer{
      200, {{"Content-Type", found->second.media_type}, {"Docker-Content-Digest", digest}}, found->second.bytes};
  if (switches_.corrupts_manifests) answer.body += " ";
  return answer;
}

Registry::Answer Registry::PutManifest(const Request& request, const std::string& repository,
                                       const std::string& selector) {
  const std::string digest = DigestOf(request.body);
  if (selector.starts_with("sha256:") && selector != digest) return {400, {}, ErrorBody("DIGEST_INVALID")};
  const auto type = request.headers.find("Content-Type");
  manifests_[repository + "@" + digest] = {type == request.headers.end() ? "" : type->second, request.body};
  if (!selector.starts_with("sha256:")) tags_[repository + ":" + selector] = digest;
  Answer answer{
      201, {{"Docker-Content-Digest", digest}, {"Location", "/v2/" + repository + "/manifests/" + digest}}, ""};
  const Result<Json> json = ParseJson(request.body);
  const Result<std::string> subject = json.ok() ? JsonString(*json, "subject.digest") : json.status();
  if (subject.ok() && !switches_.lacks_referrers) answer.headers["OCI-Subject"] = *subject;
  return answer;
}

Registry::Answer Registry::Upload(const Request& request, const std::string& repository, const std::string& id) {
  const auto at = [&](int status, const std::string& upload) REQUIRES(mutex_) {
    const size_t size = uploads_[upload].size();
    const std::string range = size == 0 ? "0-0" : fmt::format("0-{}", size - 1);
    return Answer{
        status,
        {{"Location", fmt::format("/v2/{}/blobs/uploads/{}?state={}", repository, upload, size)}, {"Range", range}},
        ""};
  };
  if (request.method == "POST") {
    const std::string fresh = fmt::format("u{}", next_id_++);
    uploads_[fresh].clear();
    return at(202, fresh);
  }
  const auto found = uploads_.find(id);
  if (found == uploads_.end()) return {404, {}, ErrorBody("BLOB_UPLOAD_UNKNOWN")};
  if (request.method == "GET") return at(204, id);
  if (request.method == "DELETE") {
    uploads_.erase(found);
    return {204, {}, ""};
  }
  if (request.method == "PATCH") {
    const auto range = request.headers.find("Content-Range");
    const bool fits = range == request.headers.end() || std::stoul(range->second) == found->second.size();
    if (!fits) return {416, {}, ErrorBody("BLOB_UPLOAD_INVALID")};
    if (switches_.upload_cuts_left > 0) {
      --switches_.upload_cuts_left;
      found->second += request.body.substr(0, request.body.size() / 2);
      Answer answer;
      answer.cut_at = "head";
      return answer;
    }
    found->second += request.body;
    return at(202, id);
  }
  const std::string whole = found->second + request.body, digest = QueryValue(request.target, "digest");
  if (DigestOf(whole) != digest) return {400, {}, ErrorBody("DIGEST_INVALID")};
  blobs_[digest] = whole;
  uploads_.erase(found);
  return {201, {{"Docker-Content-Digest", digest}}, ""};
}

Registry::Answer Registry::Referrers(const Request& request, const std::string& repository, const std::string& digest) {
  if (switches_.lacks_referrers) return {404, {}, "404 page not found"};
  const std::string wanted = QueryValue(request.target, "artifactType");
  Json list = Json::array();
  for (const auto& [key, manifest] : manifests_) {
    const Result<Json> json = ParseJson(manifest.bytes);
    if (!key.starts_with(repository + "@") || !json.ok()) continue;
    if (JsonStringOr(*json, "subject.digest", "").value_or("") != digest) continue;
    const std::string type = JsonStringOr(*json, "artifactType", "").value_or("");
    if (!wanted.empty() && wanted != type) continue;
    list.push_back({{"mediaType", manifest.media_type},
                    {"digest", key.substr(key.find('@') + 1)},
                    {"size", manifest.bytes.size()},
                    {"artifactType", type}});
  }
  const Json index = {{"schemaVersion", 2}, {"manifests", list}};
  Answer answer{200, {{"Content-Type", "application/vnd.oci.image.index.v1+json"}}, DumpJson(index)};
  if (!wanted.empty()) answer.headers["OCI-Filters-Applied"] = "artifactType";
  return answer;
}

}  // namespace paceline::fakes
