// libfuse's callback table over Operations: takes each request apart, asks, and answers. Private to lib/fusefs, and the
// only header that shows libfuse's types.
#pragma once

#define FUSE_USE_VERSION 314
#include <fuse3/fuse_lowlevel.h>

#include <cstdint>

#include "lib/fusefs/operations.h"
#include "lib/fusefs/session.h"

namespace paceline::fusefs {

// The session's user data; outlives the session.
struct RequestContext {
  Operations& operations;
  const Clock& clock;
  const RequestObserver& observer;
  uint32_t read_ahead_bytes;
};

const fuse_lowlevel_ops& RequestTable();

}  // namespace paceline::fusefs
