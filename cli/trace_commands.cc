#include "cli/trace_commands.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "analysis/root_cause.h"
#include "analysis/tables_json.h"
#include "cli/error_advice.h"
#include "cli/trace_source.h"
#include "cli/trace_top.h"
#include "lib/api/incident_advice.h"
#include "lib/base/filesystem.h"

namespace paceline::cli {
namespace {

// Cleared from where it stands, so that what was there before the command stays.
constexpr std::string_view kClearScreen = "\x1b[2J\x1b[H";

class TraceGroup final : public TraceCommands {
 public:
  TraceGroup(CLI::App& app, std::string* output, const SessionOptions* session) : session_(session) {
    CLI::App* group =
        app.add_subcommand("trace", "collectives of a training run")->require_subcommand(1)->fallthrough();
    top_ = Add(*group, "top", "live: its communicators, how fast they go, who is behind", output);
    top_->add_option("name", source_.name, "a run, or a job: then its newest run");
    top_->add_option("--every", every_seconds_, "seconds between two looks")
        ->capture_default_str()
        ->check(CLI::Range(0.2, 3600.0));
    top_->add_flag("--once", is_once_, "two looks, then end (so too with json, yaml or without a terminal)");
    diagnose_ = Add(*group, "diagnose", "what keeps a run from going on", output);
    diagnose_->add_option("file", source_.files, "trace tables (JSON); several are taken together");
    diagnose_->add_option("--of", source_.name, "a run or job of the cluster instead, by its agents");
    diagnose_->add_option("--save", save_, "write the tables to this file, to be diagnosed again");
    dump_ = Add(*group, "dump", "what is in flight, as trace tables (JSON)", output);
    dump_->add_option("name", source_.name, "a run, or a job: then its newest run");
    dump_->add_option("--save", save_, "write them to this file and not to standard output");
    export_ = Add(*group, "export", "what ended lately, for Perfetto (ui.perfetto.dev)", output);
    export_->add_option("name", source_.name, "a run, or a job: then its newest run")->required();
    export_->add_option("file", save_, "the file to write")->required();
    for (CLI::App* command : {top_, diagnose_, dump_}) {
      command->add_option("--dir", source_.folder, "rings of the training processes of this machine instead");
      command->add_option("--run", source_.run_filter, "of files and rings: this run only");
    }
    for (CLI::App* command : {top_, diagnose_, dump_, export_}) {
      command->add_flag("--direct", source_.is_direct,
                        "dial the agents' addresses, from within the cluster's network, and not by the API server");
    }
  }

  bool is_given() const override {
    return top_->parsed() || diagnose_->parsed() || dump_->parsed() || export_->parsed();
  }

  int Run(OutputFormat format, const Clock& clock) override {
    Result<std::unique_ptr<TraceSource>> source = TraceSource::Open(source_, *session_, clock);
    if (!source.ok()) return Fail(source.status());
    if (top_->parsed()) return Top(**source, format, clock);
    if (dump_->parsed()) return Dump(**source);
    if (export_->parsed()) return Export(**source);
    return Diagnose(**source, format);
  }

 private:
  static CLI::App* Add(CLI::App& group, const char* name, const char* what, std::string* output) {
    CLI::App* command = group.add_subcommand(name, what);
    command->add_option("-o,--output", *output, "table, json or yaml")->capture_default_str();
    command->fallthrough();
    return command;
  }

  int Top(TraceSource& source, OutputFormat format, const Clock& clock) const {
    const bool is_live = format == OutputFormat::kTable && !is_once_ && ::isatty(STDOUT_FILENO) != 0;
    const auto pause = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(every_seconds_));
    std::optional<TraceLook> before;
    while (true) {
      Result<analysis::Tables> tables = source.Read();
      if (!tables.ok()) return Fail(tables.status());
      TraceLook now{*std::move(tables), clock.Now()};
      const TraceLook* earlier = before ? &*before : nullptr;
      if (is_live) {
        fmt::print("{}{}   every {:g} s, Ctrl-C ends\n\n{}", kClearScreen, source.Title(), every_seconds_,
                   RenderTop(now, earlier));
        std::fflush(stdout);
      } else if (before) {
        fmt::print("{}", format == OutputFormat::kTable ? RenderTop(now, earlier)
                                                        : RenderValue(TopValue(now, earlier), format));
        return 0;
      }
      before = std::move(now);
      clock.SleepFor(pause, {});
    }
  }

