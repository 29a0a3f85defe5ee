#include "analysis/tables_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

namespace paceline::analysis {

namespace {

constexpr int64_t kVersion = 1;
constexpr size_t kMaxProcesses = 100'000;
constexpr size_t kMaxEntries = 65'536;
constexpr uint64_t kMaxNumber = uint64_t{1} << 53;

constexpr std::pair<ProcessState, const char*> kStates[] = {{ProcessState::kUnknown, "Unknown"},
                                                            {ProcessState::kRunning, "Running"},
                                                            {ProcessState::kStopped, "Stopped"},
                                                            {ProcessState::kDead, "Dead"},
                                                            {ProcessState::kFinished, "Finished"}};
constexpr std::pair<CallKind, const char*> kKinds[] = {
    {CallKind::kOther, "Other"},   {CallKind::kColl, "Coll"},
    {CallKind::kP2p, "P2p"},       {CallKind::kCollApi, "CollApi"},
    {CallKind::kP2pApi, "P2pApi"}, {CallKind::kGroupApi, "GroupApi"},
    {CallKind::kCeColl, "CeColl"}, {CallKind::kKernelLaunch, "KernelLaunch"}};

template <typename T, size_t N>
const char* NameOf(const std::pair<T, const char*> (&names)[N], T value) {
  for (const auto& [candidate, name] : names) {
    if (candidate == value) return name;
  }
  return names[0].second;
}

// What a later version may add is the first of the table.
template <typename T, size_t N>
T ValueOf(const std::pair<T, const char*> (&names)[N], const std::string& text) {
  for (const auto& [candidate, name] : names) {
    if (text == name) return candidate;
  }
  return names[0].first;
}

Json Unsigned(uint64_t value) {
  if (value <= kMaxNumber) return value;
  return fmt::format("{:x}", value);
}

// Reads the fields of one object and keeps the first error; what is read after it is a default.
class Reader {
 public:
  Reader(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) Fail("is no object");
  }

  std::string Text(const char* key) { return Take(JsonStringOr(json_, key, "")); }
  bool Bool(const char* key, bool fallback) { return Take(JsonBoolOr(json_, key, fallback)); }
  int64_t Int(const char* key, int64_t fallback = 0) { return Take(JsonIntOr(json_, key, fallback)); }
  int32_t Small(const char* key, int32_t fallback) {
    const int64_t value = Int(key, fallback);
    if (value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max()) {
      return static_cast<int32_t>(value);
    }
    Fail(fmt::format("{} is out of range", key));
    return fallback;
  }
  uint64_t Unsigned(const char* key) {
    const Json* found = FindJson(json_, key);
    if (found != nullptr && found->is_string()) return Hex(key);
    const int64_t value = Int(key);
    if (value < 0) Fail(fmt::format("{} is negative", key));
    return value < 0 ? 0 : static_cast<uint64_t>(value);
  }
  uint64_t Hex(const char* key) {
    const std::string text = Text(key);
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    if (!text.empty() && (error != std::errc() || end != text.data() + text.size()))
      Fail(fmt::format("{} is no number", key));
    return value;
  }
  Duration Length(const char* key) { return Duration(std::max<int64_t>(Int(key), 0)); }
  double Rate(const char* key) { return std::max(Take(JsonDoubleOr(json_, key, 0)), 0.0); }
  double Share(const char* key) { return std::clamp(Take(JsonDoubleOr(json_, key, 0)), 0.0, 1.0); }

  // Calls `read` for each element, with a reader of it.
  template <typename Read>
  void Each(const char* key, size_t limit, Read read) {
    const Json* found = FindJson(json_, key);
    if (found == nullptr || !status_.ok()) return;
    if (!found->is_array() || found->size() > limit) {
      Fail(fmt::format("{} is no array of at most {} elements", key, limit));
      return;
    }
    for (size_t i = 0; i < found->size() && status_.ok(); i++) {
      Reader element((*found)[i], fmt::format("{}.{}.{}", where_, key, i));
      if (element.status_.ok()) read(element);
      status_ = element.status_;
    }
  }
  const Json* Find(const char* key) const { return FindJson(json_, key); }

