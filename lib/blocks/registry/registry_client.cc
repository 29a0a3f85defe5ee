#include "lib/blocks/registry/registry_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "lib/base/json.h"
#include "lib/blocks/registry/upload.h"

namespace paceline::blocks {
namespace {

constexpr char kIndexType[] = "application/vnd.oci.image.index.v1+json";
constexpr char kAcceptManifests[] =
    "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, "
    "application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json";
constexpr int kMaxPages = 100;
constexpr size_t kMaxReferrers = 10000;

RegistryCall PullCall(const ImageReference& image, std::string method, std::string path) {
  RegistryCall call;
  call.registry = image.registry;
  call.api_host = image.ApiHost();
  call.repository = image.repository;
  call.method = std::move(method);
  call.path = std::move(path);
  return call;
}

// Hands a whole blob on, over as many answers as it takes; bytes that a new answer repeats are skipped.
class BlobReceiver {
 public:
  BlobReceiver(const Descriptor& blob, const net::BodyConsumer& consumer) : blob_(blob), consumer_(consumer) {}

  uint64_t done_bytes() const { return done_; }

  // For the attempt that is about to be made.
  net::Headers Headers() {
    asked_from_ = done_;
    if (done_ == 0) return {};
    return {{"Range", RangeHeader({done_, blob_.size_bytes - done_})}};
  }

  Status Begin(const net::HttpResponse& head) {
    skip_ = 0;
    if (asked_from_ > 0 && head.status != 200) {
      return CheckRangeAnswer(head, {asked_from_, blob_.size_bytes - asked_from_});
    }
    if (head.status != 200) return DataLossError(fmt::format("HTTP status {} to a request for a blob", head.status));
    skip_ = done_;  // a server without ranges: all of it comes again
    return Status();
  }

  Status Take(std::string_view piece) {
    const auto skipped = static_cast<size_t>(std::min<uint64_t>(skip_, piece.size()));
    piece.remove_prefix(skipped);
    skip_ -= skipped;
    if (piece.size() > blob_.size_bytes - done_) {
      return DataLossError(fmt::format("the blob is longer than its {} bytes", blob_.size_bytes));
    }
    hash_.Update(piece);
    done_ += piece.size();
    return consumer_(piece);
  }

  Status Finish() {
    if (done_ != blob_.size_bytes) {
      return DataLossError(fmt::format("the blob ended after {} of {} bytes", done_, blob_.size_bytes));
    }
    if (hash_.Finish() != blob_.digest) return DataLossError("the blob's bytes have another digest");
    return Status();
  }

 private:
  const Descriptor& blob_;
  const net::BodyConsumer& consumer_;
  uint64_t done_ = 0;
  uint64_t asked_from_ = 0;
  uint64_t skip_ = 0;  // bytes of this answer that were handed on before
  Sha256 hash_;
};

// Fills a buffer from the answer to one ranged request.
class RangeReceiver {
 public:
  RangeReceiver(ByteRange range, std::span<char> out) : range_(range), out_(out) {}

  Status Begin(const net::HttpResponse& head) {
    filled_ = 0;
    return CheckRangeAnswer(head, range_);
  }
  Status Take(std::string_view piece) {
    if (piece.size() > out_.size() - filled_) return DataLossError("more bytes than the range has");
    std::copy(piece.begin(), piece.end(), out_.begin() + static_cast<std::ptrdiff_t>(filled_));
    filled_ += piece.size();
    return Status();
  }
  Status Finish() const {
    return filled_ == out_.size() ? Status() : DataLossError("the answer is shorter than the range");
  }

