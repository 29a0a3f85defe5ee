// What agents remember of a run's operations as Chrome trace JSON, which Perfetto (ui.perfetto.dev) opens. Pure.
#pragma once

#include <string>
#include <vector>

#include "lib/base/json.h"
#include "lib/base/result.h"

namespace paceline::cli {

// The records of one node, as in docs/formats/trace-tables.md.
struct NodeRecords {
  std::string node;
  std::string records;  // JSON
};

// A process per node, a track per rank and communicator, an event per operation, a mark per trigger. Times are those of
// each node's own clock, from the first operation on. Entries that lack a time or a rank are left out: documents come
// from other machines. kInvalidArgument names the node whose records are no JSON.
Result<Json> OperationsAsPerfetto(const std::string& run, const std::vector<NodeRecords>& nodes);

}  // namespace paceline::cli
