// The files below a layer, as overlayfs would show the layers that are converted already. For layers whose archives
// leave directories out. Loads the metadata of a layer at the first question and keeps it.
//
// Used by the image converter, one thread at a time. Blocks for the store.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/blocks/format/blob_store.h"
#include "lib/blocks/format/erofs_reader.h"
#include "lib/blocks/format/manifest.h"
#include "lib/blocks/image/layer_tree.h"

namespace paceline::blocks {

class LowerLayers final : public LowerTree {
 public:
  // Borrows the store and the clock. `limit` is that of one call to the store.
  LowerLayers(BlobStore& store, const Clock& clock, Duration limit) : store_(store), clock_(clock), limit_(limit) {}

  // Puts a layer on top.
  void Push(const BlockLayer& layer) { layers_.push_back({layer.index, nullptr}); }

  Result<std::optional<Found>> Lookup(const std::string& path) override;

 private:
  struct Layer {
    Descriptor index;
    std::shared_ptr<const ErofsReader> reader;
  };
  // One layer's part of a directory.
  struct Part {
    const ErofsReader* reader = nullptr;
    ErofsInode inode;
  };
  Result<const ErofsReader*> Load(Layer& layer);
  // The parts of child `name`, topmost first; empty when there is none.
  static Result<std::vector<Part>> Step(const std::vector<Part>& directory, const std::string& name);

  BlobStore& store_;
  const Clock& clock_;
  const Duration limit_;
  std::vector<Layer> layers_;  // bottom first
};

}  // namespace paceline::blocks
