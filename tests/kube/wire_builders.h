// Builds the protobuf messages and streams of an API server by hand, for tests of what reads them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::kube {

inline std::string Varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out += static_cast<char>(value);
}
inline std::string BytesField(uint32_t number, std::string_view bytes) {
  return Varint(number << 3 | 2) + Varint(bytes.size()) + std::string(bytes);
}
inline std::string VarintField(uint32_t number, uint64_t value) { return Varint(number << 3) + Varint(value); }

inline std::string Envelope(std::string_view kind, std::string_view raw) {
  return std::string("k8s\0", 4) + BytesField(1, BytesField(1, "v1") + BytesField(2, kind)) + BytesField(2, raw) +
         BytesField(3, "") + BytesField(4, "");
}
// A pod of which only the metadata and the phase are there.
inline std::string PodMessage(std::string_view ns, std::string_view name, std::string_view version,
                              std::string_view phase = "Running") {
  return BytesField(1, BytesField(1, name) + BytesField(3, ns) +
                           BytesField(5, std::string("uid-") + std::string(name)) + BytesField(6, version)) +
         BytesField(2, "") + BytesField(3, BytesField(1, phase));
}
inline std::string PodList(const std::vector<std::string>& pods, std::string_view version,
                           std::string_view token = "") {
  std::string list = BytesField(1, BytesField(2, version) + BytesField(3, token));
  for (const std::string& pod : pods) list += BytesField(2, pod);
  return Envelope("PodList", list);
}
// One frame of a watch: length, WatchEvent{type, RawExtension{raw}}.
inline std::string Frame(std::string_view type, std::string_view kind, std::string_view object) {
  const std::string event = BytesField(1, type) + BytesField(2, BytesField(1, Envelope(kind, object)));
  std::string length;
  for (int shift = 24; shift >= 0; shift -= 8) length += static_cast<char>(event.size() >> shift & 0xff);
  return length + event;
}
inline std::string BookmarkFrame(std::string_view version, bool ends_initial_events = false) {
  std::string meta = BytesField(6, version);
  if (ends_initial_events) meta += BytesField(12, BytesField(1, "k8s.io/initial-events-end") + BytesField(2, "true"));
  return Frame("BOOKMARK", "Pod", BytesField(1, meta));
}
inline std::string ErrorFrame(int code, std::string_view reason, std::string_view message) {
  return Frame("ERROR", "Status",
               BytesField(2, "Failure") + BytesField(3, message) + BytesField(4, reason) +
                   VarintField(6, static_cast<uint64_t>(code)));
}

}  // namespace paceline::kube
