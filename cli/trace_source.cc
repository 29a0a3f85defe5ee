#include "cli/trace_source.h"

#include <fmt/format.h>
#include <unistd.h>

#include <set>

#include "analysis/rings/snapshot.h"
#include "analysis/tables_json.h"
#include "cli/runs.h"
#include "lib/net/http_client.h"

namespace paceline::cli {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 30;  // tables of 10,000 ranks are some hundred megabytes

std::string HostName() {
  char name[256] = "";
  if (::gethostname(name, sizeof name - 1) != 0) return "";
  return name;
}

}  // namespace

Result<std::unique_ptr<TraceSource>> TraceSource::Open(TraceSourceOptions options, const SessionOptions& session,
                                                       const Clock& clock) {
  const int named = (options.files.empty() ? 0 : 1) + (options.folder.empty() ? 0 : 1) + (options.name.empty() ? 0 : 1);
  if (named != 1) {
    return InvalidArgumentError(
        "say where the traces are: a run or job of the cluster, --dir with rings of this machine, or files");
  }
  std::unique_ptr<TraceSource> source(new TraceSource(std::move(options), clock));
  if (source->options_.name.empty()) return source;
  RETURN_IF_ERROR(net::InitHttpThreads(2));
  source->timeout_ = session.timeout;
  ASSIGN_OR_RETURN(source->session_, Session::Connect(session, clock));
  RETURN_IF_ERROR(source->Find());
  return source;
}

Status TraceSource::Find() {
  ASSIGN_OR_RETURN(const std::vector<api::TrainingRun> runs, session_->ListRuns(session_->ns()));
  ASSIGN_OR_RETURN(const api::TrainingRun run, FindRun(runs, options_.name));
  ns_ = run.metadata.ns;
  run_ = run.metadata.name;
  std::set<std::string> nodes;
  for (const api::WorkerTimes& worker : run.status.workers) {
    if (!worker.node.empty()) nodes.insert(worker.node);
  }
  nodes_.assign(nodes.begin(), nodes.end());
  if (nodes_.empty()) return UnavailableError(fmt::format("run {}: no worker has a node yet", run_));
  return Status();
}

std::string TraceSource::Title() const {
  if (session_ != nullptr) return ns_ + "/" + run_;
  return options_.folder.empty() ? options_.files.front() : options_.folder;
}

Result<std::vector<AgentAnswer>> TraceSource::Ask(const std::string& what) {
  const std::string target = fmt::format("/v1/traces/{}/{}/{}", net::UrlEncode(ns_), net::UrlEncode(run_), what);
  return AskAgents(*session_, nodes_, target, options_.is_direct ? AgentRoute::kDirect : AgentRoute::kThroughApiServer,
                   clock_, Deadline::After(clock_, timeout_));
}

Result<analysis::Tables> TraceSource::Read() { return session_ != nullptr ? FromAgents() : FromHere(); }

Result<analysis::Tables> TraceSource::FromAgents() {
  ASSIGN_OR_RETURN(std::vector<AgentAnswer> answers, Ask("tables"));
  analysis::Tables all;
  size_t answered = 0;
  for (AgentAnswer& answer : answers) {
    Result<analysis::Tables> tables = answer.body.ok() ? analysis::ParseTables(*answer.body) : answer.body.status();
    if (!tables.ok()) {
      all.missing.push_back(answer.node + ": " + tables.status().message());
      continue;
    }
    ++answered;
    for (analysis::ProcessView& process : tables->processes) process.node = answer.node;
    analysis::Append(*std::move(tables), all);
  }
  if (answered == 0) {
    return UnavailableError(fmt::format("no agent has traces of run {} (is the job traced, and does it run?): {}", run_,
                                        fmt::join(all.missing, "; ")));
  }
  return all;
}

Result<analysis::Tables> TraceSource::FromHere() {
  analysis::Tables tables;
  if (!options_.folder.empty()) {
    analysis::SnapshotOptions options;
    options.folder = options_.folder;
    options.node = HostName();
    ASSIGN_OR_RETURN(tables, analysis::SnapshotRings(options, files_, clock_));
  }
  for (const std::string& path : options_.files) {
    ASSIGN_OR_RETURN(const std::string text, files_.ReadFile(path, kMaxFileBytes));
    ASSIGN_OR_RETURN(analysis::Tables more, analysis::ParseTables(text).Annotate(path));
    analysis::Append(std::move(more), tables);
  }
  if (!options_.run_filter.empty()) {
    std::erase_if(tables.processes, [this](const auto& process) { return process.run != options_.run_filter; });
  }
  return tables;
}

Result<std::vector<NodeRecords>> TraceSource::ReadRecords(std::vector<std::string>* missing) {
  if (session_ == nullptr) {
    return InvalidArgumentError("what has ended is remembered by agents only: name a run or job of the cluster");
  }
  ASSIGN_OR_RETURN(std::vector<AgentAnswer> answers, Ask("records"));
  std::vector<NodeRecords> all;
  for (AgentAnswer& answer : answers) {
    if (answer.body.ok()) {
      all.push_back({answer.node, *std::move(answer.body)});
    } else {
      missing->push_back(answer.node + ": " + answer.body.status().message());
    }
  }
  if (all.empty()) {
    return UnavailableError(fmt::format("no agent remembers run {}: {}", run_, fmt::join(*missing, "; ")));
  }
  return all;
}

}  // namespace paceline::cli
