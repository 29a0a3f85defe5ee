// Volume type `trace`: a small place in memory where the NCCL plugin of a training process writes its trace rings, with
// the plugin itself beside them. The trace collector reads them there, at the volume's target. Inline only; attributes
// in docs/volumes.md. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "agent/csi/volume_host.h"
#include "agent/csi/volume_type.h"
#include "lib/base/filesystem.h"
#include "lib/base/units.h"

namespace paceline::agent {

inline constexpr std::string_view kTraceVolumeType = "trace";

struct TraceVolumeOptions {
  std::string plugin;           // path of libnccl-profiler-paceline.so; a volume without it is refused
  ByteSize size{256ULL << 20};  // of a volume that does not say
};

// `files` is where the plugin lies. Both must outlive the type.
std::unique_ptr<VolumeType> NewTraceVolume(TraceVolumeOptions options, const FileSystem& files, VolumeHost& host);

}  // namespace paceline::agent
