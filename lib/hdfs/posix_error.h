// The errno inside a Status. A FUSE reply needs ENOTEMPTY apart from EEXIST and EDQUOT apart from ENOSPC, which
// StatusCode does not tell apart; so a failure of this library that has an errno of its own ends its message in the
// errno's name, "remove /a: not empty [ENOTEMPTY]", which is also what a person wants to read. Annotate keeps it, since
// it adds in front. Pure functions.
#pragma once

#include <string>

#include "lib/base/status.h"

namespace paceline::hdfs {

// `error` must be one of the table in posix_error.cc (every errno that this library gives); the code follows from it.
Status PosixError(int error, const std::string& message);

// The errno for a reply: the one that PosixError put in, else the nearest one for the code (EIO when nothing fits); 0
// for ok.
int ErrnoOf(const Status& status);

}  // namespace paceline::hdfs
