// Who may have recorded a snapshot: the recorder's signature over a snapshot's manifest, written beside it in the store
// and looked at before anything of the snapshot is used. docs/formats/dependency-snapshot.md, section 2.3.
//
// Called by recorder, node agent and pacectl. Trust is a plain value; the functions block for the store or the disk.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/filesystem.h"
#include "lib/base/result.h"
#include "lib/blocks/format/blob_store.h"
#include "lib/blocks/format/signature.h"

namespace paceline::deps {

inline constexpr char kSignatureTagPrefix[] = "paceline-sig-v1-";
inline constexpr char kSignatureArtifactType[] = "application/vnd.paceline.dependency-snapshot.signature.v1";

struct Trust {
  std::optional<blocks::SigningKey> signing;  // recordings are signed with it
  blocks::TrustedKeys trusted;                // the public half of the above is among them
  bool is_required = false;                   // nothing is used without a good signature
};

// Paths of PEM files; empty ones are left out.
struct TrustFiles {
  std::string signing_key;
  std::string trusted_keys;
  bool is_required = false;
};
// Reads the files anew each time, so that keys can be exchanged under a running program. kUnavailable, which names the
// file, when one cannot be read or is no key: then nothing may be recorded, or used where signatures are required.
Result<Trust> LoadTrust(const TrustFiles& paths, const FileSystem& files);

enum class SignatureState { kMissing, kUnknownKey, kWrong, kGood };
struct SignatureFacts {
  SignatureState state = SignatureState::kMissing;
  blocks::KeyId key;  // that it names; empty when it is missing or damaged
};
// `snapshot`: digest of the snapshot's manifest. A failure is the store's.
Result<SignatureFacts> LookAtSignature(blocks::BlobStore& store, const blocks::Digest& snapshot,
                                       const blocks::TrustedKeys& trusted, Deadline deadline);
// "it is not signed"; "" for a good one.
std::string ExplainSignature(const SignatureFacts& facts);

// Signs the manifest `snapshot`, in place of an earlier signature.
Status WriteSignature(blocks::BlobStore& store, const blocks::Descriptor& snapshot, const blocks::SigningKey& key,
                      Deadline deadline);

std::string SignatureTag(const blocks::Digest& snapshot);

}  // namespace paceline::deps
