// Tells whether the writer of hidden files still lives, and removes what dead ones left: docs/formats/hdfs-parts.md.
// Internal to lib/hdfs; used by HdfsFileSystem. Pure but for the calls to the NameNode.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "lib/hdfs/name_node.h"
#include "lib/hdfs/part_names.h"

namespace paceline::hdfs {

// Clients whose lease had run out when one of their files was asked about. The NameNode renews the lease as it starts
// to recover that file, so that of the same client's next file the lease seems to be held.
using DeadHolders = std::set<std::string>;

// "paceline_h1_7_0a" in "... because this file lease is currently owned by paceline_h1_7_0a on 10.0.0.1"; empty when
// `message` names no holder.
std::string LeaseHolderIn(std::string_view message);

// A writer keeps its target open until its end, so the target's lease tells. Asking that may start the recovery of a
// lease that has run out, which harms nobody. Where the target is complete or gone, false until nothing has changed for
// `quiet`. Blocks for a few calls. Errors are those of the NameNode.
Result<bool> IsWriterDead(NameNode& namenode, const Clock& clock, const std::string& directory,
                          const WriterParts& parts, Duration quiet, DeadHolders* dead, Deadline deadline);

// Returns how many files there were.
Result<size_t> RemoveParts(NameNode& namenode, const std::string& directory, const WriterParts& parts,
                           Deadline deadline);

}  // namespace paceline::hdfs
