// What a volume of type `deps` is asked for: its attributes as values, checked. docs/formats/dependency-snapshot.md,
// section 6 says what the webhook writes. Whoever may create pods may write such a volume, too, so nothing in it is
// believed that could reach another namespace's snapshots. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/csi/volume_type.h"
#include "lib/base/result.h"
#include "lib/deps/install_inputs.h"
#include "lib/deps/key.h"

namespace paceline::agent {

inline constexpr std::string_view kDepsVolumeType = "deps";

struct DepsOrder {
  std::vector<std::string> capture;    // directories of the container, sorted
  std::optional<deps::KeyInputs> key;  // empty: nothing is looked for and nothing recorded
  std::string reason;                  // why there is no key
  deps::Pinning pinning;
  Duration ttl{0};
};

// kInvalidArgument names the attribute.
Result<DepsOrder> ReadDepsOrder(const VolumeSpec& spec);

// The key of an order that has one: 64 hexadecimal digits.
std::string KeyOf(const DepsOrder& order);

}  // namespace paceline::agent
