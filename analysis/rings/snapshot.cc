#include "analysis/rings/snapshot.h"

#include <map>
#include <memory>

#include "analysis/rings/process_probe.h"
#include "analysis/rings/ring_view.h"

namespace paceline::analysis {

namespace {

constexpr int kDepth = 3;

bool IsRingName(const std::string& name) {
  return name.rfind("nccl-", 0) == 0 && name.size() > 5 && name.ends_with(".ring");
}

void Find(const FileSystem& files, const std::string& folder, int depth, std::vector<std::string>& paths) {
  const Result<std::vector<std::string>> names = files.List(folder);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    const std::string path = folder + "/" + name;
    const Result<FileInfo> info = files.StatLink(path);
    if (!info.ok()) continue;
    if (info->type == FileInfo::Type::kFile && IsRingName(name)) paths.push_back(path);
    if (info->type == FileInfo::Type::kDirectory && depth > 0) Find(files, path, depth - 1, paths);
  }
}

// False, with `error`, when the ring cannot be read.
bool Look(ring::RingReader& reader, const SnapshotOptions& options, ProcessProbe& probe, const Clock& clock,
          ProcessView& view, std::string& error) {
  ring::Tables tables;
  if (!reader.ReadTables(tables, error)) return false;
  const RingTime time = RingTimeOf(tables.header, ReadTicks(), clock.Now());
  view = ViewOf(tables, time, [&reader](uint16_t index) { return reader.Name(index); });
  view.node = options.node;
  const pid_t pid = reader.WriterPid();
  if (pid == 0) view.state = EndStateOf(tables);
  if (pid <= 0) return true;
  view.pid = pid;
  const ProcessState state = probe.StateOf(pid);
  view.state = state == ProcessState::kUnknown ? ProcessState::kRunning : state;  // its lock says that it lives
  view.proxy_thread = probe.ProxyThreadOf(pid, clock.Now());
  view.io_bytes_per_second = probe.IoRateOf(pid, clock.Now());
  return true;
}

}  // namespace

std::vector<std::string> FindRings(const FileSystem& files, const std::string& folder) {
  std::vector<std::string> paths;
  Find(files, folder, kDepth, paths);
  return paths;
}

Result<Tables> SnapshotRings(const SnapshotOptions& options, const FileSystem& files, const Clock& clock) {
  std::map<std::string, std::unique_ptr<ring::RingReader>> readers;
  Tables tables;
  for (const std::string& path : FindRings(files, options.folder)) {
    std::string error;
    readers[path] = ring::RingReader::Open(path, error);
    if (readers[path] == nullptr) tables.missing.push_back(error);
  }
  std::erase_if(readers, [](const auto& entry) { return entry.second == nullptr; });
  if (readers.empty() && tables.missing.empty()) return NotFoundError("no trace rings below " + options.folder);
  ProcessProbe probe(files, options.proc_root, options.cgroup_root);
  ProcessView view;
  std::string error;
  for (auto& [path, reader] : readers) Look(*reader, options, probe, clock, view, error);
  clock.SleepFor(options.between, {});
  for (auto& [path, reader] : readers) {
    if (Look(*reader, options, probe, clock, view, error)) {
      tables.processes.push_back(std::move(view));
    } else {
      tables.missing.push_back(path + ": " + error);
    }
  }
  return tables;
}

}  // namespace paceline::analysis
