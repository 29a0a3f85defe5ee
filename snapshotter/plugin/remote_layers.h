// Where Snapshots gets converted layers from: which layer a request means, and its mount. A seam: RemoteImages is the
// real one, tests have their own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "snapshotter/plugin/snapshot_record.h"

namespace paceline::snapshotter {

// A layer that containerd is about to unpack, from the labels of its request.
struct LayerRequest {
  std::string chain_id;         // of the layer and what lies below: "sha256:..."
  std::string image_name;       // "registry.test:5000/python:1"
  std::string manifest_digest;  // of the image, one platform
};

class RemoteLayers {
 public:
  virtual ~RemoteLayers() = default;

  // The converted layer, checked and ready to be mounted; or nothing, and then it is to be pulled the ordinary way. Why
  // is logged and counted here. May block for a registry, within a limit of its own.
  virtual std::optional<RemoteLayer> Find(const LayerRequest& request) = 0;

  // Mounts the layer of snapshot `id` on `folder`, which exists. Ok when it is mounted. Needs no network for what an
  // earlier run has seen.
  virtual Status Mount(uint64_t id, const RemoteLayer& layer, const std::string& folder) = 0;

  // Takes the mount down, if there is one; readers that are still in it keep it.
  virtual void Unmount(uint64_t id, const std::string& folder) = 0;

  // A container is made on these snapshots with converted layers, lowest first. Returns at once.
  virtual void Use(const std::vector<uint64_t>& ids) = 0;

  // Bytes that the layer takes on this disk now.
  virtual uint64_t KeptBytes(uint64_t id) = 0;
};

}  // namespace paceline::snapshotter
