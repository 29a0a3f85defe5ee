// The file system that the kernel's EROFS reads from: one directory with a file for each layer, named by its number.
// Stateless and with fixed inode numbers (the number + 2), so that another process could go on serving it.
//
// Called by fusefs::Session on many threads at once; a read blocks as long as LayerSet::Read does, which is bounded.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/blocks/engine/chunk_engine.h"
#include "lib/fusefs/operations.h"
#include "snapshotter/read_around.h"

namespace paceline::snapshotter {

// The inode of layer 0; the others follow.
inline constexpr uint64_t kFirstLayerInode = 2;

// The layers that are served. Implementations are thread-safe; calls end within a limit of their own.
class LayerSet {
 public:
  virtual ~LayerSet() = default;
  // Of the EROFS image; nothing when there is no such layer.
  virtual std::optional<uint64_t> SizeOf(uint64_t number) = 0;
  // Fills `out`; the range lies within the image.
  virtual Status Read(uint64_t number, uint64_t offset_bytes, std::span<char> out) = 0;
  // In ascending order.
  virtual std::vector<uint64_t> Numbers() = 0;
};

// Those of one image, numbered from the bottom.
class ImageLayers final : public LayerSet {
 public:
  // Borrowed. `around` is told of each read; may be null.
  ImageLayers(blocks::ImageReader& image, ReadAround* around) : image_(image), around_(around) {}

  std::optional<uint64_t> SizeOf(uint64_t number) override;
  Status Read(uint64_t number, uint64_t offset_bytes, std::span<char> out) override;
  std::vector<uint64_t> Numbers() override;

 private:
  blocks::ImageReader& image_;
  ReadAround* const around_;
};

class LayerFiles final : public fusefs::Operations {
 public:
  // `layers` is borrowed.
  explicit LayerFiles(LayerSet& layers) : layers_(layers) {}

  int Lookup(const fusefs::Caller&, uint64_t parent, const std::string& name, fusefs::Entry* entry) override;
  void Forget(uint64_t, uint64_t) override {}
  int GetAttributes(uint64_t inode, fusefs::Attributes* attributes, Duration* lifetime) override;
  int SetAttributes(const fusefs::Caller&, uint64_t, const fusefs::AttributeChange&, fusefs::Attributes*,
                    Duration*) override;
  int ReadLink(uint64_t, std::string*) override;
  int MakeDirectory(const fusefs::Caller&, uint64_t, const std::string&, uint32_t, fusefs::Entry*) override;
  int Create(const fusefs::Caller&, uint64_t, const std::string&, uint32_t, int, fusefs::Entry*,
             fusefs::Opened*) override;
  int RemoveFile(uint64_t, const std::string&) override;
  int RemoveDirectory(uint64_t, const std::string&) override;
  int Rename(uint64_t, const std::string&, uint64_t, const std::string&, unsigned) override;
  int Open(const fusefs::Caller&, uint64_t inode, int flags, fusefs::Opened* opened) override;
  int Read(uint64_t inode, uint64_t handle, uint64_t offset, std::span<std::byte> out, size_t* got) override;
  int Write(const fusefs::Caller&, uint64_t, uint64_t, uint64_t, std::span<const std::byte>) override;
  int Flush(const fusefs::Caller&, uint64_t, uint64_t) override { return 0; }
  int Sync(uint64_t, uint64_t) override { return 0; }
  void Release(uint64_t, uint64_t) override {}
  int OpenDirectory(uint64_t inode, uint64_t* handle) override;
  int ReadDirectory(uint64_t, uint64_t, uint64_t offset, fusefs::DirectorySink* sink) override;
  void ReleaseDirectory(uint64_t, uint64_t) override {}
  int GetSpace(fusefs::Space* space) override;
  int GetXattr(uint64_t, const std::string&, std::string*) override;
  int SetXattr(uint64_t, const std::string&, std::string_view, int) override;
  int ListXattrs(uint64_t, std::vector<std::string>*) override { return 0; }
  int RemoveXattr(uint64_t, const std::string&) override;

 private:
  // Of the file with this inode; nothing when there is none.
  std::optional<uint64_t> SizeOf(uint64_t inode);

  LayerSet& layers_;
};

}  // namespace paceline::snapshotter
