// Steps that volume types share whose mounts paceline-holder runs: their names, waiting for them, binding them to a
// target, and what they said last.
//
// Called by the volume types. Waiting blocks, polling the holder, until the deadline; thread-safe: no state.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "agent/csi/holder_client.h"
#include "agent/csi/volume_host.h"
#include "lib/base/clock.h"

namespace paceline::agent {

// Of a volume's mount: `kind`, a dash, and 16 digits of a hash, since volume ids are longer than the holder's names.
std::string HeldMountName(std::string_view kind, const std::string& volume_id);

inline bool IsHeld(const std::optional<HeldMount>& mount) { return mount && mount->state != HeldState::kEnded; }

// What a mount process said last, for the event of a pod: its last error if there is one, else its last line.
std::string ReasonOf(const HeldMount& mount);

// Until it is mounted. kDeadlineExceeded says `why_slow`, kUnavailable why it cannot be mounted, kAborted that somebody
// stops it.
Result<HeldMount> AwaitHeld(HolderClient& holder, HeldMount mount, std::string_view why_slow, const Clock& clock,
                            Deadline deadline);

// Until the process has ended: how it did, or nothing when the holder knows it no more.
Result<std::optional<HeldMount>> AwaitHeldEnd(HolderClient& holder, const std::string& name, const Clock& clock,
                                              Deadline deadline);

// Whether the target shows this mount, not a dead one before it. kUnavailable when we cannot see the mount at all.
Result<bool> IsBound(VolumeHost& host, const std::string& target, const HeldMount& mount);
// Binds it there unless it is. Over a dead mount the new one goes on top (docs/decisions/0011).
Status BindHeld(VolumeHost& host, const std::string& target, const HeldMount& mount);

}  // namespace paceline::agent