  int Diagnose(TraceSource& source, OutputFormat format) {
    Result<analysis::Tables> tables = source.Read();
    if (!tables.ok()) return Fail(tables.status());
    if (!save_.empty()) {
      const Status saved = Save(DumpJson(analysis::WriteTables(*tables)));
      if (!saved.ok()) return Fail(saved);
    }
    const analysis::Verdict verdict = analysis::Diagnose(*tables);
    fmt::print("{}", format == OutputFormat::kTable ? RenderVerdict(verdict)
                                                    : RenderValue(analysis::WriteVerdict(verdict), format));
    return verdict.category == analysis::Category::kNone ? 0 : kExitBroken;
  }

  int Dump(TraceSource& source) {
    const Result<analysis::Tables> tables = source.Read();
    if (!tables.ok()) return Fail(tables.status());
    const std::string text = DumpJson(analysis::WriteTables(*tables)) + "\n";
    if (save_.empty()) {
      fmt::print("{}", text);
      return 0;
    }
    const Status saved = Save(text);
    if (!saved.ok()) return Fail(saved);
    fmt::print(stderr, "{} processes in {}\n", tables->processes.size(), save_);
    return 0;
  }

  int Export(TraceSource& source) {
    std::vector<std::string> missing;
    const Result<std::vector<NodeRecords>> records = source.ReadRecords(&missing);
    if (!records.ok()) return Fail(records.status());
    for (const std::string& what : missing) {
      fmt::print(stderr, "{}", RenderNotice(kNoAnswerAdvice, "pacectl: no answer from " + what));
    }
    const Result<Json> trace = OperationsAsPerfetto(source.Title(), *records);
    if (!trace.ok()) return Fail(trace.status());
    const Status saved = Save(DumpJson(*trace) + "\n");
    if (!saved.ok()) return Fail(saved);
    fmt::print(stderr, "{} events of {} nodes in {}\n", trace->at("traceEvents").size(), records->size(), save_);
    return 0;
  }

  Status Save(const std::string& text) {
    RealFileSystem files;
    return files.WriteFileAtomically(save_, text, 0644);
  }

  const SessionOptions* const session_;
  CLI::App* top_ = nullptr;
  CLI::App* diagnose_ = nullptr;
  CLI::App* dump_ = nullptr;
  CLI::App* export_ = nullptr;
  TraceSourceOptions source_;
  std::string save_;
  double every_seconds_ = 2;
  bool is_once_ = false;
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
    text += fmt::format("edge          rank {} to rank {}{}\n", verdict.edge->from, verdict.edge->to,
                        verdict.edge->channel < 0 ? "" : fmt::format(", channel {}", verdict.edge->channel));
  }
  text += fmt::format("to do         {}\n", api::VerdictAdvice(analysis::CategoryName(verdict.category)).action);
  if (!verdict.evidence.empty()) text += "evidence\n";
  for (const analysis::Evidence& evidence : verdict.evidence) {
    text += fmt::format("  {}: {:.6g}{}{}\n", evidence.name, evidence.value, evidence.unit.empty() ? "" : " ",
                        evidence.unit);
  }
  if (!verdict.not_visible.empty()) text += "not visible\n";
  for (const std::string& what : verdict.not_visible) text += "  " + what + "\n";
  return text;
}

std::unique_ptr<TraceCommands> TraceCommands::AddTo(CLI::App& app, std::string* output, const SessionOptions* session) {
  return std::make_unique<TraceGroup>(app, output, session);
}

}  // namespace paceline::cli
