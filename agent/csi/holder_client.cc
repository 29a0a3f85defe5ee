#include "agent/csi/holder_client.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lib/base/json.h"
#include "lib/base/local_socket.h"

namespace paceline::agent {
namespace {

constexpr int kVersion = 1;
constexpr size_t kMaxAnswerBytes = 16 << 20;
constexpr int kMaxDepth = 16;

std::string ToHex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    hex.push_back(kDigits[byte >> 4]);
    hex.push_back(kDigits[byte & 15]);
  }
  return hex;
}

StatusCode CodeOf(std::string_view name) {
  for (const StatusCode code :
       {StatusCode::kInvalidArgument, StatusCode::kNotFound, StatusCode::kAlreadyExists, StatusCode::kPermissionDenied,
        StatusCode::kAborted, StatusCode::kUnavailable, StatusCode::kResourceExhausted, StatusCode::kUnimplemented}) {
    if (name == StatusCodeName(code)) return code;
  }
  return StatusCode::kInternal;
}

// A state that a newer holder may have: something is going on.
HeldState StateOf(std::string_view name) {
  if (name == "Mounted") return HeldState::kMounted;
  if (name == "BackingOff") return HeldState::kBackingOff;
  if (name == "Failed") return HeldState::kFailed;
  if (name == "Stopping") return HeldState::kStopping;
  if (name == "Ended") return HeldState::kEnded;
  return HeldState::kStarting;
}

Result<HeldMount> ReadMount(const Json& json) {
  HeldMount mount;
  ASSIGN_OR_RETURN(mount.name, JsonString(json, "name"));
  ASSIGN_OR_RETURN(mount.owner, JsonStringOr(json, "owner", ""));
  ASSIGN_OR_RETURN(const std::string state, JsonString(json, "state"));
  mount.state = StateOf(state);
  ASSIGN_OR_RETURN(mount.mount_point, JsonString(json, "mountPoint"));
  ASSIGN_OR_RETURN(mount.control_socket, JsonStringOr(json, "controlSocket", ""));
  ASSIGN_OR_RETURN(const int64_t restarts, JsonIntOr(json, "restarts", 0));
  mount.restarts = static_cast<int>(restarts);
  ASSIGN_OR_RETURN(mount.last_exit, JsonStringOr(json, "lastExit.text", ""));
  if (FindJson(json, "log") != nullptr) {
    ASSIGN_OR_RETURN(mount.log, JsonStrings(json, "log"));
  }
  return mount;
}

Status Malformed(const Status& status) { return DataLossError("answer of the holder: " + status.message()); }

// The answer as JSON when it says ok; else the failure that it tells.
Result<Json> ReadAnswer(std::string_view text) {
  Result<Json> json = ParseJson(text, kMaxDepth);
  if (!json.ok()) return Malformed(json.status());
  const Result<bool> is_ok = JsonBool(*json, "ok");
  if (!is_ok.ok()) return Malformed(is_ok.status());
  if (*is_ok) return json;
  return Status(CodeOf(JsonStringOr(*json, "code", "").value_or("")),
                "paceline-holder: " + JsonStringOr(*json, "message", "").value_or(""));
}

class SocketHolderClient final : public HolderClient {
 public:
  SocketHolderClient(std::string socket, const Clock& clock) : socket_(std::move(socket)), clock_(clock) {}

  Result<HeldMount> Start(const MountOrder& order, Deadline deadline) override {
    Json request = Request("start", order.name);
    request["owner"] = order.owner;
    request["program"] = order.program;
    request["arguments"] = order.arguments;
    request["environment"] = order.environment;
    if (order.files) {
      Json& files = request["files"] = Json::object();
      for (const auto& [name, bytes] : *order.files) files[name] = ToHex(bytes);
    }
    ASSIGN_OR_RETURN(std::optional<HeldMount> mount, AskForMount(request, deadline));
    if (!mount) return DataLossError("answer of the holder: no mount");
    return *std::move(mount);
  }
  Result<std::optional<HeldMount>> Stop(const std::string& name, Deadline deadline) override {
    return AskForMount(Request("stop", name), deadline);
  }
  Result<std::optional<HeldMount>> Look(const std::string& name, Deadline deadline) override {
    return AskForMount(Request("status", name), deadline);
  }
  Result<std::vector<HeldMount>> List(Deadline deadline) override {
    ASSIGN_OR_RETURN(const std::string text, Ask({{"version", kVersion}, {"command", "list"}}, deadline));
    ASSIGN_OR_RETURN(const Json json, ReadAnswer(text));
    std::vector<HeldMount> mounts;
    const Json* list = FindJson(json, "mounts");
    if (list == nullptr || !list->is_array()) return DataLossError("answer of the holder: no list");
    for (const Json& entry : *list) {
      Result<HeldMount> mount = ReadMount(entry);
      if (!mount.ok()) return Malformed(mount.status());
      mounts.push_back(*std::move(mount));
    }
    return mounts;
  }
  Result<std::string> AskMount(const std::string& control_socket, const std::string& command,
                               Deadline deadline) override {
    return AskLocal(control_socket, command, kMaxAnswerBytes, clock_, deadline);
  }

 private:
  static Json Request(const char* command, const std::string& name) {
    return {{"version", kVersion}, {"command", command}, {"name", name}};
  }
  Result<std::string> Ask(const Json& request, Deadline deadline) {
    Result<std::string> answer = AskLocal(socket_, DumpJson(request), kMaxAnswerBytes, clock_, deadline);
    if (answer.status().code() == StatusCode::kUnavailable) {
      return UnavailableError("paceline-holder, which runs mounts, is not there on this node: " +
                              answer.status().message());
    }
    return answer;
  }
  Result<std::optional<HeldMount>> AskForMount(const Json& request, Deadline deadline) {
    ASSIGN_OR_RETURN(const std::string text, Ask(request, deadline));
    return ParseHolderAnswer(text);
  }

  const std::string socket_;
  const Clock& clock_;
};

}  // namespace

Result<std::optional<HeldMount>> ParseHolderAnswer(std::string_view text) {
  ASSIGN_OR_RETURN(const Json json, ReadAnswer(text));
  const Json* entry = FindJson(json, "mount");
  if (entry == nullptr) return std::optional<HeldMount>();
  Result<HeldMount> mount = ReadMount(*entry);
  if (!mount.ok()) return Malformed(mount.status());
  return std::optional(*std::move(mount));
}

std::unique_ptr<HolderClient> NewHolderClient(const std::string& socket, const Clock& clock) {
  return std::make_unique<SocketHolderClient>(socket, clock);
}

}  // namespace paceline::agent
