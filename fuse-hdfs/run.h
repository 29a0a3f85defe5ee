// A mount's life: reach the filesystem, mount, serve until a stop is asked for or somebody unmounts, write out what is
// open. Called by main().
#pragma once

#include <functional>
#include <stop_token>

#include "fuse-hdfs/config.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/result.h"

namespace paceline::fuse_hdfs {

// `on_mounted` runs once, when the mount answers. Fails without it having run when the configuration, the server or the
// mount point are not good; after it, when something that was being written could not be completed.
Status RunMount(const MountConfig& config, const Clock& clock, Logger& log, std::stop_token stop,
                const std::function<Status()>& on_mounted);

}  // namespace paceline::fuse_hdfs
