// Tells whether the writer of hidden files still lives, and removes what dead ones left: docs/formats/hdfs-parts.md.
// Internal to lib/hdfs; used by HdfsFileSystem. Pure but for the calls to the NameNode.
#pragma once

#include <string>

#include "lib/hdfs/name_node.h"
#include "lib/hdfs/part_names.h"

namespace paceline::hdfs {

// A writer keeps its target open until its end, so the target's lease tells. Asking that may start the recovery of a
// lease that has run out, which harms nobody. Where the target is complete or gone, false until nothing has changed for
// `quiet`. Blocks for a few calls. Errors are those of the NameNode.
Result<bool> IsWriterDead(NameNode& namenode, const Clock& clock, const std::string& directory,
                          const WriterParts& parts, Duration quiet, Deadline deadline);

// Returns how many files there were.
Result<size_t> RemoveParts(NameNode& namenode, const std::string& directory, const WriterParts& parts,
                           Deadline deadline);

}  // namespace paceline::hdfs
