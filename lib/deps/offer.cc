#include "lib/deps/offer.h"

namespace paceline::deps {

Offer FindOffer(blocks::BlobStore& store, const std::string& key, const Trust& trust, WallTime now, Deadline deadline) {
  Result<FoundSnapshot> found = FindSnapshot(store, key, deadline);
  if (!found.ok()) {
    const StatusCode code = found.status().code();
    const OfferState state = code == StatusCode::kNotFound   ? OfferState::kNone
                             : code == StatusCode::kDataLoss ? OfferState::kDamaged
                                                             : OfferState::kUnavailable;
    return {state, found.status(), std::nullopt};
  }
  Offer offer{OfferState::kUsable, Status(), *std::move(found)};
  if (const auto& quarantine = offer.snapshot->manifest.quarantine; quarantine) {
    offer.state = OfferState::kQuarantined;
    offer.why = NotFoundError("the snapshot was put aside by " + quarantine->by + " at " + quarantine->at + ": " +
                              quarantine->why);
    return offer;
  }
  if (HasEnded(offer.snapshot->record, now)) {
    offer.state = OfferState::kEnded;
    offer.why = NotFoundError("the snapshot of this key ended at " + FormatRfc3339(offer.snapshot->record.expires));
    return offer;
  }
  if (!trust.is_required) return offer;
  const Result<SignatureFacts> signature =
      LookAtSignature(store, offer.snapshot->descriptor.digest, trust.trusted, deadline);
  if (!signature.ok()) return {OfferState::kUnavailable, signature.status(), std::nullopt};
  if (signature->state == SignatureState::kGood) return offer;
  offer.state = OfferState::kNotTrusted;
  offer.why = PermissionDeniedError("the snapshot is not trusted: " + ExplainSignature(*signature));
  return offer;
}

}  // namespace paceline::deps