 private:
  const ByteRange range_;
  const std::span<char> out_;
  size_t filled_ = 0;
};

// <https://host/v2/...?n=1>; rel="next"
std::string NextLink(std::string_view header) {
  const size_t open = header.find('<'), close = header.find('>');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return "";
  if (header.substr(close).find("rel=\"next\"") == std::string_view::npos) return "";
  return std::string(header.substr(open + 1, close - open - 1));
}

Result<Referrer> ReadReferrer(const Json& json) {
  Referrer referrer;
  ASSIGN_OR_RETURN(const std::string digest, JsonString(json, "digest"));
  ASSIGN_OR_RETURN(referrer.descriptor.digest, ParseDigest(digest));
  ASSIGN_OR_RETURN(referrer.descriptor.media_type, JsonString(json, "mediaType"));
  ASSIGN_OR_RETURN(const int64_t size, JsonInt(json, "size"));
  if (size < 0) return DataLossError("a negative size");
  referrer.descriptor.size_bytes = static_cast<uint64_t>(size);
  ASSIGN_OR_RETURN(referrer.artifact_type, JsonStringOr(json, "artifactType", ""));
  if (const Json* annotations = FindJson(json, "annotations"); annotations != nullptr && annotations->is_object()) {
    for (const auto& [key, value] : annotations->items()) {
      if (value.is_string()) referrer.descriptor.annotations[key] = value.get<std::string>();
    }
  }
  return referrer;
}

// Adds the entries of one page. An entry that cannot be read is somebody else's and is passed over: anyone with push
// right may have written it.
Status AddReferrers(std::string_view body, const std::string& artifact_type, std::vector<Referrer>* all) {
  const Result<Json> index = ParseJson(body);
  const Json* manifests = index.ok() ? FindJson(*index, "manifests") : nullptr;
  if (!index.ok() || (manifests != nullptr && !manifests->is_array())) {
    return DataLossError("the list of referrers is no image index");
  }
  if (manifests == nullptr) return Status();
  for (const Json& entry : *manifests) {
    Result<Referrer> referrer = ReadReferrer(entry);
    if (!referrer.ok() || (!artifact_type.empty() && referrer->artifact_type != artifact_type)) continue;
    if (all->size() >= kMaxReferrers) return ResourceExhaustedError("too many referrers");
    all->push_back(*std::move(referrer));
  }
  return Status();
}

std::string FallbackTag(const Digest& subject) { return "sha256-" + subject.Hex(); }

Json ReferrerJson(const Referrer& referrer) {
  Json json = {{"mediaType", referrer.descriptor.media_type},
               {"digest", referrer.descriptor.digest.ToString()},
               {"size", referrer.descriptor.size_bytes}};
  if (!referrer.artifact_type.empty()) json["artifactType"] = referrer.artifact_type;
  if (!referrer.descriptor.annotations.empty()) json["annotations"] = referrer.descriptor.annotations;
  return json;
}

// What a manifest is attached to, and how it will be listed there; nothing without a subject.
std::optional<std::pair<Digest, Referrer>> SubjectOf(std::string_view bytes, const Descriptor& manifest) {
  const Result<Json> json = ParseJson(bytes);
  if (!json.ok()) return std::nullopt;
  const Result<std::string> text = JsonString(*json, "subject.digest");
  const Result<Digest> subject = text.ok() ? ParseDigest(*text) : text.status();
  if (!subject.ok()) return std::nullopt;
  Referrer referrer;
  referrer.descriptor = manifest;
  referrer.artifact_type = JsonStringOr(*json, "artifactType", "").value_or("");
  if (referrer.artifact_type.empty()) {
    referrer.artifact_type = JsonStringOr(*json, "config.mediaType", "").value_or("");
  }
  return std::make_pair(*subject, std::move(referrer));
}

}  // namespace

Result<std::unique_ptr<RegistryClient>> RegistryClient::New(RegistryOptions options, const FileSystem& files,
                                                            const Clock& clock) {
  ASSIGN_OR_RETURN(std::unique_ptr<RegistryExchange> exchange, RegistryExchange::New(std::move(options), files, clock));
  return std::unique_ptr<RegistryClient>(new RegistryClient(std::move(exchange), clock));
}

Result<StoredManifest> RegistryClient::GetManifest(const ImageReference& image, Deadline deadline,
                                                   std::stop_token stop) {
  RegistryCall call = PullCall(image, "GET", "manifests/" + image.Selector());
  if (image.digest.empty()) call.use = RegistryCall::Use::kResolve;
  call.headers["Accept"] = kAcceptManifests;
  StoredManifest manifest;
  std::string expected = image.digest;
  // Checked while it comes, so that a mirror with wrong bytes costs one try at the next host.
  const AnswerSink sink = {[&](const net::HttpResponse& head) {
                             manifest.bytes.clear();
                             manifest.descriptor.media_type = head.Header("Content-Type");
                             if (image.digest.empty()) expected = head.Header("Docker-Content-Digest");
                             return Status();
                           },
                           [&](std::string_view piece) {
                             manifest.bytes += piece;
                             if (manifest.bytes.size() <= kMaxManifestBytes) return Status();
                             return ResourceExhaustedError("the manifest is over 4 MiB");
                           },
                           [&] {
                             manifest.descriptor.digest = Sha256Of(manifest.bytes);
                             const bool is_known = IsSha256Digest(expected);
                             if (!is_known || expected == manifest.descriptor.digest.ToString()) return Status();
                             return DataLossError("the manifest's bytes have another digest");
                           }};
  RETURN_IF_ERROR(exchange_->Run(call, &sink, deadline, std::move(stop)).status());
  manifest.descriptor.size_bytes = manifest.bytes.size();
  std::string& type = manifest.descriptor.media_type;
  type = type.substr(0, type.find(';'));
  return manifest;
}

Result<uint64_t> RegistryClient::StatBlob(const ImageReference& repository, const Digest& digest, Deadline deadline,
                                          std::stop_token stop) {
  const RegistryCall call = PullCall(repository, "HEAD", "blobs/" + digest.ToString());
  ASSIGN_OR_RETURN(const RegistryAnswer answer, exchange_->Run(call, nullptr, deadline, std::move(stop)));
  const std::string_view text = answer.response.Header("Content-Length");
  uint64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    return UnavailableError("the registry does not say how large blob " + digest.ToString() + " is");
  }
  return size;
}

