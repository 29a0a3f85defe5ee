#include "lib/blocks/image/layer_tree.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/blocks_image/tar_writer.h"

namespace paceline::blocks {
namespace {

using Type = TarEntry::Type;

TarEntry Entry(Type type, std::string name, std::string link = "") {
  TarEntry entry;
  entry.type = type;
  entry.name = std::move(name);
  entry.link_target = std::move(link);
  entry.mode = type == Type::kDirectory ? 0750 : 0640;
  return entry;
}

void Describe(const LayerTree& tree, uint32_t number, const std::string& path, std::string* out) {
  const Inode& inode = tree.inodes()[number];
  std::string kind = "?";
  if (S_ISREG(inode.mode)) kind = fmt::format("file[{}]", inode.size_bytes);
  if (S_ISLNK(inode.mode)) kind = "link[" + *inode.symlink_target + "]";
  if (S_ISCHR(inode.mode)) kind = inode.is_whiteout ? "whiteout" : "device";
  if (S_ISDIR(inode.mode)) {
    kind = inode.is_implied ? "implied" : "dir";
    if (inode.xattrs != nullptr && inode.xattrs->contains(kOpaqueXattr)) kind += "(opaque)";
  } else if (inode.links != 1) {
    kind += fmt::format("x{}", inode.links);
  }
  if (!path.empty()) *out += path + "=" + kind + " ";
  if (inode.children == nullptr) return;
  for (const auto& [name, child] : *inode.children) Describe(tree, child, path + "/" + name, out);
}

std::string Describe(const LayerTree& tree) {
  std::string out;
  Describe(tree, LayerTree::kRoot, "", &out);
  if (!out.empty()) out.pop_back();
  return out;
}

struct Step {
  Type type;
  const char* name;
  const char* link = "";
};

// Files get sizes 1, 2, 3, ... in the order they come.
Status Fill(LayerTree* tree, const std::vector<Step>& steps) {
  uint64_t size = 0;
  for (const Step& step : steps) {
    FilePlacement placement;
    if (step.type == Type::kFile) placement.size_bytes = ++size;
    RETURN_IF_ERROR(tree->Add(Entry(step.type, step.name, step.link), placement));
  }
  return Status();
}

struct UnpackCase {
  const char* what;
  std::vector<Step> steps;
  const char* expected;
};
const std::vector<UnpackCase>& UnpackCases() {
  static const std::vector<UnpackCase> cases = {
      {"names are cleaned",
       {{Type::kDirectory, "./"}, {Type::kDirectory, "./a/"}, {Type::kFile, "/a//./f"}},
       "/a=dir /a/f=file[1]"},
      {"dots stop at the root", {{Type::kFile, "../../f"}, {Type::kFile, "a/../../g"}}, "/f=file[1] /g=file[2]"},
      {"missing directories are implied", {{Type::kFile, "a/b/f"}}, "/a=implied /a/b=implied /a/b/f=file[1]"},
      {"and described later", {{Type::kFile, "a/f"}, {Type::kDirectory, "a"}}, "/a=dir /a/f=file[1]"},
      {"the last one wins", {{Type::kFile, "f"}, {Type::kFile, "f"}}, "/f=file[2]"},
      {"a directory keeps its files",
       {{Type::kDirectory, "d"}, {Type::kFile, "d/f"}, {Type::kDirectory, "d"}},
       "/d=dir /d/f=file[1]"},
      {"a file replaces a directory",
       {{Type::kDirectory, "d"}, {Type::kFile, "d/f"}, {Type::kFile, "d"}},
       "/d=file[2]"},
      {"a directory replaces a file",
       {{Type::kFile, "d"}, {Type::kDirectory, "d"}, {Type::kFile, "d/f"}},
       "/d=dir /d/f=file[2]"},
      {"hard links share",
       {{Type::kFile, "a"}, {Type::kHardLink, "b", "a"}, {Type::kHardLink, "c", "./b"}},
       "/a=file[1]x3 /b=file[1]x3 /c=file[1]x3"},
      {"a replaced name leaves the others",
       {{Type::kFile, "a"}, {Type::kHardLink, "b", "/a"}, {Type::kFile, "a"}},
       "/a=file[2] /b=file[1]"},
      {"a hard link to itself", {{Type::kFile, "a"}, {Type::kHardLink, "a", "a"}}, "/a=file[1]"},
      {"a hard link to a link", {{Type::kSymlink, "s", "x"}, {Type::kHardLink, "t", "s"}}, "/s=link[x]x2 /t=link[x]x2"},
      {"names lead through links of the layer",
       {{Type::kDirectory, "usr/lib"},
        {Type::kSymlink, "lib", "usr/lib"},
        {Type::kFile, "lib/f"},
        {Type::kHardLink, "g", "lib/f"}},
       "/g=file[1]x2 /lib=link[usr/lib] /usr=implied /usr/lib=dir /usr/lib/f=file[1]x2"},
      {"links stop at the root",
       {{Type::kSymlink, "up", "../../.."}, {Type::kFile, "up/f"}},
       "/f=file[1] /up=link[../../..]"},
      {"absolute links start there",
       {{Type::kDirectory, "a"}, {Type::kSymlink, "a/s", "/b"}, {Type::kFile, "a/s/f"}},
       "/a=dir /a/s=link[/b] /b=implied /b/f=file[1]"},
      {"whiteouts", {{Type::kFile, "a/.wh.gone"}}, "/a=implied /a/gone=whiteout"},
      {"a whiteout hides nothing of its layer", {{Type::kFile, "f"}, {Type::kFile, ".wh.f"}}, "/f=file[1]"},
      {"nor when it comes first", {{Type::kFile, ".wh.f"}, {Type::kFile, "f"}}, "/f=file[2]"},
      {"a directory with a whiteout is opaque",
       {{Type::kFile, ".wh.d"}, {Type::kDirectory, "d"}, {Type::kFile, "d/f"}},
       "/d=dir(opaque) /d/f=file[2]"},
      {"in either order", {{Type::kDirectory, "d"}, {Type::kFile, ".wh.d"}}, "/d=dir(opaque)"},
      {"and when it is implied", {{Type::kFile, ".wh.d"}, {Type::kFile, "d/f"}}, "/d=implied(opaque) /d/f=file[2]"},
      {"opaque markers stay when the directory is described later",
       {{Type::kFile, "d/.wh..wh..opq"}, {Type::kDirectory, "d"}},
       "/d=dir(opaque)"},
      {"bookkeeping of aufs is left out", {{Type::kDirectory, ".wh..wh.plnk"}, {Type::kFile, ".wh..wh.aufs"}}, ""},
      {"an opaque root", {{Type::kFile, ".wh..wh..opq"}}, ""},
  };
  return cases;
}

TEST(LayerTree, UnpacksAsARuntimeWould) {
  for (const UnpackCase& c : UnpackCases()) {
    LayerTree tree(nullptr);
    const Status status = Fill(&tree, c.steps);
    EXPECT_TRUE(status.ok()) << c.what << ": " << status.ToString();
    EXPECT_EQ(Describe(tree), c.expected) << c.what;
  }
}

TEST(LayerTree, Refuses) {
  const std::string long_name(256, 'n');
  const struct {
    const char* what;
    std::vector<Step> steps;
    StatusCode code;
  } cases[] = {
      {"a file below a file", {{Type::kFile, "a"}, {Type::kFile, "a/b"}}, StatusCode::kInvalidArgument},
      {"a file for the root", {{Type::kFile, "."}}, StatusCode::kInvalidArgument},
      {"a hard link to nothing", {{Type::kHardLink, "a", "b"}}, StatusCode::kUnimplemented},
      {"nor below nothing", {{Type::kHardLink, "a", "b/c/d"}}, StatusCode::kUnimplemented},
      {"nor to a whiteout", {{Type::kFile, ".wh.b"}, {Type::kHardLink, "a", "b"}}, StatusCode::kUnimplemented},
      {"a hard link to a directory",
       {{Type::kDirectory, "d"}, {Type::kHardLink, "a", "d"}},
       StatusCode::kInvalidArgument},
      {"a hard link to the root", {{Type::kHardLink, "a", "/"}}, StatusCode::kInvalidArgument},
      {"a circle of links",
       {{Type::kSymlink, "a", "b"}, {Type::kSymlink, "b", "a"}, {Type::kFile, "a/f"}},
       StatusCode::kInvalidArgument},
      {"a long name", {{Type::kFile, long_name.c_str()}}, StatusCode::kInvalidArgument},
      {"a link to nowhere", {{Type::kSymlink, "a", ""}}, StatusCode::kInvalidArgument},
      {"a whiteout of nothing", {{Type::kFile, "a/.wh."}}, StatusCode::kInvalidArgument},
      {"a whiteout of a directory itself", {{Type::kFile, "a/.wh.."}}, StatusCode::kInvalidArgument},
      {"or of the one above", {{Type::kFile, "a/.wh..."}}, StatusCode::kInvalidArgument},
  };
  for (const auto& c : cases) {
    LayerTree tree(nullptr);
    EXPECT_EQ(Fill(&tree, c.steps).code(), c.code) << c.what;
  }
}

TEST(LayerTree, RefusesNothingButDepth) {
  std::string deep;
  for (int i = 0; i < 3000; ++i) deep += "d/";
  LayerTree tree(nullptr);
  EXPECT_EQ(tree.Add(Entry(Type::kFile, deep + "f"), {}).code(), StatusCode::kInvalidArgument);
}

TEST(LayerTree, KeepsAttributesOfUsersAndSecurityAlone) {
  LayerTree tree(nullptr);
  TarEntry entry = Entry(Type::kFile, "f");
  entry.xattrs = {{"user.a", "1"},
                  {"security.capability", "2"},
                  {"system.posix_acl_access", "3"},
                  {"trusted.overlay.redirect", "/etc"},
                  {"trusted.x", "5"},
                  {"system.nfs4_acl", "6"}};
  ASSERT_TRUE(tree.Add(entry, {}).ok());
  const XattrMap expected = {{"security.capability", "2"}, {"system.posix_acl_access", "3"}, {"user.a", "1"}};
  EXPECT_EQ(*tree.inodes()[1].xattrs, expected);
  EXPECT_EQ(tree.dropped(), 3U);
}

class FixedLower final : public LowerTree {
 public:
  Result<std::optional<Found>> Lookup(const std::string& path) override {
    asked.push_back(path);
    const auto found = files.find(path);
    if (found == files.end()) return std::optional<Found>();
    return std::optional<Found>(found->second);
  }
  std::map<std::string, Found> files;
  std::vector<std::string> asked;
};

TEST(LayerTree, ImpliedDirectoriesAreWhatLiesBelow) {
  FixedLower lower;
  lower.files["/tmp"] = {{S_IFDIR | 01777, 5, 6, 77, 8, {{"user.a", "b"}}}, ""};
  LayerTree tree(&lower);
  ASSERT_TRUE(tree.Add(Entry(Type::kFile, "tmp/new/f"), {}).ok());
  const Inode& tmp = tree.inodes()[tree.inodes()[0].children->at("tmp")];
  EXPECT_EQ(tmp.mode, S_IFDIR | 01777U);
  EXPECT_EQ(tmp.uid, 5U);
  EXPECT_EQ(tmp.mtime_s, 77);
  EXPECT_EQ(tmp.xattrs->at("user.a"), "b");
  const Inode& fresh = tree.inodes()[tmp.children->at("new")];
  EXPECT_EQ(fresh.mode, S_IFDIR | 0755U);
  EXPECT_EQ(lower.asked, (std::vector<std::string>{"/tmp", "/tmp/new"}));
  EXPECT_TRUE(tree.needs_lower());
}

TEST(LayerTree, FollowsLinksOfLowerLayers) {
  FixedLower lower;
  lower.files["/lib"] = {{S_IFLNK | 0777, 0, 0, 0, 0, {}}, "usr/lib"};
  lower.files["/usr"] = {{S_IFDIR | 0700, 0, 0, 0, 0, {}}, ""};
  LayerTree tree(&lower);
  ASSERT_TRUE(tree.Add(Entry(Type::kFile, "lib/f"), {}).ok());
  EXPECT_EQ(Describe(tree), "/usr=implied /usr/lib=implied /usr/lib/f=file[0]");
  EXPECT_TRUE(tree.needs_lower());
}

TEST(LayerTree, AsksNothingOfLowerLayersWhenAllIsDescribed) {
  FixedLower lower;
  LayerTree tree(&lower);
  ASSERT_TRUE(Fill(&tree, {{Type::kDirectory, "a"}, {Type::kDirectory, "a/b"}, {Type::kFile, "a/b/f"}}).ok());
  EXPECT_TRUE(lower.asked.empty());
  EXPECT_FALSE(tree.needs_lower());
}

}  // namespace
}  // namespace paceline::blocks
