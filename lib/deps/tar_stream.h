// The canonical tar stream of a captured tree, made as it is read: what the layer is converted from, and what its
// DiffID is the digest of. docs/formats/dependency-snapshot.md, section 2.2.
//
// Pulled by the layer converter, one thread at a time; blocks for the disk. kAborted when a file is not as it was when
// the tree was scanned: a layer of two moments would be worth nothing.
#pragma once

#include <memory>
#include <string>

#include "lib/blocks/image/byte_source.h"
#include "lib/deps/captured_tree.h"

namespace paceline::deps {

// `tree` must outlive the source.
std::unique_ptr<blocks::ByteSource> NewTreeSource(const CapturedTree& tree, Privileges privileges,
                                                  const TreeView& view = TreeView());

}  // namespace paceline::deps
