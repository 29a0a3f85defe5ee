#include "agent/health/network_health.h"

#include <charconv>
#include <optional>

namespace paceline::agent {
namespace {

using analysis::DeviceFault;

constexpr char kInterfaces[] = "/sys/class/net";
constexpr char kInfiniBand[] = "/sys/class/infiniband";
constexpr size_t kMaxFileBytes = 4096;
constexpr char kInLastMinute[] = "in the last minute";
constexpr uint64_t kInterfaceUp = 1;  // IFF_UP: somebody wants it to work

struct CounterFile {
  const char* file;
  const char* fault;
};
constexpr CounterFile kInterfaceCounters[] = {{"statistics/rx_errors", "receive errors"},
                                              {"statistics/tx_errors", "send errors"},
                                              {"carrier_changes", "changes of the link's state"}};
// Names of the kernel's InfiniBand drivers; a card has those that its driver knows.
constexpr CounterFile kPortCounters[] = {{"counters/link_downed", "losses of the link"},
                                         {"counters/link_error_recovery", "recoveries of the link"},
                                         {"counters/symbol_error", "symbol errors"},
                                         {"counters/port_rcv_errors", "receive errors"},
                                         {"counters/port_xmit_discards", "packets not sent"},
                                         {"counters/local_link_integrity_errors", "integrity errors of the link"},
                                         {"counters/excessive_buffer_overrun_errors", "buffer overruns"},
                                         {"hw_counters/packet_seq_err", "packets out of sequence"},
                                         {"hw_counters/local_ack_timeout_err", "acknowledgements that did not come"},
                                         {"hw_counters/rnr_nak_retry_err", "receivers that were not ready"}};

std::optional<std::string> Line(const FileSystem& files, const std::string& path) {
  Result<std::string> text = files.ReadFile(path, kMaxFileBytes);
  if (!text.ok()) return std::nullopt;
  while (!text->empty() && (text->back() == '\n' || text->back() == ' ')) text->pop_back();
  return *std::move(text);
}

std::optional<uint64_t> Number(const FileSystem& files, const std::string& path) {
  const std::optional<std::string> line = Line(files, path);
  if (!line) return std::nullopt;
  const bool is_hexadecimal = line->starts_with("0x");
  const char* const end = line->data() + line->size();
  uint64_t value = 0;
  const auto [rest, error] =
      std::from_chars(line->data() + (is_hexadecimal ? 2 : 0), end, value, is_hexadecimal ? 16 : 10);
  if (error != std::errc() || rest != end) return std::nullopt;
  return value;
}

}  // namespace

std::vector<DeviceFault> NetworkHealth::Look(TimePoint now) {
  std::vector<DeviceFault> faults;
  for (const std::string& name : files_.List(kInterfaces).value_or({})) LookAtInterface(name, now, &faults);
  for (const std::string& card : files_.List(kInfiniBand).value_or({})) {
    const std::string ports = std::string(kInfiniBand) + "/" + card + "/ports";
    for (const std::string& port : files_.List(ports).value_or({})) {
      LookAtPort(ports + "/" + port, card + " port " + port, now, &faults);
    }
  }
  return faults;
}

void NetworkHealth::LookAtInterface(const std::string& name, TimePoint now, std::vector<DeviceFault>* faults) {
  const std::string path = std::string(kInterfaces) + "/" + name;
  if (!files_.Stat(path + "/device").ok()) return;
  for (const CounterFile& counter : kInterfaceCounters)
    Follow(path + "/" + counter.file, name, counter.fault, now, faults);
  const bool is_wanted = (Number(files_, path + "/flags").value_or(0) & kInterfaceUp) != 0;
  const std::optional<uint64_t> carrier = Number(files_, path + "/carrier");
  if (carrier == 1) worked_.insert(path);
  if (is_wanted && carrier == 0 && worked_.contains(path)) faults->push_back({"", name, "no link", 1, ""});
}

void NetworkHealth::LookAtPort(const std::string& path, const std::string& device, TimePoint now,
                               std::vector<DeviceFault>* faults) {
  for (const CounterFile& counter : kPortCounters)
    Follow(path + "/" + counter.file, device, counter.fault, now, faults);
  const std::string state = Line(files_, path + "/state").value_or("");  // "4: ACTIVE"
  if (state.starts_with("4:")) {
    worked_.insert(path);
  } else if (!state.empty() && worked_.contains(path)) {
    faults->push_back({"", device, "no link", 1, ""});
  }
}

void NetworkHealth::Follow(const std::string& path, const std::string& device, const char* fault, TimePoint now,
                           std::vector<DeviceFault>* faults) {
  const std::optional<uint64_t> value = Number(files_, path);
  if (!value) return growth_.Forget(path);
  const uint64_t grown = growth_.Of(path, *value, now);
  if (grown > 0) faults->push_back({"", device, fault, static_cast<double>(grown), kInLastMinute});
}

}  // namespace paceline::agent
