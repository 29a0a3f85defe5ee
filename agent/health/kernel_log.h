// Xids: what NVIDIA's driver writes to the kernel's log when a GPU has failed ("NVRM: Xid (PCI:0000:18:00): 79, ...").
//
// Called by HealthWatch. Used by one thread at a time.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/trace_model.h"
#include "lib/base/clock.h"
#include "lib/base/unique_fd.h"

namespace paceline::agent {

struct Xid {
  std::string device;  // "0000:18:00"
  int number = 0;
  friend bool operator==(const Xid&, const Xid&) = default;
};
// From a line of the kernel's log.
std::optional<Xid> ParseXid(std::string_view line);

class KernelLog {
 public:
  // `path` is /dev/kmsg of the host. What it holds already is passed over: nobody knows how long ago that was. Without
  // the right to read it there are no Xids.
  explicit KernelLog(const std::string& path);

  // Xids of the last ten minutes, at most 64. Does not block. `node` stays empty.
  std::vector<analysis::DeviceFault> Look(TimePoint now);

 private:
  struct Seen {
    Xid xid;
    TimePoint at;
  };

  void Read(TimePoint now);

  UniqueFd fd_;
  std::string rest_;  // of a line that is not whole yet
  std::vector<Seen> seen_;
};

}  // namespace paceline::agent