  void Fail(const std::string& what) {
    if (status_.ok()) status_ = InvalidArgumentError(where_ + ": " + what);
  }
  const Status& status() const { return status_; }

 private:
  template <typename T>
  T Take(Result<T> result) {
    if (!result.ok() && status_.ok()) status_ = result.status().Annotate(where_);
    return result.ok() ? std::move(*result) : T();
  }

  const Json& json_;
  std::string where_;
  Status status_;
};

Json WriteComm(const CommView& comm) {
  return {{"id", fmt::format("{:016x}", comm.id)},
          {"name", comm.name},
          {"rank", comm.rank},
          {"ranks", comm.ranks},
          {"nodes", comm.nodes},
          {"isOpen", comm.is_open},
          {"operations", Unsigned(comm.operations)}};
}

Json WriteCall(const CallView& call) {
  return {{"kind", NameOf(kKinds, call.kind)},
          {"comm", call.comm},
          {"index", Unsigned(call.index)},
          {"sequence", Unsigned(call.sequence)},
          {"func", call.func},
          {"datatype", call.datatype},
          {"algo", call.algo},
          {"proto", call.proto},
          {"count", Unsigned(call.count)},
          {"peer", call.peer},
          {"isOpen", call.is_open},
          {"openProxies", call.open_proxies},
          {"proxies", call.proxies},
          {"age", call.age.count()},
          {"still", call.still.count()}};
}

Json WriteProxy(const ProxyView& proxy) {
  return {{"comm", proxy.comm},
          {"call", proxy.call},
          {"channel", proxy.channel},
          {"isSend", proxy.is_send},
          {"rank", proxy.rank},
          {"peer", proxy.peer},
          {"steps", Unsigned(proxy.steps)},
          {"started", Unsigned(proxy.started)},
          {"posted", Unsigned(proxy.posted)},
          {"ready", Unsigned(proxy.ready)},
          {"moved", Unsigned(proxy.moved)},
          {"done", Unsigned(proxy.done)},
          {"bytes", Unsigned(proxy.bytes)},
          {"age", proxy.age.count()},
          {"still", proxy.still.count()}};
}

Json WriteProcess(const ProcessView& process) {
  Json json = {{"node", process.node},
               {"host", process.host},
               {"run", process.run},
               {"rank", process.world_rank},
               {"pid", process.pid},
               {"state", NameOf(kStates, process.state)},
               {"abi", process.abi},
               {"hasSteps", process.has_steps},
               {"drops", Unsigned(process.drops)}};
  if (process.ended_for) json["endedFor"] = process.ended_for->count();
  if (process.io_bytes_per_second) json["ioBytesPerSecond"] = *process.io_bytes_per_second;
  if (process.proxy_thread) {
    json["proxyThread"] = {{"running", process.proxy_thread->running},
                           {"waiting", process.proxy_thread->waiting},
                           {"throttled", process.proxy_thread->throttled}};
  }
  for (const char* key : {"comms", "calls", "proxies"}) json[key] = Json::array();
  for (const CommView& comm : process.comms) json["comms"].push_back(WriteComm(comm));
  for (const CallView& call : process.calls) json["calls"].push_back(WriteCall(call));
  for (const ProxyView& proxy : process.proxies) json["proxies"].push_back(WriteProxy(proxy));
  return json;
}

Json WriteFault(const DeviceFault& fault) {
  return {{"node", fault.node},
          {"device", fault.device},
          {"fault", fault.fault},
          {"value", fault.value},
          {"unit", fault.unit}};
}

Json WriteLink(const LinkView& link) {
  return {{"comm", fmt::format("{:016x}", link.comm)},
          {"from", link.from},
          {"to", link.to},
          {"operations", Unsigned(link.operations)},
          {"bytes", Unsigned(link.bytes)},
          {"bytesPerSecond", link.bytes_per_second}};
}

LinkView ReadLink(Reader& reader) {
  LinkView link;
  link.comm = reader.Hex("comm");
  link.from = reader.Small("from", 0);
  link.to = reader.Small("to", 0);
  link.operations = reader.Unsigned("operations");
  link.bytes = reader.Unsigned("bytes");
  if (reader.Find("bytesPerSecond") != nullptr) link.bytes_per_second = reader.Rate("bytesPerSecond");
  return link;
}

CommView ReadComm(Reader& reader) {
  CommView comm;
  comm.id = reader.Hex("id");
  comm.name = reader.Text("name");
  comm.rank = reader.Small("rank", 0);
  comm.ranks = reader.Small("ranks", 0);
  comm.nodes = reader.Small("nodes", 0);
  comm.is_open = reader.Bool("isOpen", true);
  comm.operations = reader.Unsigned("operations");
  return comm;
}

CallView ReadCall(Reader& reader) {
  CallView call;
  call.kind = ValueOf(kKinds, reader.Text("kind"));
  call.comm = reader.Small("comm", -1);
  call.index = reader.Unsigned("index");
  call.sequence = reader.Unsigned("sequence");
  call.func = reader.Text("func");
  call.datatype = reader.Text("datatype");
  call.algo = reader.Text("algo");
  call.proto = reader.Text("proto");
  call.count = reader.Unsigned("count");
  call.peer = reader.Small("peer", -1);
  call.is_open = reader.Bool("isOpen", false);
  call.open_proxies = static_cast<uint32_t>(reader.Small("openProxies", 0));
  call.proxies = static_cast<uint32_t>(reader.Small("proxies", 0));
  call.age = reader.Length("age");
  call.still = reader.Length("still");
  return call;
}

ProxyView ReadProxy(Reader& reader) {
  ProxyView proxy;
  proxy.comm = reader.Small("comm", -1);
  proxy.call = reader.Small("call", -1);
  proxy.channel = reader.Small("channel", 0);
  proxy.is_send = reader.Bool("isSend", false);
  proxy.rank = reader.Small("rank", 0);
  proxy.peer = reader.Small("peer", 0);
  proxy.steps = reader.Unsigned("steps");
  proxy.started = reader.Unsigned("started");
  proxy.posted = reader.Unsigned("posted");
  proxy.ready = reader.Unsigned("ready");
  proxy.moved = reader.Unsigned("moved");
  proxy.done = reader.Unsigned("done");
  proxy.bytes = reader.Unsigned("bytes");
  proxy.age = reader.Length("age");
  proxy.still = reader.Length("still");
  return proxy;
}

void Restrict(int32_t& place, size_t size) {
  if (place < 0 || static_cast<size_t>(place) >= size) place = -1;
}

DeviceFault ReadFault(Reader& reader) {
  DeviceFault fault;
  fault.node = reader.Text("node");
  fault.device = reader.Text("device");
  fault.fault = reader.Text("fault");
  fault.value = reader.Rate("value");
  fault.unit = reader.Text("unit");
  return fault;
}

ProcessView ReadProcess(Reader& reader) {
  ProcessView process;
  process.node = reader.Text("node");
  process.host = reader.Text("host");
  process.run = reader.Text("run");
  process.world_rank = reader.Small("rank", -1);
  process.pid = reader.Int("pid");
  process.state = ValueOf(kStates, reader.Text("state"));
  if (reader.Find("endedFor") != nullptr) process.ended_for = reader.Length("endedFor");
  process.abi = static_cast<uint32_t>(reader.Small("abi", 0));
  process.has_steps = reader.Bool("hasSteps", true);
  process.drops = reader.Unsigned("drops");
  if (reader.Find("ioBytesPerSecond") != nullptr) process.io_bytes_per_second = reader.Rate("ioBytesPerSecond");
  if (const Json* thread = reader.Find("proxyThread")) {
    Reader shares(*thread, "proxyThread");
    process.proxy_thread = {shares.Share("running"), shares.Share("waiting"), shares.Share("throttled")};
    if (!shares.status().ok()) reader.Fail(shares.status().message());
  }
  reader.Each("comms", kMaxEntries, [&](Reader& element) { process.comms.push_back(ReadComm(element)); });
  reader.Each("calls", kMaxEntries, [&](Reader& element) { process.calls.push_back(ReadCall(element)); });
  reader.Each("proxies", kMaxEntries, [&](Reader& element) { process.proxies.push_back(ReadProxy(element)); });
  for (CallView& call : process.calls) Restrict(call.comm, process.comms.size());
  for (ProxyView& proxy : process.proxies) {
    Restrict(proxy.comm, process.comms.size());
    Restrict(proxy.call, process.calls.size());
  }
  return process;
}

}  // namespace

