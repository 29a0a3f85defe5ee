// The fields of what a user asks for a job. Internal to lib/api; see fields.h.
#pragma once

#include <algorithm>

#include "lib/api/fields.h"
#include "lib/api/job_settings.h"
#include "lib/api/meta_fields.h"

namespace paceline::api {

template <>
struct EnumTable<ConvertMode> {
  static constexpr std::pair<ConvertMode, std::string_view> kEntries[] = {{ConvertMode::kOff, "Off"},
                                                                          {ConvertMode::kAuto, "Auto"}};
};

template <>
struct EnumTable<CheckpointLayout> {
  static constexpr std::pair<CheckpointLayout, std::string_view> kEntries[] = {{CheckpointLayout::kPlain, "plain"},
                                                                               {CheckpointLayout::kStriped, "striped"}};
};

template <typename V>
void Fields(V& v, const ImageSettings*) {
  using T = ImageSettings;
  v.Field("prefetch", &T::prefetch,
          {.doc = "Fetch the recorded hot blocks of the image before the container asks for them. Does nothing for an "
                  "image without a profile.",
           .defaulted = true});
  v.Field(
      "convert", &T::convert,
      {.doc =
           "Auto: have the image converted in the background, once, when it is not yet; this start does not wait for "
           "it. Off: use the image as it is.",
       .defaulted = true});
  v.Field("profile", &T::profile,
          {.doc = "Which hot set of the image to use and to record; several purposes of one image get a profile each. "
                  "Empty means \"default\".",
           .max_length = 63,
           .pattern = kDnsLabelPattern,
           .pattern_words = kDnsLabelWords});
}

inline constexpr FieldSpec kInputsField = {
    .doc =
        "Files that the install reads, such as requirements.txt. Their contents, includes followed, are part of the "
        "snapshot's key.",
    .max_length = 1024,
    .max_items = 64,
    .list = ListType::kSet};

inline constexpr FieldSpec kCaptureField = {
    .doc =
        "Directories that the install makes and the snapshot keeps: a virtual environment, a conda prefix. The image "
        "must hold nothing there. Without any the install runs in every worker.",
    .max_length = 1024,
    .max_items = 64,
    .pattern = kAbsolutePathPattern,
    .pattern_words = kAbsolutePathWords,
    .list = ListType::kSet};

template <typename V>
void Fields(V& v, const DependencySettings*) {
  using T = DependencySettings;
  v.Field("enabled", &T::enabled,
          {.doc = "False keeps the settings but runs without snapshots: the install command runs in every worker.",
           .defaulted = true});
  v.Field("install", &T::install,
          {.doc = "Shell command that installs the dependencies, run before the container's own command.",
           .max_length = 16384});
  v.Field("inputs", &T::inputs, kInputsField);
  v.Field("capture", &T::capture, kCaptureField);
  v.Field("exclude", &T::exclude,
          {.doc = "Glob patterns of paths that the snapshot leaves out.",
           .max_length = 1024,
           .max_items = 64,
           .list = ListType::kSet});
  v.Field("environment", &T::environment,
          {.doc = "Names of environment variables whose values are part of the snapshot's key.",
           .max_length = 256,
           .max_items = 64,
           .pattern = "^[A-Za-z_][A-Za-z0-9_]*$",
           .pattern_words = "must be the name of an environment variable",
           .list = ListType::kSet});
  v.Field("ttl", &T::ttl,
          {.doc = "A snapshot older than this is recorded anew, for inputs that float. Absent: after 24 hours, or 30 "
                  "days when "
                  "every requirement names one version."});
  v.Rule("!self.enabled || (has(self.install) && size(self.install) > 0)",
         "must say how to install when dependencies are enabled", "install",
         [](const T& d) { return !d.enabled || !d.install.empty(); });
}

template <typename V>
void Fields(V& v, const StartupSettings*) {
  using T = StartupSettings;
  v.Field("image", &T::image, {.doc = "How the container images get to the nodes.", .defaulted = true});
  v.Field("dependencies", &T::dependencies,
          {.doc = "Dependencies that are installed at start and restored from a snapshot afterwards. Absent: none."});
}

template <typename V>
void Fields(V& v, const SecretReference*) {
  v.Field("name", &SecretReference::name,
          {.doc = "Name of a Secret in the job's namespace.",
           .required = true,
           .max_length = 253,
           .pattern = kDnsNamePattern,
           .pattern_words = kDnsNameWords});
}

// No path component is "..".
inline bool HasNoParentComponent(std::string_view path) {
  for (size_t start = 0; start <= path.size();) {
    const size_t end = std::min(path.find('/', start), path.size());
    if (path.substr(start, end - start) == "..") return false;
    start = end + 1;
  }
  return true;
}

template <typename V>
void Fields(V& v, const Checkpoint*) {
  using T = Checkpoint;
  v.Field("name", &T::name,
          {.doc = "Unique name within the job.",
           .required = true,
           .max_length = 40,
           .pattern = kDnsLabelPattern,
           .pattern_words = kDnsLabelWords});
  v.Field("uri", &T::uri,
          {.doc = "The HDFS directory: hdfs://<name service or host:port>/<path>.",
           .required = true,
           .max_length = 2048,
           .pattern = "^hdfs://[^/?#]+/",
           .pattern_words = "must be hdfs://<name service or host:port>/<path>"});
  v.Field("mountPath", &T::mount_path,
          {.doc = "Where the directory appears in every container of the job.",
           .required = true,
           .max_length = 1024,
           .pattern = "^/[^:]*[^:/]$",
           .pattern_words = "must be an absolute path other than '/', without ':' and without a slash at its end"});
  v.Field("readOnly", &T::read_only, {.doc = "Mount it read-only.", .defaulted = true});
  v.Field(
      "layout", &T::layout,
      {.doc = "How new files are written. plain: ordinary HDFS files, written through several pipelines and joined. "
              "striped: units dealt over several files with a manifest.",
       .defaulted = true});
  v.Field("memoryLimit", &T::memory_limit,
          {.doc = "Most memory that the mount uses for buffers, as a quantity. Absent: the agent's default.",
           .max_length = 32,
           .format = TextFormat::kQuantity});
  v.Field("createDirectory", &T::create_directory,
          {.doc = "Make the directory, with those above it, when it is not there: mode 0755, of the mount's HDFS user.",
           .defaulted = true});
  v.Field("prefetch", &T::prefetch,
          {.doc = "Files and directories in it that the job reads first: loaded while the containers start.",
           .max_length = 1024,
           .max_items = 32,
           .pattern = "^[^/,][^,]*$",
           .pattern_words = "must be a path relative to uri, without ','",
           .list = ListType::kSet});
  v.Field("secretRef", &T::secret_ref, {.doc = "Credentials for HDFS: a keytab or a delegation token."});
  v.Rule("!self.mountPath.split('/').exists(s, s == '..')", "must not contain '..'", "mountPath",
         [](const T& c) { return HasNoParentComponent(c.mount_path); });
  v.Rule("!self.readOnly || !self.createDirectory", "does not go with readOnly: what is only read must be there",
         "createDirectory", [](const T& c) { return !c.read_only || !c.create_directory; });
}

template <typename V>
void Fields(V& v, const TracingSettings*) {
  v.Field("enabled", &TracingSettings::enabled,
          {.doc = "Load the collective tracer into the workers.", .defaulted = true});
}

inline constexpr FieldSpec kCheckpointsField = {.doc = "HDFS directories that are mounted before the containers start.",
                                                .max_items = 16,
                                                .list = ListType::kMap,
                                                .list_key = "name"};

inline constexpr FieldSpec kStragglerPolicyField = {
    .doc = "Name of the StragglerPolicy that decides about slow nodes of this job. Empty: none.",
    .max_length = 253,
    .pattern = kDnsNamePattern,
    .pattern_words = kDnsNameWords};

}  // namespace paceline::api
