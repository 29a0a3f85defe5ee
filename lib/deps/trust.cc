#include "lib/deps/trust.h"

#include <map>
#include <nlohmann/json.hpp>

#include "lib/base/base64.h"
#include "lib/base/json.h"
#include "lib/deps/side_object.h"

namespace paceline::deps {
namespace {

constexpr size_t kMaxKeyFileBytes = 1 << 20;
constexpr char kAlgorithm[] = "ed25519";
constexpr char kAlgorithmAnnotation[] = "dev.paceline.signature.algorithm";
constexpr char kSignerAnnotation[] = "dev.paceline.signature.key";
constexpr char kSignatureAnnotation[] = "dev.paceline.signature.value";

// Begins with what it is, so that a signature of one thing is never one of another.
std::string SignedText(const blocks::Digest& snapshot) {
  return "paceline dependency snapshot v1\n" + snapshot.ToString() + "\n";
}

Result<std::string> ReadKeyFile(const std::string& path, const FileSystem& files) {
  Result<std::string> text = files.ReadFile(path, kMaxKeyFileBytes);
  if (text.ok()) return text;
  return UnavailableError("signing: " + text.status().message());
}

Status NoKey(const std::string& path, const Status& why) {
  return UnavailableError("signing: " + path + ": " + why.message());
}

}  // namespace

Result<Trust> LoadTrust(const TrustFiles& paths, const FileSystem& files) {
  Trust trust;
  trust.is_required = paths.is_required;
  if (!paths.signing_key.empty()) {
    ASSIGN_OR_RETURN(const std::string pem, ReadKeyFile(paths.signing_key, files));
    Result<blocks::SigningKey> key = blocks::SigningKey::FromPem(pem);
    if (!key.ok()) return NoKey(paths.signing_key, key.status());
    trust.trusted.Add(key->trusted());
    trust.signing = *std::move(key);
  }
  if (!paths.trusted_keys.empty()) {
    ASSIGN_OR_RETURN(const std::string pem, ReadKeyFile(paths.trusted_keys, files));
    const Result<blocks::TrustedKeys> keys = blocks::TrustedKeys::FromPem(pem);
    if (!keys.ok()) return NoKey(paths.trusted_keys, keys.status());
    trust.trusted.Add(*keys);
  }
  if (trust.is_required && trust.trusted.empty()) {
    return UnavailableError("signing: signatures are required, and no key is trusted");
  }
  return trust;
}

std::string SignatureTag(const blocks::Digest& snapshot) { return kSignatureTagPrefix + snapshot.Hex(); }

Result<SignatureFacts> LookAtSignature(blocks::BlobStore& store, const blocks::Digest& snapshot,
                                       const blocks::TrustedKeys& trusted, Deadline deadline) {
  const Result<SideObject> object = ReadSideObject(store, SignatureTag(snapshot), kSignatureArtifactType, deadline);
  if (!object.ok() && object.status().code() == StatusCode::kNotFound) return SignatureFacts{};
  if (!object.ok() && object.status().code() == StatusCode::kDataLoss) {
    return SignatureFacts{SignatureState::kWrong, ""};
  }
  if (!object.ok()) return object.status();
  SignatureFacts facts{SignatureState::kWrong, object->Annotation(kSignerAnnotation)};
  const Result<std::string> bytes = DecodeBase64(object->Annotation(kSignatureAnnotation));
  const bool is_whole =
      bytes.ok() && object->Annotation(kAlgorithmAnnotation) == kAlgorithm && object->subject == snapshot;
  if (!is_whole) return facts;
  switch (trusted.Verify(SignedText(snapshot), {facts.key, *bytes})) {
    case blocks::SignatureVerdict::kGood: facts.state = SignatureState::kGood; break;
    case blocks::SignatureVerdict::kUnknownKey: facts.state = SignatureState::kUnknownKey; break;
    case blocks::SignatureVerdict::kWrong: break;
  }
  return facts;
}

std::string ExplainSignature(const SignatureFacts& facts) {
  switch (facts.state) {
    case SignatureState::kMissing: return "it is not signed";
    case SignatureState::kUnknownKey:
      return "it is signed by the key " + facts.key.substr(0, 16) + ", which is not trusted";
    case SignatureState::kWrong: return "its signature is wrong";
    case SignatureState::kGood: break;
  }
  return "";
}

Status WriteSignature(blocks::BlobStore& store, const blocks::Descriptor& snapshot, const blocks::SigningKey& key,
                      Deadline deadline) {
  ASSIGN_OR_RETURN(const blocks::Signature signature, key.Sign(SignedText(snapshot.digest)));
  return WriteSideObject(store, SignatureTag(snapshot.digest), kSignatureArtifactType, snapshot,
                         {{kAlgorithmAnnotation, kAlgorithm},
                          {kSignerAnnotation, signature.key},
                          {kSignatureAnnotation, EncodeBase64(signature.bytes)}},
                         deadline);
}

}  // namespace paceline::deps
