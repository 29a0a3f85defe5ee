#include "lib/blocks/image/tar_reader.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/blocks_image/tar_writer.h"

namespace paceline::blocks {
namespace {

struct ReadEntry {
  TarEntry entry;
  std::string stored;
};

Result<std::vector<ReadEntry>> ReadAllEntries(const std::string& tar) {
  const std::unique_ptr<ByteSource> source = NewStringSource(tar);
  TarReader reader(*source);
  std::vector<ReadEntry> entries;
  for (;;) {
    ReadEntry read;
    ASSIGN_OR_RETURN(const bool has_entry, reader.Next(&read.entry));
    if (!has_entry) {
      RETURN_IF_ERROR(reader.Drain());
      return entries;
    }
    std::string piece(1000, '\0');
    for (;;) {
      ASSIGN_OR_RETURN(const size_t got, reader.Read(piece));
      if (got == 0) break;
      read.stored.append(piece, 0, got);
    }
    entries.push_back(std::move(read));
  }
}

// The only entry of an archive.
ReadEntry One(const std::string& tar) {
  Result<std::vector<ReadEntry>> entries = ReadAllEntries(tar);
  EXPECT_TRUE(entries.ok()) << entries.status().ToString();
  EXPECT_TRUE(!entries.ok() || entries->size() == 1);
  return entries.ok() && !entries->empty() ? std::move((*entries)[0]) : ReadEntry();
}

ReadEntry OneWith(std::vector<std::pair<std::string, std::string>> pax, const std::string& content = "") {
  return One(TarWriter().Add({.name = "f", .content = content, .pax = std::move(pax)}).Finish());
}

void Put(std::string* block, size_t at, const std::string& text) { block->replace(at, text.size(), text); }

TEST(TarReader, TypesOfEntries) {
  const struct {
    char type;
    const char* name;
    TarEntry::Type expected;
  } cases[] = {{'0', "f", TarEntry::Type::kFile},       {'\0', "f", TarEntry::Type::kFile},
               {'7', "f", TarEntry::Type::kFile},       {'0', "d/", TarEntry::Type::kDirectory},
               {'1', "h", TarEntry::Type::kHardLink},   {'2', "s", TarEntry::Type::kSymlink},
               {'3', "c", TarEntry::Type::kCharDevice}, {'4', "b", TarEntry::Type::kBlockDevice},
               {'5', "d", TarEntry::Type::kDirectory},  {'6', "p", TarEntry::Type::kFifo}};
  for (const auto& c : cases) {
    const ReadEntry read = One(TarWriter().Add({.type = c.type, .name = c.name, .link = "to"}).Finish());
    EXPECT_EQ(read.entry.type, c.expected) << c.type;
    EXPECT_EQ(read.entry.name, c.name);
  }
}

TEST(TarReader, RefusesTypesThatNoLayerHas) {
  for (const char type : {'M', 'D', 'N', 'A', '9', 'X'}) {
    const Result<std::vector<ReadEntry>> entries =
        ReadAllEntries(TarWriter().Add({.type = type, .name = "f"}).Finish());
    EXPECT_EQ(entries.status().code(), StatusCode::kUnimplemented) << type;
  }
}

TEST(TarReader, PassesOverWhatDescribesTheArchive) {
  const std::string tar =
      TarWriter()
          .Add({.type = 'g', .name = "pax_global_header", .content = TarWriter::PaxRecord("mtime", "5")})
          .Add({.type = 'V', .name = "label"})
          .File("f", "x")
          .Finish();
  const ReadEntry read = One(tar);
  EXPECT_EQ(read.entry.name, "f");
  EXPECT_EQ(read.entry.mtime_s, 1700000000);  // records for all entries count as little as they do in containerd
}

TEST(TarReader, FieldsOfAHeader) {
  const ReadEntry read = One(TarWriter()
                                 .Add({.type = '4',
                                       .name = "disk",
                                       .mode = 04751,
                                       .uid = 17,
                                       .gid = 18,
                                       .mtime = 1234567890,
                                       .major = 259,
                                       .minor = 70000})
                                 .Finish());
  EXPECT_EQ(read.entry.mode, 04751U);
  EXPECT_EQ(read.entry.uid, 17U);
  EXPECT_EQ(read.entry.gid, 18U);
  EXPECT_EQ(read.entry.mtime_s, 1234567890);
  EXPECT_EQ(read.entry.device_major, 259U);
  EXPECT_EQ(read.entry.device_minor, 70000U);
}

TEST(TarReader, NumbersInOctalAndBase256) {
  const struct {
    std::string field;
    bool is_ok;
    int64_t expected;
  } cases[] = {{"00000000012", true, 10},
               {std::string("    12 \0   ", 11), true, 10},
               {"           ", true, 0},
               {std::string(12, '\0'), true, 0},
               {"0000000001x", false, 0},
               {"-0000000001", false, 0},
               {"00000000089", false, 0},
               {std::string("\x80\0\0\0\0\0\0\0\0\0\1\2", 12), true, 258},
               {std::string("\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", 12), true, INT64_MAX},
               {std::string("\x80\0\0\0\x80\0\0\0\0\0\0\0", 12), false, 0},
               {std::string(12, '\xff'), true, -1},
               {std::string("\xff\xff\xff\xff\x80\0\0\0\0\0\0\0", 12), true, INT64_MIN},
               {std::string("\xff\xff\xff\xff\x7f\0\0\0\0\0\0\0", 12), false, 0}};
  for (const auto& c : cases) {
    std::string block = TarWriter::Header({.name = "f"}, 0);
    block.replace(136, 12, (c.field + std::string(12, '\0')).substr(0, 12));
    TarWriter::FixChecksum(&block);
    const Result<std::vector<ReadEntry>> entries = ReadAllEntries(block);
    ASSERT_EQ(entries.ok(), c.is_ok) << c.field << entries.status().ToString();
    EXPECT_TRUE(!c.is_ok || (*entries)[0].entry.mtime_s == c.expected) << c.field;
  }
}

TEST(TarReader, LongNames) {
  const std::string name(3000, 'n'), target(2000, 't');
  const std::string gnu = TarWriter()
                              .Add({.type = 'L', .name = "././@LongLink", .content = name + std::string(1, '\0')})
                              .Add({.type = 'K', .name = "././@LongLink", .content = target + std::string(1, '\0')})
                              .Symlink("short", "short")
                              .Finish();
  const std::string pax = TarWriter().Symlink(name, target).Finish();
  for (const std::string& tar : {gnu, pax}) {
    const ReadEntry read = One(tar);
    EXPECT_EQ(read.entry.name, name);
    EXPECT_EQ(read.entry.link_target, target);
  }
}

TEST(TarReader, PrefixOfTheName) {
  std::string block = TarWriter::Header({.name = "file"}, 0);
  Put(&block, 345, "some/folder");
  std::string ustar = block, gnu = block, star = block;
  Put(&gnu, 257, std::string("ustar  \0", 8));  // there the same bytes are times
  Put(&star, 345 + 131, "00000000012 00000000012 ");
  Put(&star, 508, std::string("tar\0", 4));
  for (std::string* header : {&ustar, &gnu, &star}) TarWriter::FixChecksum(header);
  EXPECT_EQ(One(ustar).entry.name, "some/folder/file");
  EXPECT_EQ(One(gnu).entry.name, "file");
  EXPECT_EQ(One(star).entry.name, "some/folder/file");
}

TEST(TarReader, PaxRecords) {
  const std::string binary("\x01\0\0\x02\n=x", 7);
  const ReadEntry read = OneWith({{"path", "other/name"},
                                  {"uid", "4000000000"},
                                  {"gid", "4294967295"},
                                  {"mtime", "1500000000.25"},
                                  {"hdrcharset", "BINARY"},
                                  {"uname", "somebody"},
                                  {"SCHILY.xattr.security.capability", binary},
                                  {"SCHILY.xattr.user.empty", ""},
                                  {"LIBARCHIVE.xattr.user.a%3Db", "dmFsdWU"},
                                  {"LIBARCHIVE.xattr.security.capability", "b3RoZXI="}});
  EXPECT_EQ(read.entry.name, "other/name");
  EXPECT_EQ(read.entry.uid, 4000000000U);
  EXPECT_EQ(read.entry.gid, 4294967295U);
  EXPECT_EQ(read.entry.mtime_s, 1500000000);
  EXPECT_EQ(read.entry.mtime_ns, 250000000U);
  const std::map<std::string, std::string> expected = {
      {"security.capability", binary}, {"user.empty", ""}, {"user.a=b", "value"}};
  EXPECT_EQ(read.entry.xattrs, expected);
}

TEST(TarReader, TimesOfPax) {
  const struct {
    const char* text;
    int64_t seconds;
    uint32_t nanos;
  } cases[] = {{"0", 0, 0},   {"12.000000001", 12, 1}, {"12.1234567891", 12, 123456789},
               {"-1", -1, 0}, {"-1.5", -2, 500000000}, {"-0.25", -1, 750000000},
               {"12.", 12, 0}};
  for (const auto& c : cases) {
    const ReadEntry read = OneWith({{"mtime", c.text}});
    EXPECT_EQ(read.entry.mtime_s, c.seconds) << c.text;
    EXPECT_EQ(read.entry.mtime_ns, c.nanos) << c.text;
  }
}

TEST(TarReader, RefusesDamagedPaxRecords) {
  const char* const cases[] = {"5 a=",     "x a=b\n", "100 path=a\n", "6 ab=c",
                               "7 =abc\n", "0 a=b\n", "3 a\n",        "99999999999999999999 a=b\n"};
  for (const char* text : cases) {
    const std::string tar = TarWriter().Add({.type = 'x', .name = "h", .content = text}).File("f", "").Finish();
    EXPECT_EQ(ReadAllEntries(tar).status().code(), StatusCode::kDataLoss) << text;
  }
  for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{{"uid", "x"},
                                                                                   {"uid", "-1"},
                                                                                   {"size", "1.5"},
                                                                                   {"mtime", "1.x"},
                                                                                   {"mtime", "--1"},
                                                                                   {"LIBARCHIVE.xattr.a", "!"}}) {
    const std::string tar = TarWriter().Add({.name = "f", .pax = {{key, value}}}).Finish();
    EXPECT_EQ(ReadAllEntries(tar).status().code(), StatusCode::kDataLoss) << key << value;
  }
}

TEST(TarReader, SizeOfMoreThanTheHeaderHolds) {
  // 9 GiB, said in base 256 and by PAX; only the header is here, which a reader must not mind before it reads on.
  std::string block = TarWriter::Header({.name = "big"}, 0);
  Put(&block, 124, std::string("\x80\0\0\0\0\0\0\x02\x40\0\0\0", 12));
  TarWriter::FixChecksum(&block);
  const std::string records = TarWriter::PaxRecord("size", "9663676416");
  const std::string pax = TarWriter::Header({.type = 'x', .name = "h"}, records.size()) + TarWriter::Padded(records) +
                          TarWriter::Header({.name = "big"}, 0);
  for (const std::string& tar : {block, pax}) {
    const std::unique_ptr<ByteSource> source = NewStringSource(tar);
    TarReader reader(*source);
    TarEntry entry;
    ASSERT_TRUE(reader.Next(&entry).ok());
    EXPECT_EQ(entry.size_bytes, uint64_t{9} << 30);
    EXPECT_EQ(reader.Next(&entry).status().code(), StatusCode::kDataLoss);
  }
}

using Extents = std::vector<TarEntry::Extent>;

TEST(TarReader, SparseForms) {
  const std::string data = std::string(1000, 'a') + std::string(24, 'b');
  const Extents expected = {{512, 1000}, {8192, 24}};
  const std::string v00 = TarWriter()
                              .Add({.name = "f",
                                    .content = data,
                                    .pax = {{"GNU.sparse.size", "10000"},
                                            {"GNU.sparse.numblocks", "2"},
                                            {"GNU.sparse.offset", "512"},
                                            {"GNU.sparse.numbytes", "1000"},
                                            {"GNU.sparse.offset", "8192"},
                                            {"GNU.sparse.numbytes", "24"}}})
                              .Finish();
  const std::string v01 = TarWriter()
                              .Add({.name = "GNUSparseFile.1/f",
                                    .content = data,
                                    .pax = {{"GNU.sparse.size", "10000"},
                                            {"GNU.sparse.name", "f"},
                                            {"GNU.sparse.map", "512,1000,8192,24,10000,0"}}})
                              .Finish();
  const std::string v10 = TarWriter()
                              .Add({.name = "GNUSparseFile.1/f",
                                    .content = TarWriter::Padded("3\n512\n1000\n8192\n24\n10000\n0\n") + data,
                                    .pax = {{"GNU.sparse.major", "1"},
                                            {"GNU.sparse.minor", "0"},
                                            {"GNU.sparse.name", "f"},
                                            {"GNU.sparse.realsize", "10000"}}})
                              .Finish();
  std::string header = TarWriter::Header({.type = 'S', .name = "f"}, data.size());
  Put(&header, 386, "00000001000");
  Put(&header, 386, fmt::format("{:011o}", 512));
  Put(&header, 398, fmt::format("{:011o}", 1000));
  Put(&header, 483, fmt::format("{:011o}", 10000));
  header[482] = 1;  // the rest of the map is in a block of its own
  TarWriter::FixChecksum(&header);
  std::string more(512, '\0');
  Put(&more, 0, fmt::format("{:011o}", 8192));
  Put(&more, 12, fmt::format("{:011o}", 24));
  const std::string old = header + more + TarWriter::Padded(data);
  for (const std::string& tar : {v00, v01, v10, old}) {
    const ReadEntry read = One(tar);
    EXPECT_EQ(read.entry.name, "f");
    EXPECT_TRUE(read.entry.is_sparse);
    EXPECT_EQ(read.entry.size_bytes, 10000U);
    EXPECT_EQ(read.entry.extents, expected);
    EXPECT_EQ(read.stored, data);
  }
}

TEST(TarReader, RefusesSparseMapsThatMakeNoSense) {
  const char* const maps[] = {"0,100,50,100",             // overlap
                              "100,4,0,4",                // out of order
                              "0,9",                      // more than is stored
                              "0,4",                      // less
                              "0,8,x,1",                  // no number
                              "0",                        // half a pair
                              "99999,8",                  // beyond the end
                              "18446744073709551615,8"};  // overflow
  for (const char* map : maps) {
    const std::string tar =
        TarWriter()
            .Add({.name = "f", .content = "12345678", .pax = {{"GNU.sparse.size", "1000"}, {"GNU.sparse.map", map}}})
            .Finish();
    EXPECT_EQ(ReadAllEntries(tar).status().code(), StatusCode::kDataLoss) << map;
  }
}

TEST(TarReader, EndsOfArchives) {
  const std::string entry = TarWriter().File("f", "content").bytes();
  EXPECT_EQ(ReadAllEntries(entry)->size(), 1U);                                         // no end at all, as Go accepts
  EXPECT_EQ(ReadAllEntries(entry + std::string(512, '\0'))->size(), 1U);                // half an end
  EXPECT_EQ(ReadAllEntries(entry + std::string(10240, '\0') + "garbage")->size(), 1U);  // padding, whatever it holds
  EXPECT_EQ(ReadAllEntries("")->size(), 0U);
  EXPECT_EQ(ReadAllEntries(std::string(512, '\0') + entry).status().code(), StatusCode::kDataLoss);
}

TEST(TarReader, EntriesWithoutABodyWhateverTheirSizeSays) {
  // Some writers repeat the size of the file that a hard link names.
  const std::string tar =
      TarWriter::Header({.type = '1', .name = "h", .link = "f"}, 5000) + TarWriter().File("f", "x").Finish();
  const Result<std::vector<ReadEntry>> entries = ReadAllEntries(tar);
  ASSERT_TRUE(entries.ok()) << entries.status().ToString();
  EXPECT_EQ(entries->size(), 2U);
}

// Everything in one archive, for the two tests below.
std::string RichArchive() {
  return TarWriter()
      .Directory("d/")
      .File("d/f", std::string(1500, 'x'))
      .Symlink(std::string(150, 's'), std::string(150, 't'))
      .Add({.type = 'L', .name = "././@LongLink", .content = std::string(300, 'n')})
      .File("short", "y")
      .Add({.name = "sparse",
            .content = TarWriter::Padded("2\n0\n4\n100\n4\n") + "abcdefgh",
            .pax = {{"GNU.sparse.major", "1"}, {"GNU.sparse.minor", "0"}, {"GNU.sparse.realsize", "200"}}})
      .Add({.name = "x", .pax = {{"SCHILY.xattr.user.a", "b"}, {"mtime", "1.5"}, {"uid", "70000"}}})
      .HardLink("h", "d/f")
      .Finish();
}

TEST(TarReader, CutShortAnywhere) {
  const std::string whole = RichArchive();
  const size_t all = ReadAllEntries(whole)->size();
  for (size_t size = 0; size < whole.size() - 1024; ++size) {
    const Result<std::vector<ReadEntry>> entries = ReadAllEntries(whole.substr(0, size));
    if (entries.ok()) {
      EXPECT_LT(entries->size(), all) << size;  // only between two entries
    } else {
      EXPECT_EQ(entries.status().code(), StatusCode::kDataLoss) << size;
    }
  }
}

TEST(TarReader, FlippedBytesEndWell) {
  const std::string whole = RichArchive();
  std::mt19937 random(1);
  for (int round = 0; round < 4000; ++round) {
    std::string damaged = whole;
    for (int flips = 1 + round % 3; flips > 0; --flips)
      damaged[random() % damaged.size()] ^= static_cast<char>(1U << random() % 8);
    // Past the checksums, too, where the reader's own checks are all there is.
    if (round % 2 == 0) {
      for (size_t at = 0; at + 512 <= damaged.size(); at += 512) {
        std::string block = damaged.substr(at, 512);
        if (block.compare(257, 5, "ustar") != 0) continue;
        TarWriter::FixChecksum(&block);
        damaged.replace(at, 512, block);
      }
    }
    const Result<std::vector<ReadEntry>> entries = ReadAllEntries(damaged);
    EXPECT_TRUE(entries.ok() || !entries.status().message().empty());
  }
}

}  // namespace
}  // namespace paceline::blocks
