#include "holder/protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/json.h"

namespace paceline::holder {
namespace {

constexpr int64_t kVersion = 1;
constexpr int kMaxDepth = 8;
constexpr size_t kMaxOwnerBytes = 256;
constexpr size_t kMaxArguments = 64;
constexpr size_t kMaxArgumentBytes = 4096;
constexpr size_t kMaxVariables = 16;
constexpr size_t kMaxFiles = 16;
constexpr size_t kMaxFileNameBytes = 64;
constexpr size_t kMaxFilesBytes = 512 * 1024;

bool IsLower(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

bool IsFileName(std::string_view name) {
  if (name.empty() || name.size() > kMaxFileNameBytes || name.front() == '.') return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return IsLower(c) || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' || c == '-'; });
}

// A NUL would end the text for the program that gets it.
bool IsText(std::string_view text, size_t max_bytes) {
  return text.size() <= max_bytes && text.find('\0') == std::string_view::npos;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> FromHex(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 2);
  for (size_t i = 0; i < text.size(); i += 2) {
    const int high = HexDigit(text[i]), low = HexDigit(text[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(high * 16 + low));
  }
  return bytes;
}

Result<std::map<std::string, std::string>> TextMap(const Json& json, const char* field) {
  std::map<std::string, std::string> out;
  const Json* map = FindJson(json, field);
  if (map == nullptr) return out;
  if (!map->is_object()) return InvalidArgumentError(fmt::format("{}: must be an object", field));
  for (const auto& [key, value] : map->items()) {
    if (!value.is_string()) return InvalidArgumentError(fmt::format("{}.{}: must be a text", field, key));
    out.emplace(key, value.get<std::string>());
  }
  return out;
}

Result<MountSpec> ReadSpec(const Json& json) {
  MountSpec spec;
  ASSIGN_OR_RETURN(spec.name, JsonString(json, "name"));
  if (!IsMountName(spec.name)) return InvalidArgumentError("name: must be 1 to 63 of a-z, 0-9 and '-'");
  ASSIGN_OR_RETURN(spec.owner, JsonStringOr(json, "owner", ""));
  if (!IsText(spec.owner, kMaxOwnerBytes)) return InvalidArgumentError("owner: must have at most 256 bytes");
  ASSIGN_OR_RETURN(spec.program, JsonString(json, "program"));
  if (FindJson(json, "arguments") != nullptr) {
    ASSIGN_OR_RETURN(spec.arguments, JsonStrings(json, "arguments"));
  }
  const bool are_arguments_fine =
      spec.arguments.size() <= kMaxArguments &&
      std::all_of(spec.arguments.begin(), spec.arguments.end(),
                  [](const std::string& argument) { return IsText(argument, kMaxArgumentBytes); });
  if (!are_arguments_fine) return InvalidArgumentError("arguments: at most 64 of at most 4096 bytes, without NUL");
  ASSIGN_OR_RETURN(spec.environment, TextMap(json, "environment"));
  if (spec.environment.size() > kMaxVariables) return InvalidArgumentError("environment: at most 16 variables");
  for (const auto& [variable, value] : spec.environment) {
    if (!IsText(variable, kMaxFileNameBytes) || !IsText(value, kMaxArgumentBytes)) {
      return InvalidArgumentError("environment: a value must have at most 4096 bytes, without NUL");
    }
  }
  return spec;
}

Result<std::optional<std::map<std::string, std::string>>> ReadFiles(const Json& json) {
  if (FindJson(json, "files") == nullptr) return std::optional<std::map<std::string, std::string>>();
  ASSIGN_OR_RETURN(auto encoded, TextMap(json, "files"));
  if (encoded.size() > kMaxFiles) return InvalidArgumentError("files: at most 16");
  std::map<std::string, std::string> files;
  size_t total_bytes = 0;
  for (const auto& [name, hex] : encoded) {
    if (!IsFileName(name)) return InvalidArgumentError("files: a name is 1 to 64 letters, digits, '.', '_' and '-'");
    std::optional<std::string> bytes = FromHex(hex);
    if (!bytes) return InvalidArgumentError(fmt::format("files.{}: not hexadecimal", name));
    total_bytes += bytes->size();
    files.emplace(name, *std::move(bytes));
  }
  if (total_bytes > kMaxFilesBytes) return InvalidArgumentError("files: at most 512 KiB together");
  return std::optional(std::move(files));
}

Json MountJson(const MountView& mount, bool has_log) {
  Json json = {{"name", mount.name},
               {"owner", mount.owner},
               {"state", MountStateName(mount.state)},
               {"mountPoint", mount.mount_point},
               {"controlSocket", mount.control_socket},
               {"startedAt", FormatRfc3339Micro(mount.started_at)},
               {"restarts", mount.restarts}};
  if (mount.pid) json["pid"] = *mount.pid;
  if (mount.last_exit) {
    json["lastExit"] = {{"at", FormatRfc3339Micro(mount.last_exit->at)}, {"text", mount.last_exit->text}};
  }
  if (has_log) json["log"] = mount.log;
  return json;
}

Result<MountRecord> ReadRecord(const Json& json) {
  MountRecord record;
  ASSIGN_OR_RETURN(record.spec, ReadSpec(json));
  ASSIGN_OR_RETURN(const int64_t pid, JsonInt(json, "pid"));
  ASSIGN_OR_RETURN(const int64_t ticks, JsonInt(json, "startTicks"));
  ASSIGN_OR_RETURN(record.has_mounted, JsonBool(json, "hasMounted"));
  ASSIGN_OR_RETURN(record.is_stopping, JsonBool(json, "isStopping"));
  ASSIGN_OR_RETURN(const int64_t restarts, JsonInt(json, "restarts"));
  ASSIGN_OR_RETURN(const std::string started_at, JsonString(json, "startedAt"));
  ASSIGN_OR_RETURN(record.started_at, ParseRfc3339(started_at));
  constexpr int64_t kMaxInt = 1 << 30;
  if (pid < 0 || pid > kMaxInt || ticks < 0 || restarts < 0) return InvalidArgumentError("a number is out of range");
  record.pid = static_cast<int>(pid);
  record.start_ticks = static_cast<uint64_t>(ticks);
  record.restarts = static_cast<int>(std::min(restarts, kMaxInt));
  return record;
}

}  // namespace

bool IsMountName(std::string_view name) {
  return !name.empty() && name.size() <= 63 &&
         std::all_of(name.begin(), name.end(), [](char c) { return IsLower(c) || c == '-'; });
}

std::string_view MountStateName(MountState state) {
  switch (state) {
    case MountState::kStarting: return "Starting";
    case MountState::kMounted: return "Mounted";
    case MountState::kBackingOff: return "BackingOff";
    case MountState::kFailed: return "Failed";
    case MountState::kStopping: return "Stopping";
    case MountState::kEnded: return "Ended";
  }
  return "Ended";
}

Result<Request> ParseRequest(std::string_view line) {
  ASSIGN_OR_RETURN(const Json json, ParseJson(line, kMaxDepth));
  if (!json.is_object()) return InvalidArgumentError("a request is a JSON object");
  ASSIGN_OR_RETURN(const int64_t version, JsonInt(json, "version"));
  if (version != kVersion) return UnimplementedError(fmt::format("version {}: this holder speaks 1", version));
  ASSIGN_OR_RETURN(const std::string command, JsonString(json, "command"));
  Request request;
  if (command == "list") return request;
  if (command == "start") {
    request.command = Command::kStart;
    ASSIGN_OR_RETURN(request.mount, ReadSpec(json));
    ASSIGN_OR_RETURN(request.files, ReadFiles(json));
    return request;
  }
  if (command != "stop" && command != "status") {
    return UnimplementedError(fmt::format("command \"{}\": there are start, stop, status, list", command));
  }
  request.command = command == "stop" ? Command::kStop : Command::kStatus;
  ASSIGN_OR_RETURN(request.mount.name, JsonString(json, "name"));
  if (!IsMountName(request.mount.name)) return InvalidArgumentError("name: must be 1 to 63 of a-z, 0-9 and '-'");
  return request;
}

std::string RenderFailure(const Status& status) {
  return DumpJson(
      {{"version", kVersion}, {"ok", false}, {"code", StatusCodeName(status.code())}, {"message", status.message()}});
}

std::string RenderMount(const std::optional<MountView>& mount) {
  return DumpJson({{"version", kVersion}, {"ok", true}, {"mount", mount ? MountJson(*mount, true) : Json()}});
}

std::string RenderMounts(const std::vector<MountView>& mounts) {
  Json list = Json::array();
  for (const MountView& mount : mounts) list.push_back(MountJson(mount, false));
  return DumpJson({{"version", kVersion}, {"ok", true}, {"mounts", std::move(list)}});
}

std::string RenderRecord(const MountRecord& record) {
  return DumpJson({{"version", kVersion},
                   {"name", record.spec.name},
                   {"owner", record.spec.owner},
                   {"program", record.spec.program},
                   {"arguments", record.spec.arguments},
                   {"environment", record.spec.environment},
                   {"pid", record.pid},
                   {"startTicks", record.start_ticks},
                   {"hasMounted", record.has_mounted},
                   {"isStopping", record.is_stopping},
                   {"restarts", record.restarts},
                   {"startedAt", FormatRfc3339Micro(record.started_at)}});
}

Result<MountRecord> ParseRecord(std::string_view text) {
  Result<Json> json = ParseJson(text, kMaxDepth);
  if (!json.ok()) return DataLossError("mount record: " + json.status().message());
  Result<MountRecord> record = ReadRecord(*json);
  if (!record.ok()) return DataLossError("mount record: " + record.status().message());
  return record;
}

}  // namespace paceline::holder
