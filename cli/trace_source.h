// Where `pacectl trace` gets the traces of a run from: the agents of its nodes, the rings of this machine, or files.
//
// Not thread-safe; one per command.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "analysis/trace_model.h"
#include "cli/agent_reader.h"
#include "cli/session.h"
#include "cli/trace_perfetto.h"
#include "lib/base/filesystem.h"

namespace paceline::cli {

// Exactly one of the first three says where.
struct TraceSourceOptions {
  std::vector<std::string> files;
  std::string folder;
  std::string name;        // a run, or a job: then its newest run
  std::string run_filter;  // of files and rings: this run only
  bool is_direct = false;
};

class TraceSource {
 public:
  // Connects to the cluster when `options` names a run. kInvalidArgument when not exactly one source is named.
  static Result<std::unique_ptr<TraceSource>> Open(TraceSourceOptions options, const SessionOptions& session,
                                                   const Clock& clock);

  // What is in flight now. An agent that does not answer is in `missing`; kUnavailable when none does. Blocks.
  Result<analysis::Tables> Read();
  // What the agents remember, by node; of a run in a cluster only, else kInvalidArgument. Blocks.
  Result<std::vector<NodeRecords>> ReadRecords(std::vector<std::string>* missing);
  // "NAMESPACE/NAME" of a run in a cluster, else what was given.
  std::string Title() const;

 private:
  TraceSource(TraceSourceOptions options, const Clock& clock) : options_(std::move(options)), clock_(clock) {}
  Status Find();
  Result<std::vector<AgentAnswer>> Ask(const std::string& what);
  Result<analysis::Tables> FromAgents();
  Result<analysis::Tables> FromHere();

  const TraceSourceOptions options_;
  const Clock& clock_;
  RealFileSystem files_;
  std::unique_ptr<Session> session_;  // null without a cluster
  Duration timeout_{};
  std::string ns_, run_;
  std::vector<std::string> nodes_;  // of the run
};

}  // namespace paceline::cli
