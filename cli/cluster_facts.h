// Reads from the API server what `pacectl doctor` judges. Each part is read on its own, so that a missing right hides
// one line and not the whole answer.
#pragma once

#include "cli/doctor.h"
#include "lib/kube/client.h"

namespace paceline::cli {

// Everything but server_version, which the caller has from connecting. Blocks until `deadline` at the latest.
ClusterFacts ReadClusterFacts(kube::Reader& reader, Deadline deadline);

}  // namespace paceline::cli