Status RegistryClient::ReadRange(const ImageReference& repository, const Digest& digest, uint64_t offset_bytes,
                                 std::span<char> out, Deadline deadline, std::stop_token stop) {
  if (out.empty()) return Status();
  const ByteRange range = {offset_bytes, out.size()};
  RegistryCall call = PullCall(repository, "GET", "blobs/" + digest.ToString());
  call.headers["Range"] = RangeHeader(range);
  RangeReceiver receiver(range, out);
  const AnswerSink sink = {[&](const net::HttpResponse& head) { return receiver.Begin(head); },
                           [&](std::string_view piece) { return receiver.Take(piece); },
                           [&] { return receiver.Finish(); }};
  return exchange_->Run(call, &sink, deadline, std::move(stop)).status();
}

Status RegistryClient::ReadBlob(const ImageReference& repository, const Descriptor& blob,
                                const net::BodyConsumer& consumer, Deadline deadline, std::stop_token stop) {
  BlobReceiver receiver(blob, consumer);
  RegistryCall call = PullCall(repository, "GET", "blobs/" + blob.digest.ToString());
  call.more_headers = [&] { return receiver.Headers(); };
  const AnswerSink sink = {[&](const net::HttpResponse& head) { return receiver.Begin(head); },
                           [&](std::string_view piece) { return receiver.Take(piece); }, nullptr};
  while (true) {
    const uint64_t before = receiver.done_bytes();
    const Status status = exchange_->Run(call, &sink, deadline, stop).status();
    if (status.ok()) return receiver.Finish().Annotate(blob.digest.ToString());
    // A line that breaks again and again but brings more each time is still a line.
    const bool got_further = receiver.done_bytes() > before && receiver.done_bytes() < blob.size_bytes;
    if (status.code() != StatusCode::kUnavailable || !got_further) return status;
  }
}

Status RegistryClient::PushBlob(const ImageReference& repository, const Digest& digest, std::string_view bytes,
                                Deadline deadline, std::stop_token stop) {
  const RegistryCall look = PushCall(repository, "HEAD", "blobs/" + digest.ToString());
  if (exchange_->Run(look, nullptr, deadline, stop).ok()) return Status();
  const RegistryCall start = PushCall(repository, "POST", "blobs/uploads/");
  ASSIGN_OR_RETURN(const RegistryAnswer started, exchange_->Run(start, nullptr, deadline, stop));
  ASSIGN_OR_RETURN(const Address location, UploadLocation(started));
  RegistryCall put = PushCall(repository, "PUT", "");
  put.location = WithDigest(location, digest);
  put.headers["Content-Type"] = "application/octet-stream";
  put.body = bytes;
  const Status status = exchange_->Run(put, nullptr, deadline, stop).status();
  if (status.code() != StatusCode::kNotFound) return status;
  // A first try whose answer was lost has ended the upload.
  return exchange_->Run(look, nullptr, deadline, stop).ok() ? Status() : status;
}

Result<std::unique_ptr<BlobWriter>> RegistryClient::NewUpload(const ImageReference& repository, size_t chunk_bytes,
                                                              Deadline deadline, std::stop_token stop) {
  const RegistryCall start = PushCall(repository, "POST", "blobs/uploads/");
  ASSIGN_OR_RETURN(const RegistryAnswer started, exchange_->Run(start, nullptr, deadline, stop));
  ASSIGN_OR_RETURN(Address location, UploadLocation(started));
  return std::unique_ptr<BlobWriter>(std::make_unique<ChunkedUpload>(
      *exchange_, clock_, repository, std::move(location), chunk_bytes, std::move(stop)));
}

