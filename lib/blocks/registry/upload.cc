#include "lib/blocks/registry/upload.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "lib/base/backoff.h"

namespace paceline::blocks {
namespace {

constexpr int kMaxTries = 6;  // without the registry having got any further
constexpr std::chrono::seconds kCancelLimit{5};

// The last byte that "0-1023" or "bytes=0-1023" says is there; nothing for an empty upload or what is no range.
std::optional<uint64_t> LastByte(std::string_view range) {
  const size_t dash = range.rfind('-');
  if (dash == std::string_view::npos) return std::nullopt;
  uint64_t last = 0;
  const std::string_view digits = range.substr(dash + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), last);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return last;
}

}  // namespace

Result<Address> UploadLocation(const RegistryAnswer& answer) {
  return ResolveLocation(answer.asked.url, answer.asked.target, answer.response.Header("Location"));
}

Address WithDigest(Address location, const Digest& digest) {
  location.target += location.target.find('?') == std::string::npos ? '?' : '&';
  location.target += "digest=" + net::UrlEncode(digest.ToString());
  return location;
}

RegistryCall PushCall(const ImageReference& repository, std::string method, std::string path) {
  RegistryCall call;
  call.use = RegistryCall::Use::kPush;
  call.registry = repository.registry;
  call.api_host = repository.ApiHost();
  call.repository = repository.repository;
  call.method = std::move(method);
  call.path = std::move(path);
  return call;
}

ChunkedUpload::ChunkedUpload(RegistryExchange& exchange, const Clock& clock, ImageReference repository,
                             Address location, size_t chunk_bytes, std::stop_token stop)
    : exchange_(exchange),
      clock_(clock),
      repository_(std::move(repository)),
      location_(std::move(location)),
      chunk_bytes_(chunk_bytes),
      stop_(std::move(stop)) {}

ChunkedUpload::~ChunkedUpload() {
  if (is_ended_) return;
  RegistryCall call = PushCall(repository_, "DELETE", "");
  call.location = location_;
  call.is_repeatable = false;
  // A registry drops what is left over by itself, later.
  exchange_.Run(call, nullptr, Deadline::After(clock_, kCancelLimit), {}).status().IgnoreError();
}

Status ChunkedUpload::Append(std::string_view bytes, Deadline deadline) {
  hash_.Update(bytes);
  while (!bytes.empty()) {
    const size_t taken = std::min(bytes.size(), chunk_bytes_ - pending_.size());
    pending_ += bytes.substr(0, taken);
    bytes.remove_prefix(taken);
    if (pending_.size() == chunk_bytes_) RETURN_IF_ERROR(Flush(deadline));
  }
  return Status();
}

Status ChunkedUpload::SendPending(Deadline deadline) {
  RegistryCall call = PushCall(repository_, "PATCH", "");
  call.location = location_;
  call.is_repeatable = false;  // where the registry got to has to be asked first
  call.headers["Content-Type"] = "application/octet-stream";
  call.headers["Content-Range"] = fmt::format("{}-{}", sent_bytes_, sent_bytes_ + pending_.size() - 1);
  call.body = pending_;
  ASSIGN_OR_RETURN(const RegistryAnswer answer, exchange_.Run(call, nullptr, deadline, stop_));
  ASSIGN_OR_RETURN(location_, UploadLocation(answer));
  const std::optional<uint64_t> last = LastByte(answer.response.Header("Range"));
  if (last && *last + 1 != sent_bytes_ + pending_.size()) {
    return UnavailableError("the registry took a part of the chunk");
  }
  sent_bytes_ += pending_.size();
  pending_.clear();
  return Status();
}

Status ChunkedUpload::Resume(Deadline deadline) {
  RegistryCall call = PushCall(repository_, "GET", "");
  call.location = location_;
  ASSIGN_OR_RETURN(const RegistryAnswer answer, exchange_.Run(call, nullptr, deadline, stop_));
  if (!answer.response.Header("Location").empty()) {
    ASSIGN_OR_RETURN(location_, UploadLocation(answer));
  }
  const std::string_view range = answer.response.Header("Range");
  const std::optional<uint64_t> last = LastByte(range);
  // "0-0" is how registries write both "one byte" and "none"; one byte more or less would be a wrong blob.
  const uint64_t there = !last || *last == 0 ? 0 : *last + 1;
  if (there < sent_bytes_ || there > sent_bytes_ + pending_.size()) {
    return DataLossError(fmt::format("the registry holds {} bytes of the upload, {} to {} were sent", there,
                                     sent_bytes_, sent_bytes_ + pending_.size()));
  }
  pending_.erase(0, there - sent_bytes_);
  sent_bytes_ = there;
  return Status();
}

Status ChunkedUpload::Flush(Deadline deadline) {
  Backoff backoff({.initial = std::chrono::milliseconds(200), .max = std::chrono::seconds(5)}, MakeRandomSource());
  while (!pending_.empty()) {
    const Status sent = SendPending(deadline);
    if (sent.ok()) return Status();
    // 416 says that the chunk does not begin where the registry is.
    const bool may_resume = sent.code() == StatusCode::kUnavailable || sent.code() == StatusCode::kInvalidArgument;
    if (!may_resume || backoff.failures() + 1 >= kMaxTries) return sent;
    const Duration wait = backoff.Next();
    if (wait >= deadline.Remaining(clock_)) return sent;
    if (!clock_.SleepFor(wait, stop_)) return CancelledError("stopped in an upload");
    const uint64_t before = sent_bytes_;
    const Status resumed = Resume(deadline);
    if (!resumed.ok()) return sent.code() == StatusCode::kInvalidArgument ? sent : resumed;
    if (sent_bytes_ > before) backoff.Reset();
  }
  return Status();
}

Result<Descriptor> ChunkedUpload::Commit(Deadline deadline) {
  RETURN_IF_ERROR(Flush(deadline));
  Descriptor blob;
  blob.digest = hash_.Finish();
  blob.size_bytes = sent_bytes_;
  RegistryCall call = PushCall(repository_, "PUT", "");
  call.location = WithDigest(location_, blob.digest);
  call.headers["Content-Type"] = "application/octet-stream";
  const Result<RegistryAnswer> answer = exchange_.Run(call, nullptr, deadline, stop_);
  is_ended_ = true;
  if (answer.ok()) return blob;
  if (answer.status().code() != StatusCode::kNotFound) return answer.status();
  // The first PUT may have worked and its answer been lost: then the upload is gone and the blob is there.
  RegistryCall look = PushCall(repository_, "HEAD", "blobs/" + blob.digest.ToString());
  if (!exchange_.Run(look, nullptr, deadline, stop_).ok()) return answer.status();
  return blob;
}

}  // namespace paceline::blocks
