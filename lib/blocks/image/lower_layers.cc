#include "lib/blocks/image/lower_layers.h"

#include <sys/stat.h>

namespace paceline::blocks {

Result<const ErofsReader*> LowerLayers::Load(Layer& layer) {
  if (layer.reader == nullptr) {
    ASSIGN_OR_RETURN(std::string bytes, ReadWholeBlob(store_, layer.index, Deadline::After(clock_, limit_)));
    ASSIGN_OR_RETURN(const LayerIndex index, LayerIndex::Parse(std::make_shared<const std::string>(std::move(bytes))));
    ASSIGN_OR_RETURN(std::string metadata, index.Metadata());
    ASSIGN_OR_RETURN(ErofsReader reader, ErofsReader::Open(std::move(metadata), index.header()));
    layer.reader = std::make_shared<const ErofsReader>(std::move(reader));
  }
  return layer.reader.get();
}

Result<std::vector<LowerLayers::Part>> LowerLayers::Step(const std::vector<Part>& directory, const std::string& name) {
  std::vector<Part> found;
  for (const Part& part : directory) {
    ASSIGN_OR_RETURN(const std::optional<uint64_t> nid, part.reader->Find(part.inode, name));
    if (!nid) continue;
    ASSIGN_OR_RETURN(const ErofsInode inode, part.reader->Inode(*nid));
    if (inode.is_whiteout()) break;
    const bool is_directory = S_ISDIR(inode.mode);
    if (!found.empty() && !is_directory) break;  // hidden by the directory above
    found.push_back({part.reader, inode});
    if (!is_directory) break;
    ASSIGN_OR_RETURN(const XattrMap xattrs, part.reader->Xattrs(inode));
    if (xattrs.contains(kOpaqueXattr)) break;
  }
  return found;
}

Result<std::optional<LowerTree::Found>> LowerLayers::Lookup(const std::string& path) {
  std::vector<Part> at;
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
    ASSIGN_OR_RETURN(const ErofsReader* reader, Load(*layer));
    ASSIGN_OR_RETURN(const ErofsInode root, reader->Inode(reader->root()));
    at.push_back({reader, root});
  }
  size_t begin = 0;
  while (begin < path.size() && !at.empty()) {
    if (path[begin] == '/') {
      ++begin;
      continue;
    }
    const size_t end = std::min(path.find('/', begin), path.size());
    if (!S_ISDIR(at[0].inode.mode)) return std::optional<Found>();
    ASSIGN_OR_RETURN(at, Step(at, path.substr(begin, end - begin)));
    begin = end;
  }
  if (at.empty()) return std::optional<Found>();
  const Part& top = at[0];
  Found found;
  found.attributes = {top.inode.mode, top.inode.uid, top.inode.gid, top.inode.mtime_s, top.inode.mtime_ns, {}};
  ASSIGN_OR_RETURN(found.attributes.xattrs, top.reader->Xattrs(top.inode));
  if (S_ISLNK(top.inode.mode)) {
    ASSIGN_OR_RETURN(found.symlink_target, top.reader->SymlinkTarget(top.inode));
  }
  return std::optional<Found>(std::move(found));
}

}  // namespace paceline::blocks