Json WriteTables(const Tables& tables) {
  Json json = {
      {"version", kVersion}, {"missing", tables.missing}, {"processes", Json::array()}, {"links", Json::array()}};
  for (const LinkView& link : tables.links) json["links"].push_back(WriteLink(link));
  for (const DeviceFault& fault : tables.device_faults) json["deviceFaults"].push_back(WriteFault(fault));
  for (const ProcessView& process : tables.processes) json["processes"].push_back(WriteProcess(process));
  return json;
}

Json WriteVerdict(const Verdict& verdict) {
  Json json = {{"category", CategoryName(verdict.category)},
               {"cause", verdict.cause},
               {"communicator", verdict.communicator},
               {"confidence", verdict.confidence},
               {"notVisible", verdict.not_visible},
               {"path", verdict.path},
               {"culprits", Json::array()},
               {"evidence", Json::array()}};
  for (const Culprit& culprit : verdict.culprits) {
    json["culprits"].push_back({{"rank", culprit.world_rank}, {"node", culprit.node}, {"host", culprit.host}});
  }
  if (verdict.edge) {
    json["edge"] = {{"from", verdict.edge->from}, {"to", verdict.edge->to}, {"channel", verdict.edge->channel}};
  }
  for (const Evidence& evidence : verdict.evidence) {
    Json entry = {{"name", evidence.name}, {"value", evidence.value}, {"unit", evidence.unit}};
    if (evidence.usual) entry["usual"] = *evidence.usual;
    json["evidence"].push_back(std::move(entry));
  }
  return json;
}

