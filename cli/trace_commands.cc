#include "cli/trace_commands.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "analysis/rings/snapshot.h"
#include "analysis/root_cause.h"
#include "analysis/tables_json.h"
#include "lib/base/filesystem.h"

namespace paceline::cli {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 30;  // tables of 10,000 ranks are some hundred megabytes

std::string HostName() {
  char name[256] = "";
  if (::gethostname(name, sizeof name - 1) != 0) return "";
  return name;
}

class TraceGroup final : public TraceCommands {
 public:
  TraceGroup(CLI::App& app, std::string* output) {
    CLI::App* group =
        app.add_subcommand("trace", "collectives of a training run")->require_subcommand(1)->fallthrough();
    diagnose_ = group->add_subcommand("diagnose", "what keeps a run from going on");
    diagnose_->add_option("file", files_, "trace tables as agents give them (JSON); several are taken together");
    diagnose_->add_option("--dir", folder_, "rings of the training processes of this machine instead");
    diagnose_->add_option("--run", run_, "this run only");
    diagnose_->add_option("--save", save_, "write the tables to this file, to be diagnosed again");
    diagnose_->add_option("-o,--output", *output, "table, json or yaml")->capture_default_str();
    diagnose_->fallthrough();
  }

  bool is_given() const override { return diagnose_->parsed(); }

  int Run(OutputFormat format, const Clock& clock) override {
    Result<analysis::Tables> tables = Read(clock);
    if (!tables.ok()) return Fail(tables.status());
    const analysis::Verdict verdict = analysis::Diagnose(*tables);
    fmt::print("{}", format == OutputFormat::kTable ? RenderVerdict(verdict)
                                                    : RenderValue(analysis::WriteVerdict(verdict), format));
    return verdict.category == analysis::Category::kNone ? 0 : kExitBroken;
  }

 private:
  Result<analysis::Tables> Read(const Clock& clock) {
    RealFileSystem files;
    if (files_.empty() == folder_.empty()) return InvalidArgumentError("give files of trace tables, or --dir");
    analysis::Tables tables;
    if (!folder_.empty()) {
      analysis::SnapshotOptions options;
      options.folder = folder_;
      options.node = HostName();
      ASSIGN_OR_RETURN(tables, analysis::SnapshotRings(options, files, clock));
    }
    for (const std::string& path : files_) {
      ASSIGN_OR_RETURN(const std::string text, files.ReadFile(path, kMaxFileBytes));
      ASSIGN_OR_RETURN(analysis::Tables more, analysis::ParseTables(text).Annotate(path));
      analysis::Append(std::move(more), tables);
    }
    if (!run_.empty()) std::erase_if(tables.processes, [&](const auto& process) { return process.run != run_; });
    if (!save_.empty()) {
      RETURN_IF_ERROR(files.WriteFileAtomically(save_, DumpJson(analysis::WriteTables(tables)), 0644));
    }
    return tables;
  }

  CLI::App* diagnose_ = nullptr;
  std::vector<std::string> files_;
  std::string folder_, run_, save_;
};

}  // namespace

std::string RenderVerdict(const analysis::Verdict& verdict) {
  std::string text = fmt::format("{}: {}\n", analysis::CategoryName(verdict.category), verdict.cause);
  if (verdict.category == analysis::Category::kNone) return text;
  text += fmt::format("confidence    {:.0f} %\n", verdict.confidence * 100);
  for (const analysis::Culprit& culprit : verdict.culprits) {
    text += fmt::format("rank          {} on {} ({})\n", culprit.world_rank, culprit.node, culprit.host);
  }
  if (!verdict.communicator.empty()) text += fmt::format("communicator  {}\n", verdict.communicator);
  if (verdict.edge) {
    text += fmt::format("edge          rank {} to rank {}, channel {}\n", verdict.edge->from, verdict.edge->to,
                        verdict.edge->channel);
  }
  if (!verdict.evidence.empty()) text += "evidence\n";
  for (const analysis::Evidence& evidence : verdict.evidence) {
    text += fmt::format("  {}: {:.6g}{}{}\n", evidence.name, evidence.value, evidence.unit.empty() ? "" : " ",
                        evidence.unit);
  }
  if (!verdict.not_visible.empty()) text += "not visible\n";
  for (const std::string& what : verdict.not_visible) text += "  " + what + "\n";
  return text;
}

std::unique_ptr<TraceCommands> TraceCommands::AddTo(CLI::App& app, std::string* output) {
  return std::make_unique<TraceGroup>(app, output);
}

}  // namespace paceline::cli
