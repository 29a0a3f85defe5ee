// Small objects beside a snapshot that hold annotations only: signatures and uses. An OCI image manifest with the empty
// config, one empty layer and the snapshot's manifest as its subject. docs/formats/dependency-snapshot.md, section 2.
//
// Used inside lib/deps. Stateless; calls block for the store, at most until their deadline.
#pragma once

#include <map>
#include <string>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/blocks/format/blob_store.h"

namespace paceline::deps {

struct SideObject {
  blocks::Digest subject;
  std::map<std::string, std::string> annotations;

  // "" when it is not there.
  std::string Annotation(const std::string& name) const;
};

// kNotFound; kDataLoss for something else under the tag.
Result<SideObject> ReadSideObject(blocks::BlobStore& store, const std::string& tag, const std::string& artifact_type,
                                  Deadline deadline);
Status WriteSideObject(blocks::BlobStore& store, const std::string& tag, const std::string& artifact_type,
                       const blocks::Descriptor& subject, const std::map<std::string, std::string>& annotations,
                       Deadline deadline);

}  // namespace paceline::deps