Result<Tables> ReadTables(const Json& json) {
  Reader reader(json, "trace tables");
  const int64_t version = reader.Int("version", -1);
  RETURN_IF_ERROR(reader.status());
  if (version != kVersion) return UnimplementedError(fmt::format("trace tables: version {} is not known", version));
  Tables tables;
  if (reader.Find("missing") != nullptr) {
    ASSIGN_OR_RETURN(tables.missing, JsonStrings(json, "missing").Annotate("trace tables"));
  }
  reader.Each("processes", kMaxProcesses, [&](Reader& element) { tables.processes.push_back(ReadProcess(element)); });
  reader.Each("links", kMaxEntries, [&](Reader& element) { tables.links.push_back(ReadLink(element)); });
  reader.Each("deviceFaults", kMaxEntries,
              [&](Reader& element) { tables.device_faults.push_back(ReadFault(element)); });
  RETURN_IF_ERROR(reader.status());
  return tables;
}

Result<Tables> ParseTables(std::string_view text) {
  ASSIGN_OR_RETURN(const Json json, ParseJson(text));
  return ReadTables(json);
}

void Append(Tables more, Tables& all) {
  for (ProcessView& process : more.processes) all.processes.push_back(std::move(process));
  all.links.insert(all.links.end(), more.links.begin(), more.links.end());
  for (DeviceFault& fault : more.device_faults) all.device_faults.push_back(std::move(fault));
  for (std::string& missing : more.missing) all.missing.push_back(std::move(missing));
}

const char* ProcessStateName(ProcessState state) { return NameOf(kStates, state); }

}  // namespace paceline::analysis
