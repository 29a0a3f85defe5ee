// pacectl, also installed as kubectl-paceline so that `kubectl paceline ...` works. Flags and wiring only: what is
// printed is made by the pure functions of runs.h, doctor.h and output.h.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/cluster_facts.h"
#include "cli/compare.h"
#include "cli/deps_commands.h"
#include "cli/doctor.h"
#include "cli/error_advice.h"
#include "cli/fs_commands.h"
#include "cli/image_commands.h"
#include "cli/job_restart.h"
#include "cli/mount_commands.h"
#include "cli/node_probe.h"
#include "cli/output.h"
#include "cli/run_perfetto.h"
#include "cli/runs.h"
#include "cli/session.h"
#include "cli/trace_commands.h"
#include "cli/whatif_command.h"
#include "lib/api/codec.h"
#include "lib/base/filesystem.h"
#include "lib/base/version.h"
#include "lib/net/http_client.h"

namespace paceline::cli {
namespace {

struct Options {
  SessionOptions session;
  bool all_namespaces = false;
  std::string output = "table";
  std::string job_name, reason;  // to restart
  std::string run_name;
  std::vector<std::string> run_names;  // to compare
  NodeProbeOptions probe;
  std::string perfetto_file;
  std::string color = "auto";
};

// Exit codes: 0 fine, 1 failed, 2 wrong usage (CLI11's own codes are folded into it), 3 doctor found something broken.
constexpr int kUsageError = 2;

WaterfallStyle StyleOf(const Options& options) {
  WaterfallStyle style;
  winsize size{};
  const bool is_terminal = isatty(STDOUT_FILENO) != 0;
  if (is_terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) style.width = size.ws_col;
  const char* no_color = std::getenv("NO_COLOR");  // https://no-color.org
  const bool may_color = is_terminal && (no_color == nullptr || *no_color == '\0');
  style.use_color = options.color == "always" || (options.color == "auto" && may_color);
  return style;
}

// A command body: connected, with the output format checked.
using Command = int (*)(const Options& options, OutputFormat format, Session& session, WallTime now);

int DoJobList(const Options& options, OutputFormat format, Session& session, WallTime now) {
  const std::string ns = options.all_namespaces ? "" : session.ns();
  Result<std::vector<api::TrainingJob>> jobs = session.ListJobs(ns);
  if (!jobs.ok()) return Fail(jobs.status());
  Result<std::vector<api::TrainingRun>> runs = session.ListRuns(ns);
  if (!runs.ok()) return Fail(runs.status());
  if (format != OutputFormat::kTable) {
    fmt::print("{}", RenderValue(JobList(*jobs, *runs), format));
    return 0;
  }
  const Table table =
      JobTable(*jobs, *runs, options.all_namespaces ? NamespaceColumn::kShow : NamespaceColumn::kHide, now);
  if (table.rows.empty()) {
    fmt::print(stderr,
               "no training jobs in {}; annotate one with paceline.dev/enabled: \"true\", or create a TrainingJob\n",
               options.all_namespaces ? std::string("any namespace") : "namespace " + ns);
    return 0;
  }
  fmt::print("{}", RenderTable(table));
  return 0;
}

int DoJobRestart(const Options& options, OutputFormat format, Session& session, WallTime) {
  const Result<api::TrainingJob> job = AskForRestart(session, options.job_name, options.reason);
  if (!job.ok()) return Fail(job.status());
  if (format != OutputFormat::kTable) {
    fmt::print("{}", RenderValue(RestartValue(*job), format));
    return 0;
  }
  fmt::print("TrainingJob {}/{} was asked to end start {} and to begin the next; see: pacectl run ls -n {}\n",
             job->metadata.ns, job->metadata.name, job->status.run_generation, job->metadata.ns);
  return 0;
}

int DoRunList(const Options& options, OutputFormat format, Session& session, WallTime now) {
  const std::string ns = options.all_namespaces ? "" : session.ns();
  Result<std::vector<api::TrainingRun>> runs = session.ListRuns(ns);
  if (!runs.ok()) return Fail(runs.status());
  if (format != OutputFormat::kTable) {
    nlohmann::json list = nlohmann::json::array();
    for (const api::TrainingRun& run : *runs) list.push_back(api::ToJson(run));
    fmt::print("{}", RenderValue(list, format));
    return 0;
  }
  if (runs->empty()) {
    fmt::print(stderr, "no runs in {}\n", options.all_namespaces ? std::string("any namespace") : "namespace " + ns);
    return 0;
  }
  fmt::print("{}", RenderTable(
                       RunTable(*runs, options.all_namespaces ? NamespaceColumn::kShow : NamespaceColumn::kHide, now)));
  return 0;
}

Result<api::TrainingRun> SelectedRun(const Options& options, Session& session) {
  ASSIGN_OR_RETURN(const std::vector<api::TrainingRun> runs, session.ListRuns(session.ns()));
  return FindRun(runs, options.run_name);
}

int DoRunShow(const Options& options, OutputFormat format, Session& session, WallTime now) {
  Result<api::TrainingRun> run = SelectedRun(options, session);
  if (!run.ok()) return Fail(run.status());
  fmt::print("{}", format == OutputFormat::kTable ? ShowRun(*run, now) : RenderValue(api::ToJson(*run), format));
  return 0;
}

int DoRunExplain(const Options& options, OutputFormat format, Session& session, WallTime now) {
  Result<api::TrainingRun> run = SelectedRun(options, session);
  if (!run.ok()) return Fail(run.status());
  if (!options.perfetto_file.empty()) {
    const Status written =
        RealFileSystem().WriteFileAtomically(options.perfetto_file, StartupAsPerfetto(*run, now), 0644);
    if (!written.ok()) return Fail(written);
    fmt::print(stderr, "wrote {}; open it at ui.perfetto.dev or chrome://tracing\n", options.perfetto_file);
  }
  fmt::print("{}", format == OutputFormat::kTable ? ExplainRun(*run, StyleOf(options), now)
                                                  : RenderValue(ExplainRunValue(*run, now), format));
  return 0;
}

int DoRunCompare(const Options& options, OutputFormat format, Session& session, WallTime) {
  Result<std::vector<api::TrainingRun>> runs = session.ListRuns(session.ns());
  if (!runs.ok()) return Fail(runs.status());
  const Result<std::vector<api::TrainingRun>> chosen = RunsToCompare(*runs, options.run_names);
  if (!chosen.ok()) return Fail(chosen.status());
  fmt::print("{}",
             format == OutputFormat::kTable ? CompareRuns(*chosen) : RenderValue(CompareRunsValue(*chosen), format));
  return 0;
}

int DoNodeProbe(const Options& options, OutputFormat format, Session& session, WallTime now) {
  const Result<api::NodePlan> plan = ProbeNode(session, options.probe, RealClock());
  if (!plan.ok()) return Fail(plan.status());
  if (format != OutputFormat::kTable) {
    fmt::print("{}", RenderValue(ProbeValue(*plan), format));
    return 0;
  }
  fmt::print("{}", RenderTable(ProbeTable(*plan)));
  if (const auto& at = plan->status.probe->finished_at; at && options.probe.only_last) {
    fmt::print(stderr, "measured {} ago\n", FormatSeconds(ToSeconds(now - *at)));
  }
  return 0;
}

int DoDoctor(const Options&, OutputFormat format, Session& session, WallTime now) {
  ClusterFacts facts = ReadClusterFacts(session.client(), session.deadline());
  facts.server_version = session.server_version() + " at " + session.server_url();
  const std::vector<CheckResult> checks = Diagnose(facts, std::string(Version()), now);
  fmt::print("{}", format == OutputFormat::kTable ? RenderChecks(checks) : RenderValue(ChecksValue(checks), format));
  for (const CheckResult& check : checks) {
    if (check.level == CheckLevel::kFail) return kExitBroken;
  }
  return 0;
}

// Works without a cluster: the server's version is an extra.
int PrintVersion(const Options& options, OutputFormat format, const Clock& clock) {
  Result<std::unique_ptr<Session>> session = Session::Connect(options.session, clock);
  const std::string server = session.ok() ? (*session)->server_version() : "";
  if (format != OutputFormat::kTable) {
    nlohmann::json value = {{"version", Version()}, {"revision", Revision()}};
    if (!server.empty()) value["server"] = server;
    fmt::print("{}", RenderValue(value, format));
    return 0;
  }
  fmt::print("pacectl {} ({})\nserver  {}\n", Version(), Revision(),
             server.empty() ? "not reached: " + session.status().message() : server);
  return 0;
}

// A command that prints something; the flags of the connection may come after it as well.
void AddOutput(CLI::App& command, Options& options) {
  command.fallthrough();
  command.add_option("-o,--output", options.output, "table, json or yaml")->capture_default_str();
}

void AddAllNamespaces(CLI::App& command, Options& options) {
  command.add_flag("-A,--all-namespaces", options.all_namespaces, "every namespace");
}

CLI::App* AddRunCommand(CLI::App& group, const std::string& name, const std::string& help, Options& options) {
  CLI::App* command = group.add_subcommand(name, help);
  command->add_option("name", options.run_name, "a run, or a job: then its newest run")->required();
  AddOutput(*command, options);
  return command;
}

CLI::App* AddExplainCommand(CLI::App& group, Options& options) {
  CLI::App* command = AddRunCommand(group, "explain", "the startup waterfall: where the time went", options);
  command->add_option("--color", options.color, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str();
  command->add_option("--perfetto", options.perfetto_file, "also write the startup as a Perfetto trace to this file");
  return command;
}

void AddConnection(CLI::App& app, SessionOptions& session, double& timeout_seconds) {
  app.add_option("--kubeconfig", session.kubeconfig,
                 "kubeconfig file ($KUBECONFIG, ~/.kube/config or the pod's account unless given)");
  app.add_option("--context", session.context, "context of the kubeconfig");
  app.add_option("-n,--namespace", session.ns, "namespace (the context's unless given)");
  app.add_option("--timeout", timeout_seconds, "seconds for the whole command")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
}

constexpr char kAbout[] =
    "Training jobs on Kubernetes that start fast and stay in step: shows where a start took its time, what a run waits "
    "for and what stragglers cost; converts and mounts images, records and restores what installs leave, copies files "
    "from and to HDFS, and checks the installation.";

CLI::App* AddRestartCommand(CLI::App& job, Options& options) {
  CLI::App* restart = job.add_subcommand(
      "restart", "end the current start of a TrainingJob and begin the next: all its workers start again");
  restart->add_option("name", options.job_name, "the TrainingJob")->required();
  restart->add_option("--reason", options.reason, "why, for whoever reads the job's events");
  return restart;
}

CLI::App* AddNodeCommands(CLI::App& app, Options& options) {
  CLI::App* node = app.add_subcommand("node", "nodes of the cluster")->require_subcommand(1)->fallthrough();
  CLI::App* probe = node->add_subcommand(
      "probe",
      "measure a node's processors, memory, disk, network and GPUs; waits while pods of training runs are there");
  probe->add_option("node", options.probe.node, "the node")->required();
  probe->add_option("--check", options.probe.checks, "cpu, memory, disk, network or gpu; all unless given");
  AddOutput(*probe, options);
  probe->add_flag("--last", options.probe.only_last, "show what was measured last, and measure nothing");
  return probe;
}

// Prints why a command line cannot be parsed, or the help that it asks for, and returns the exit code.
int ExplainParseError(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);
  const CLI::App* command = &app;
  std::string path = "pacectl";
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    path += " " + command->get_name();
  }
  std::string message = fmt::format("{}: {}", path, error.what());
  // CLI11 says that a command is required, and leaves out which word it has not understood as one.
  const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError) && !unknown.empty()) {
    std::vector<std::string> known;
    for (const CLI::App* subcommand : command->get_subcommands({})) known.push_back(subcommand->get_name());
    const std::string choice = known.empty() ? "" : fmt::format(" (commands: {})", fmt::join(known, ", "));
    message = fmt::format("{} does not know \"{}\"{}", path, unknown.front(), choice);
  }
  fmt::print(stderr, "{}", RenderNotice(kUsageAdvice, message));
  return kUsageError;
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app(kAbout, "pacectl");
  app.set_version_flag("--version", VersionLine("pacectl"), "print the version and exit");
  app.require_subcommand(1);
  app.fallthrough();
  double timeout_seconds = 30;
  AddConnection(app, options.session, timeout_seconds);

  CLI::App* job = app.add_subcommand("job", "training jobs of every kind")->require_subcommand(1)->fallthrough();
  CLI::App* job_ls = job->add_subcommand("ls", "list jobs with their newest run");
  CLI::App* job_restart = AddRestartCommand(*job, options);
  CLI::App* run = app.add_subcommand("run", "starts of jobs (TrainingRun)")->require_subcommand(1)->fallthrough();
  CLI::App* run_ls = run->add_subcommand("ls", "list runs, newest first");
  CLI::App* run_show = AddRunCommand(*run, "show", "all that is known of a run", options);
  CLI::App* run_explain = AddExplainCommand(*run, options);
  CLI::App* run_compare = run->add_subcommand("compare", "starts side by side: full start, hot restart, other jobs");
  run_compare->add_option("name", options.run_names, "a job (its starts), or two and more runs or jobs")->required();
  CLI::App* node_probe = AddNodeCommands(app, options);
  CLI::App* doctor = app.add_subcommand("doctor", "check the installation and every node, and say what to do");
  CLI::App* version = app.add_subcommand("version", "version of pacectl and of the server");
  for (CLI::App* command : {job_ls, job_restart, run_ls, run_compare, doctor, version}) AddOutput(*command, options);
  for (CLI::App* command : {job_ls, run_ls}) AddAllNamespaces(*command, options);
  const std::unique_ptr<FsCommands> fs = FsCommands::AddTo(app, &options.output);
  const std::unique_ptr<ImageCommands> image = ImageCommands::AddTo(app, &options.output);
  const std::unique_ptr<MountCommands> mount = MountCommands::AddTo(app, &options.output);
  const std::unique_ptr<DepsCommands> deps = DepsCommands::AddTo(app, &options.output, &options.session.ns);
  const std::unique_ptr<WhatIfCommand> what_if = WhatIfCommand::AddTo(app, &options.output);
  const std::unique_ptr<TraceCommands> trace = TraceCommands::AddTo(app, &options.output, &options.session);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return ExplainParseError(app, error);
  }
  options.session.timeout = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(timeout_seconds));
  Result<OutputFormat> format = ParseOutputFormat(options.output);
  if (!format.ok()) {
    Fail(format.status());
    return kUsageError;
  }
  if (trace->is_given()) return trace->Run(*format, RealClock());
  if (what_if->is_given()) return what_if->Run(*format);
  if (deps->is_given()) return deps->Run(*format, RealClock());
  if (mount->is_given()) return mount->Run(*format, RealClock());
  if (image->is_given()) return image->Run(*format, RealClock());
  if (fs->is_given()) return fs->Run(*format, options.session.timeout, RealClock());
  if (const Status threads = net::InitHttpThreads(2); !threads.ok()) return Fail(threads);
  const RealClock clock;
  if (version->parsed()) return PrintVersion(options, *format, clock);
  const std::pair<CLI::App*, Command> commands[] = {
      {job_ls, &DoJobList},         {job_restart, &DoJobRestart}, {run_ls, &DoRunList},       {run_show, &DoRunShow},
      {run_explain, &DoRunExplain}, {run_compare, &DoRunCompare}, {node_probe, &DoNodeProbe}, {doctor, &DoDoctor}};
  Result<std::unique_ptr<Session>> session = Session::Connect(options.session, clock);
  if (!session.ok()) return Fail(session.status());
  for (const auto& [command, body] : commands) {
    if (command->parsed()) return body(options, *format, **session, clock.WallNow());
  }
  return kUsageError;
}

}  // namespace
}  // namespace paceline::cli

int main(int argc, char** argv) { return paceline::cli::Main(argc, argv); }
