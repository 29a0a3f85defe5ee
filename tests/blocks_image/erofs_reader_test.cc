#include "lib/blocks/format/erofs_reader.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <random>
#include <set>

#include "lib/blocks/format/erofs_layout.h"
#include "lib/blocks/format/little_endian.h"
#include "lib/blocks/image/image_check.h"
#include "tests/blocks_image/converted.h"
#include "tests/blocks_image/tar_writer.h"

namespace paceline::blocks {
namespace {

struct Metadata {
  LayerIndexHeader header;
  std::string bytes;
};

Metadata MetadataOf(const std::string& tar) {
  LayerBench bench;
  const Result<ConvertedLayer> converted = bench.Convert(tar);
  EXPECT_TRUE(converted.ok()) << converted.status().ToString();
  const Result<LayerIndex> index = ReadLayerIndex(bench.store(), converted->layer, Deadline::Infinite());
  EXPECT_TRUE(index.ok()) << index.status().ToString();
  return {index->header(), *index->Metadata()};
}

std::string RichTar() {
  TarWriter tar;
  tar.Add({.type = '5', .name = "d/", .mode = 0750, .uid = 7, .gid = 8, .mtime = 99, .pax = {{"mtime", "99.25"}}})
      .Add({.name = "d/f",
            .content = std::string(70000, 'x'),
            .mode = 0644,
            .pax = {{"SCHILY.xattr.user.a", "value"}, {"SCHILY.xattr.security.capability", std::string(20, 'c')}}})
      .HardLink("d/g", "d/f")
      .Symlink("s", "d/f")
      .Add({.type = '3', .name = "null", .major = 1, .minor = 3})
      .File(".wh.gone", "")
      .File("holes", std::string(65536, 'a') + std::string(131072, '\0') + "end");
  for (int i = 0; i < 600; ++i) tar.File("many/" + std::to_string(i), "");
  return tar.Finish();
}

TEST(ErofsReader, ReadsWhatTheWriterWrote) {
  const Metadata metadata = MetadataOf(RichTar());
  const Result<ErofsReader> reader = ErofsReader::Open(metadata.bytes, metadata.header);
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  const ErofsInode root = *reader->Inode(reader->root());
  const auto find = [&](const ErofsInode& directory, const char* name) {
    const Result<std::optional<uint64_t>> nid = reader->Find(directory, name);
    EXPECT_TRUE(nid.ok() && *nid) << name;
    return *reader->Inode(**nid);
  };
  std::vector<std::string> names;
  const Result<std::vector<ErofsEntry>> entries = reader->List(root);
  ASSERT_TRUE(entries.ok());
  for (const ErofsEntry& entry : *entries) names.push_back(entry.name);
  EXPECT_EQ(names, (std::vector<std::string>{"d", "gone", "holes", "many", "null", "s"}));
  EXPECT_FALSE(*reader->Find(root, "e"));

  const ErofsInode d = find(root, "d");
  EXPECT_EQ(d.mode, S_IFDIR | 0750U);
  EXPECT_EQ(d.uid, 7U);
  EXPECT_EQ(d.gid, 8U);
  EXPECT_EQ(d.mtime_s, 99);
  EXPECT_EQ(d.mtime_ns, 250000000U);
  const ErofsInode f = find(d, "f");
  EXPECT_EQ(f.nid, find(d, "g").nid);
  EXPECT_EQ(f.links, 2U);
  EXPECT_EQ(f.size_bytes, 70000U);
  const std::map<std::string, std::string> xattrs = {{"user.a", "value"},
                                                     {"security.capability", std::string(20, 'c')}};
  EXPECT_EQ(*reader->Xattrs(f), xattrs);
  ASSERT_EQ(reader->Extents(f)->size(), 1U);
  EXPECT_EQ((*reader->Extents(f))[0].blocks, 18U);
  EXPECT_EQ(*reader->SymlinkTarget(find(root, "s")), "d/f");
  EXPECT_TRUE(find(root, "gone").is_whiteout());
  EXPECT_EQ(find(root, "null").device, erofs::EncodeDevice(1, 3));
  const std::vector<ErofsExtent> extents = *reader->Extents(find(root, "holes"));
  ASSERT_EQ(extents.size(), 2U);
  EXPECT_EQ(extents[0].blocks, 16U);
  EXPECT_EQ(extents[1].file_offset_bytes, 65536U + 131072U);
  EXPECT_EQ(reader->List(find(root, "many"))->size(), 600U);
}

// Reads all that the tree leads to, at most once each.
void WalkAll(const ErofsReader& reader) {
  std::set<uint64_t> seen;
  std::vector<uint64_t> open = {reader.root()};
  while (!open.empty()) {
    const uint64_t nid = open.back();
    open.pop_back();
    if (!seen.insert(nid).second) continue;
    const Result<ErofsInode> inode = reader.Inode(nid);
    if (!inode.ok()) continue;
    reader.Xattrs(*inode).status().IgnoreError();  // only that they end is tested
    reader.Extents(*inode).status().IgnoreError();
    if (S_ISLNK(inode->mode)) reader.SymlinkTarget(*inode).status().IgnoreError();
    const Result<std::vector<ErofsEntry>> entries = reader.List(*inode);
    if (!entries.ok()) continue;
    for (const ErofsEntry& entry : *entries) open.push_back(entry.nid);
  }
}

TEST(ErofsReader, DamagedMetadataEndsWell) {
  const Metadata metadata = MetadataOf(RichTar());
  std::mt19937 random(5);
  for (int round = 0; round < 1500; ++round) {
    std::string damaged = metadata.bytes;
    for (int flips = 1 + round % 8; flips > 0; --flips) {
      // Mostly where the inodes of the first files are.
      const size_t at = round % 2 == 0 ? random() % damaged.size() : kBlockBytes + random() % kBlockBytes;
      damaged[at] = static_cast<char>(random());
    }
    char* super = &damaged[erofs::kSuperblockAt];
    StoreLe(super + erofs::super::kChecksumAt, uint32_t{0});
    StoreLe(super + erofs::super::kChecksumAt,
            ~Crc32c(std::string_view(damaged).substr(erofs::kSuperblockAt, kBlockBytes - erofs::kSuperblockAt)));
    const Result<ErofsReader> reader = ErofsReader::Open(damaged, metadata.header);
    if (reader.ok()) WalkAll(*reader);
  }
}

TEST(ErofsReader, RefusesASuperblockThatDoesNotFitTheIndex) {
  const Metadata metadata = MetadataOf(RichTar());
  LayerIndexHeader other = metadata.header;
  ++other.data_blocks;
  EXPECT_EQ(ErofsReader::Open(metadata.bytes, other).status().code(), StatusCode::kDataLoss);
  other = metadata.header;
  ++other.meta_blocks;
  EXPECT_EQ(ErofsReader::Open(metadata.bytes, other).status().code(), StatusCode::kDataLoss);
  for (const size_t bit : {size_t{0}, size_t{33}, size_t{8 * 80}, size_t{8 * 2000}}) {
    std::string damaged = metadata.bytes;
    damaged[erofs::kSuperblockAt + bit / 8] ^= static_cast<char>(1U << bit % 8);
    EXPECT_FALSE(ErofsReader::Open(damaged, metadata.header).ok()) << bit;
  }
}

}  // namespace
}  // namespace paceline::blocks
