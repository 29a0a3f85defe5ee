#include "snapshotter/config.h"

namespace paceline::snapshotter {

void AddRegistryAccess(ConfigSpec& spec, blocks::RegistryConfig* config) {
  blocks::AddRegistryFields(spec, config);
  spec.Add("registry.skipVerification", &config->skips_verification,
           "Believe any certificate. For tests: chunks are checked all the same, tags and credentials are not safe.");
}

void AddFetchFields(ConfigSpec& spec, FetchConfig* config) {
  spec.Add("cache.quota", &config->cache_quota, "Most that chunks may take there.").Positive();
  spec.Add("fetch.threads", &config->threads, "Ranges that are fetched at once.").Range(2, 64);
  spec.Add("fetch.memory", &config->memory, "Chunks kept in memory.");
  spec.Add("fetch.readLimit", &config->read_limit, "After so long without bytes a read fails.").Positive();
  spec.Add("fetch.openLimit", &config->open_limit, "Limit for loading manifest and indexes at the start.").Positive();
}

void AddBackingField(ConfigSpec& spec, std::string* backing) {
  spec.Add("backing", backing, "How EROFS gets at its file: by itself, through a loop device, or what works (auto).")
      .OneOf({"auto", "file", "loop"});
}

ConfigSpec DescribeServeConfig(ServeConfig* config) {
  ConfigSpec spec("paceline-snapshotter serve", "Mounts one converted image on a directory and serves it.");
  spec.Add("store", &config->store, "Store of the converted image: file:///FOLDER or docker://REGISTRY/REPOSITORY.");
  spec.Add("image", &config->image, "Digest of the converted image's manifest, sha256:...");
  spec.Add("directory", &config->directory, "Where to mount it. Must exist.");
  spec.Add("daemon", &config->runs_as_daemon, "Go to the background once the image is mounted.");
  spec.Add("writable", &config->is_writable, "Let the mount take writes; they are dropped when it is unmounted.");
  spec.Add("stateFolder", &config->state_folder, "Where layers are mounted and the control socket lies.");
  spec.Add("controlSocket", &config->control_socket,
           "A second socket that answers `stats` and `hotset`, for whoever keeps this process. Empty: none.")
      .Env("PACELINE_SNAPSHOTTER_CONTROL");
  spec.Add("keeper", &config->keeps_connection,
           "Leave the mount's connection with a second process, so that readers wait instead of failing when this one "
           "is "
           "killed, until it is started again.")
      .Env("PACELINE_SNAPSHOTTER_KEEPER");
  AddBackingField(spec, &config->backing);
  spec.Add("cache.folder", &config->cache_folder,
           "Where chunks are kept, on ext4, xfs or btrfs. Empty: the first folder /var/lib/paceline/blocks-N that no "
           "other mount uses.");
  AddFetchFields(spec, &config->fetch);
  spec.Add("fetch.hotSet", &config->hot_set,
           "File with the chunks that an earlier start read (pacectl image hotset record); they are fetched first.");
  spec.Add("hotSet.use", &config->hot_set_use,
           "What to do with the hot set beside the image: fetch it first, record one as well where there is none "
           "(record), or none.")
      .OneOf({"none", "fetch", "record"})
      .Env("PACELINE_SNAPSHOTTER_HOT_SET");
  spec.Add("hotSet.folder", &config->hot_set_folder, "Where recorded sets are kept that the store does not take.");
  spec.Add("hotSet.window", &config->hot_set_window, "How long reads are recorded, from the first one on.").Positive();
  spec.Add("hotSet.maxBytes", &config->hot_set_limit, "Most that is fetched ahead.");
  spec.Add("firstStart.readAround", &config->read_around,
           "So much behind each read is fetched as well while a first hot set is recorded.");
  AddRegistryAccess(spec, &config->registry);
  spec.Add("log.file", &config->log_file, "Where a daemon's log goes. Empty: nowhere.");
  spec.Add("log.level", &config->log_level, "Least important lines that are logged.");
  spec.Add("log.format", &config->log_format, "Form of the log lines.");
  spec.AddCheck([config]() -> Status {
    if (config->store.empty()) return InvalidArgumentError("store: must be given");
    if (config->directory.empty()) return InvalidArgumentError("directory: must be given");
    return blocks::ParseDigest(config->image).status().Annotate("image");
  });
  return spec;
}

BackingChoice BackingOf(const std::string& backing) {
  if (backing == "file") return BackingChoice::kFile;
  if (backing == "loop") return BackingChoice::kLoop;
  return BackingChoice::kProbe;
}

MountHotSetOptions HotSetOptionsOf(const ServeConfig& config) {
  MountHotSetOptions options;
  if (config.hot_set_use == "none") options.use = HotSetUse::kNone;
  if (config.hot_set_use == "record") options.use = HotSetUse::kRecord;
  options.folder = config.hot_set_folder;
  options.window = config.hot_set_window;
  options.max_prefetch_bytes = config.hot_set_limit.bytes;
  return options;
}

blocks::EngineOptions EngineOptionsOf(const FetchConfig& config) {
  blocks::EngineOptions options;
  options.fetch.threads = config.threads;
  options.fetch.prefetch_threads = config.threads - 1;
  options.memory_bytes = config.memory.bytes;
  options.read_limit = config.read_limit;
  options.fetch_limit = config.read_limit * 2;
  return options;
}

}  // namespace paceline::snapshotter