Result<Descriptor> RegistryClient::PushManifest(const ImageReference& image, const std::string& media_type,
                                                std::string_view bytes, Deadline deadline, std::stop_token stop) {
  Descriptor manifest;
  manifest.media_type = media_type;
  manifest.digest = Sha256Of(bytes);
  manifest.size_bytes = bytes.size();
  RegistryCall call =
      PushCall(image, "PUT", "manifests/" + (image.tag.empty() ? manifest.digest.ToString() : image.tag));
  call.headers["Content-Type"] = media_type;
  call.body = bytes;
  ASSIGN_OR_RETURN(const RegistryAnswer answer, exchange_->Run(call, nullptr, deadline, stop));
  const auto subject = SubjectOf(bytes, manifest);
  if (!subject || !answer.response.Header("OCI-Subject").empty()) return manifest;
  RETURN_IF_ERROR(AddToFallbackTag(image, subject->first, subject->second, deadline, std::move(stop))
                      .Annotate("list the manifest as a referrer"));
  return manifest;
}

Status RegistryClient::AddToFallbackTag(const ImageReference& image, const Digest& subject, const Referrer& referrer,
                                        Deadline deadline, std::stop_token stop) {
  ImageReference list = image;
  list.digest.clear();
  list.tag = FallbackTag(subject);
  Json index = {{"schemaVersion", 2}, {"mediaType", kIndexType}, {"manifests", Json::array()}};
  const Result<StoredManifest> old = GetManifest(list, deadline, stop);
  if (old.ok()) {
    Result<Json> parsed = ParseJson(old->bytes);
    const bool is_index =
        parsed.ok() && parsed->is_object() && parsed->contains("manifests") && (*parsed)["manifests"].is_array();
    if (is_index) index = *std::move(parsed);
  } else if (old.status().code() != StatusCode::kNotFound) {
    return old.status();
  }
  for (const Json& entry : index["manifests"]) {
    if (JsonStringOr(entry, "digest", "").value_or("") == referrer.descriptor.digest.ToString()) return Status();
  }
  index["manifests"].push_back(ReferrerJson(referrer));
  const std::string bytes = DumpJson(index);
  RegistryCall call = PushCall(list, "PUT", "manifests/" + list.tag);
  call.headers["Content-Type"] = kIndexType;
  call.body = bytes;
  return exchange_->Run(call, nullptr, deadline, std::move(stop)).status();
}

Result<std::vector<Referrer>> RegistryClient::ListReferrers(const ImageReference& repository, const Digest& subject,
                                                            const std::string& artifact_type, Deadline deadline,
                                                            std::stop_token stop) {
  std::vector<Referrer> all;
  RegistryCall call = PullCall(repository, "GET", "referrers/" + subject.ToString());
  if (!artifact_type.empty()) call.path += "?artifactType=" + net::UrlEncode(artifact_type);
  call.use = RegistryCall::Use::kUpstream;  // only the registry itself knows what was attached a moment ago
  for (int page = 0; page < kMaxPages; ++page) {
    const Result<RegistryAnswer> answer = exchange_->Run(call, nullptr, deadline, stop);
    if (!answer.ok()) {
      const StatusCode code = answer.status().code();
      const bool is_unknown =
          code == StatusCode::kNotFound || code == StatusCode::kUnimplemented || code == StatusCode::kInvalidArgument;
      if (page > 0 || !is_unknown) return answer.status();
      break;  // a registry without this API
    }
    RETURN_IF_ERROR(AddReferrers(answer->response.body, artifact_type, &all));
    const std::string next = NextLink(answer->response.Header("Link"));
    if (next.empty()) return all;
    ASSIGN_OR_RETURN(const Address address, ResolveLocation(answer->asked.url, answer->asked.target, next));
    call.location = address;
  }
  ImageReference list = repository;
  list.digest.clear();
  list.tag = FallbackTag(subject);
  const Result<StoredManifest> index = GetManifest(list, deadline, std::move(stop));
  if (!index.ok() && index.status().code() == StatusCode::kNotFound) return all;
  if (!index.ok()) return index.status();
  RETURN_IF_ERROR(AddReferrers(index->bytes, artifact_type, &all));
  return all;
}

}  // namespace paceline::blocks
