// What a user asks Paceline to do for a job. TrainingJob.spec carries these structs as fields, annotations on foreign
// jobs are parsed into the same ones (annotations.h), so everything behind this point treats all jobs alike.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/base/clock.h"

namespace paceline::api {

enum class ConvertMode { kOff, kAuto };

struct ImageSettings {
  bool prefetch = true;                     // fetch the recorded hot blocks before the container asks for them
  ConvertMode convert = ConvertMode::kOff;  // kAuto: have the block image made in the background
  std::string profile;                      // name of the ImageProfile's profile; empty: "default"

  friend bool operator==(const ImageSettings&, const ImageSettings&) = default;
};

struct DependencySettings {
  bool enabled = true;
  std::string install;                   // shell command that installs the dependencies
  std::vector<std::string> inputs;       // files whose contents are part of the key
  std::vector<std::string> capture;      // directories that the install makes; empty: no snapshot
  std::vector<std::string> exclude;      // glob patterns below the captured directories
  std::vector<std::string> environment;  // names of environment variables that are part of the key
  std::optional<Duration> ttl;           // after that a snapshot is recorded anew; absent: by its class

  friend bool operator==(const DependencySettings&, const DependencySettings&) = default;
};

struct StartupSettings {
  ImageSettings image;
  std::optional<DependencySettings> dependencies;

  friend bool operator==(const StartupSettings&, const StartupSettings&) = default;
};

enum class CheckpointLayout { kPlain, kStriped };

struct SecretReference {
  std::string name;  // in the namespace of the job

  friend bool operator==(const SecretReference&, const SecretReference&) = default;
};

// One HDFS directory that appears at `mount_path` in every container of the job.
struct Checkpoint {
  std::string name;  // unique within the job; becomes part of a volume name
  std::string uri;   // hdfs://<name service or host:port>/<path>
  std::string mount_path;
  bool read_only = false;
  CheckpointLayout layout = CheckpointLayout::kPlain;
  std::string memory_limit;  // quantity; empty: the agent's default
  bool create_directory = false;
  std::vector<std::string> prefetch;  // paths below `uri` that the job reads first
  std::optional<SecretReference> secret_ref;

  friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};

struct TracingSettings {
  bool enabled = false;

  friend bool operator==(const TracingSettings&, const TracingSettings&) = default;
};

struct JobSettings {
  StartupSettings startup;
  std::vector<Checkpoint> checkpoints;
  TracingSettings tracing;
  std::string straggler_policy;  // name of a StragglerPolicy; empty: none

  friend bool operator==(const JobSettings&, const JobSettings&) = default;
};

}  // namespace paceline::api
