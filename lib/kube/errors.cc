#include "lib/kube/errors.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/kube/wire_proto.h"

namespace paceline::kube {
namespace {

constexpr size_t kQuotedBodyBytes = 200;

std::string TextAt(const nlohmann::json& object, const char* key) {
  auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

int NumberAt(const nlohmann::json& object, const char* key) {
  auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<int>() : 0;
}

void ReadDetails(const nlohmann::json& details, ApiStatus* out) {
  out->retry_after_seconds = NumberAt(details, "retryAfterSeconds");
  auto causes = details.find("causes");
  if (causes == details.end() || !causes->is_array()) return;
  for (const nlohmann::json& cause : *causes) {
    if (!cause.is_object()) continue;
    out->causes.push_back({TextAt(cause, "reason"), TextAt(cause, "message"), TextAt(cause, "field")});
  }
}

// What a body says that is no Status: its first line, as text.
std::string Excerpt(std::string_view body) {
  std::string text(body.substr(0, std::min(body.find('\n'), kQuotedBodyBytes)));
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return text;
}

ApiStatus::Cause ReadCause(std::string_view message) {
  ApiStatus::Cause cause;
  ProtoReader reader(message);
  for (ProtoField field; reader.Next(&field);) {
    if (field.number == 1) cause.reason = field.bytes;
    if (field.number == 2) cause.message = field.bytes;
    if (field.number == 3) cause.field = field.bytes;
  }
  return cause;
}

StatusCode CodeFor(const ApiStatus& api_status) {
  if (IsExpired(api_status)) return StatusCode::kAborted;
  switch (api_status.code) {
    case 404: return StatusCode::kNotFound;
    case 409: return api_status.reason == "AlreadyExists" ? StatusCode::kAlreadyExists : StatusCode::kAborted;
    case 401:
    case 403: return StatusCode::kPermissionDenied;
    case 408:
    case 504: return StatusCode::kDeadlineExceeded;
    case 429: return StatusCode::kUnavailable;
    case 501: return StatusCode::kUnimplemented;
    default: break;
  }
  if (api_status.code >= 500) return StatusCode::kUnavailable;
  if (api_status.code >= 400) return StatusCode::kInvalidArgument;
  return StatusCode::kInternal;  // 1xx and 3xx: not for an API server to say
}

}  // namespace

ApiStatus ParseApiStatus(int http_status, std::string_view body) {
  ApiStatus out;
  out.code = http_status;
  const nlohmann::json parsed = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object() || TextAt(parsed, "kind") != "Status") {
    out.message = Excerpt(body);
    return out;
  }
  if (const int code = NumberAt(parsed, "code"); code != 0) out.code = code;
  out.reason = TextAt(parsed, "reason");
  out.message = TextAt(parsed, "message");
  if (auto details = parsed.find("details"); details != parsed.end() && details->is_object())
    ReadDetails(*details, &out);
  if (auto meta = parsed.find("metadata"); meta != parsed.end() && meta->is_object()) {
    out.continue_token = TextAt(*meta, "continue");
  }
  return out;
}

ApiStatus ParseApiStatusProtobuf(std::string_view message) {
  ApiStatus out;
  ProtoReader reader(message);
  for (ProtoField field; reader.Next(&field);) {
    if (field.number == 3) out.message = field.bytes;
    if (field.number == 4) out.reason = field.bytes;
    if (field.number == 6) out.code = static_cast<int>(field.varint);
    if (field.number != 5) continue;
    ProtoReader details(field.bytes);
    for (ProtoField detail; details.Next(&detail);) {
      if (detail.number == 4) out.causes.push_back(ReadCause(detail.bytes));
      if (detail.number == 5) out.retry_after_seconds = static_cast<int>(detail.varint);
    }
  }
  return out;
}

Status ToStatus(const ApiStatus& api_status, std::string_view what) {
  std::string message = std::string(what) + ": ";
  message += api_status.message.empty() ? "HTTP " + std::to_string(api_status.code) : api_status.message;
  std::string causes;
  for (const ApiStatus::Cause& cause : api_status.causes) {
    // The server's message of an invalid object already lists its causes.
    if (cause.message.empty() || message.find(cause.message) != std::string::npos) continue;
    causes += (causes.empty() ? "" : "; ") + (cause.field.empty() ? "" : cause.field + ": ") + cause.message;
  }
  if (!causes.empty()) message += " (" + causes + ")";
  return Status(CodeFor(api_status), std::move(message));
}

Status ToStatus(const net::HttpResponse& response, std::string_view what) {
  if (response.status >= 200 && response.status < 300) return {};
  return ToStatus(ParseApiStatus(response.status, response.body), what);
}

bool IsExpired(const ApiStatus& api_status) {
  return api_status.code == 410 || api_status.reason == "Expired" || api_status.reason == "Gone";
}

bool IsResourceVersionTooLarge(const ApiStatus& api_status) {
  for (const ApiStatus::Cause& cause : api_status.causes) {
    if (cause.reason == "ResourceVersionTooLarge" || cause.message == "Too large resource version") return true;
  }
  return api_status.reason == "Timeout" && api_status.message.find("Too large resource version") != std::string::npos;
}

}  // namespace paceline::kube
