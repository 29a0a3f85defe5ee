#include "lib/blocks/image/image_converter.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "lib/blocks/format/folder_store.h"
#include "lib/blocks/image/image_check.h"
#include "lib/blocks/image/lower_layers.h"
#include "tests/blocks_image/oci_layout.h"
#include "tests/blocks_image/tar_writer.h"
#include "tests/fakes/temporary_folder.h"

namespace paceline::blocks {
namespace {

LayoutLayer Plain(const std::string& tar) { return {tar, tar}; }

LayoutLayer Numbered(int number) {
  const std::string folder = "layer" + std::to_string(number) + "/";
  return Plain(TarWriter().Directory(folder).File(folder + "f", std::string(100 + number, 'x')).Finish());
}

// Ends the process as a power cut would, at the n-th call.
class DyingStore final : public BlobStore {
 public:
  DyingStore(BlobStore& store, int calls_left) : store_(store), calls_left_(calls_left) {}

  void Count() {
    if (calls_left_-- == 0) ::kill(::getpid(), SIGKILL);
  }

  class Writer final : public BlobWriter {
   public:
    Writer(DyingStore& owner, std::unique_ptr<BlobWriter> writer) : owner_(owner), writer_(std::move(writer)) {}
    Status Append(std::string_view bytes, Deadline deadline) override {
      owner_.Count();
      return writer_->Append(bytes, deadline);
    }
    Result<Descriptor> Commit(Deadline deadline) override {
      owner_.Count();
      return writer_->Commit(deadline);
    }

   private:
    DyingStore& owner_;
    std::unique_ptr<BlobWriter> writer_;
  };

  Result<uint64_t> StatBlob(const Digest& digest, Deadline deadline) override {
    return store_.StatBlob(digest, deadline);
  }
  Status ReadBlob(const Digest& digest, uint64_t offset, std::span<char> out, Deadline deadline) override {
    return store_.ReadBlob(digest, offset, out, deadline);
  }
  Result<std::unique_ptr<BlobWriter>> NewBlob(Deadline deadline) override {
    Count();
    ASSIGN_OR_RETURN(std::unique_ptr<BlobWriter> writer, store_.NewBlob(deadline));
    return std::make_unique<Writer>(*this, std::move(writer));
  }
  Result<StoredManifest> GetManifest(const std::string& name, Deadline deadline) override {
    return store_.GetManifest(name, deadline);
  }
  Result<Descriptor> PutManifest(const std::string& tag, const std::string& media_type, std::string_view bytes,
                                 Deadline deadline) override {
    Count();
    Result<Descriptor> put = store_.PutManifest(tag, media_type, bytes, deadline);
    Count();
    return put;
  }
  std::string Describe() const override { return store_.Describe(); }

 private:
  BlobStore& store_;
  int calls_left_;
};

class ImageConverterTest : public testing::Test {
 protected:
  std::unique_ptr<BlobStore> Open(const std::string& name) {
    Result<std::unique_ptr<BlobStore>> store = OpenFolderStore(folder_ / name, StoreAccess::kWrite);
    EXPECT_TRUE(store.ok()) << store.status().ToString();
    return std::move(*store);
  }

  Result<ImageReport> Convert(const std::string& tag, BlobStore& store) {
    const std::unique_ptr<ImageSource> source = NewLayoutSource(NewFolderFiles(layout_.folder()), tag);
    ConvertProgress progress;
    ImageConversion conversion;
    conversion.platform = {"linux", "amd64", ""};
    conversion.progress = &progress;
    return ConvertImage(*source, store, conversion, clock_, {});
  }

  // Everything of the converted image is there and right.
  void ExpectWhole(BlobStore& store, const ImageReport& report) {
    const Result<StoredManifest> manifest = store.GetManifest(report.tag, Deadline::Infinite());
    ASSERT_TRUE(manifest.ok()) << manifest.status().ToString();
    EXPECT_EQ(manifest->descriptor.digest, report.manifest.digest);
    const Result<BlockImageManifest> image = ParseImageManifest(manifest->bytes);
    ASSERT_TRUE(image.ok()) << image.status().ToString();
    EXPECT_EQ(image->subject.digest, report.source.manifest.digest);
    EXPECT_EQ(image->layers.size(), report.source.layers.size());
    for (const BlockLayer& layer : image->layers) {
      const Status status = CheckLayer(store, layer, {}, clock_, {}).status();
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
  }

  fakes::TemporaryFolder folder_;
  RealClock clock_;
  OciLayout layout_{folder_ / "layout"};
};

TEST_F(ImageConverterTest, ConvertsEachLayerOnce) {
  layout_.AddImage("base", {Numbered(1), Numbered(2)});
  layout_.AddImage("app", {Numbered(1), Numbered(2), Numbered(3), Numbered(3)});
  const std::unique_ptr<BlobStore> store = Open("store");
  const Result<ImageReport> base = Convert("base", *store);
  ASSERT_TRUE(base.ok()) << base.status().ToString();
  EXPECT_FALSE(base->layers[0].was_there || base->layers[1].was_there);
  const Result<ImageReport> app = Convert("app", *store);
  ASSERT_TRUE(app.ok()) << app.status().ToString();
  EXPECT_TRUE(app->layers[0].was_there && app->layers[1].was_there);
  EXPECT_FALSE(app->layers[2].was_there);
  EXPECT_TRUE(app->layers[3].was_there);  // the same layer twice in one image
  EXPECT_EQ(app->layers[3].converted.layer, app->layers[2].converted.layer);
  ExpectWhole(*store, *base);
  ExpectWhole(*store, *app);
  const Result<ImageReport> again = Convert("app", *store);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->manifest, app->manifest);
}

TEST_F(ImageConverterTest, AnImageOf127LayersAndOneOfNone) {
  std::vector<LayoutLayer> layers;
  for (int i = 0; i < 127; ++i) layers.push_back(Numbered(i % 100));
  layout_.AddImage("many", layers);
  layout_.AddImage("none", {});
  const std::unique_ptr<BlobStore> store = Open("store");
  for (const char* tag : {"many", "none"}) {
    const Result<ImageReport> report = Convert(tag, *store);
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    ExpectWhole(*store, *report);
  }
}

TEST_F(ImageConverterTest, SharesALayerThatWasCompressedOtherwise) {
  const LayoutLayer plain = Numbered(1);
  LayoutLayer packed = plain;
  packed.blob = "";
  ZstdEncoder(1).AppendFrame(plain.tar, &packed.blob);
  layout_.AddImage("plain", {plain});
  layout_.AddImage("packed", {packed});
  const std::unique_ptr<BlobStore> store = Open("store");
  ASSERT_TRUE(Convert("plain", *store).ok());
  const Result<ImageReport> report = Convert("packed", *store);
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_TRUE(report->layers[0].was_there);
  EXPECT_EQ(*report->layers[0].converted.layer.source, Sha256Of(packed.blob));
}

TEST_F(ImageConverterTest, GoesOnWhereAKilledRunStopped) {
  layout_.AddImage("app", {Numbered(1), Numbered(2)});
  const std::unique_ptr<BlobStore> reference = Open("reference");
  const Result<ImageReport> expected = Convert("app", *reference);
  ASSERT_TRUE(expected.ok());
  int deaths = 0;
  for (int calls = 0;; ++calls) {
    const std::string name = "store" + std::to_string(calls);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const std::unique_ptr<BlobStore> store = Open(name);
      DyingStore dying(*store, calls);
      ::_exit(Convert("app", dying).ok() ? 0 : 1);
    }
    int ended = 0;
    ASSERT_EQ(::waitpid(child, &ended, 0), child);
    const bool was_killed = WIFSIGNALED(ended);
    ASSERT_TRUE(was_killed || ended == 0);
    deaths += was_killed;
    const std::unique_ptr<BlobStore> store = Open(name);
    // What is found by name is whole, however the run ended.
    const Result<StoredManifest> left = store->GetManifest(expected->tag, Deadline::Infinite());
    EXPECT_TRUE(!left.ok() || left->descriptor.digest == expected->manifest.digest);
    const Result<ImageReport> report = Convert("app", *store);
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    EXPECT_EQ(report->manifest, expected->manifest);
    ExpectWhole(*store, *report);
    EXPECT_TRUE(std::filesystem::is_empty(folder_ / name + "/tmp"));
    if (!was_killed) break;
  }
  EXPECT_GE(deaths, 15);
}

TEST_F(ImageConverterTest, MendsWhatIsDamagedOrMissing) {
  layout_.AddImage("app", {Numbered(1)});
  const std::unique_ptr<BlobStore> store = Open("store");
  const ImageReport first = *Convert("app", *store);
  const BlockLayer& layer = first.layers[0].converted.layer;
  const std::string blobs = folder_ / "store/blobs/sha256/";
  const std::string tag = folder_ / "store/tags/" + LayerTag(layer.diff_id, 16);
  const auto truncate = [](const std::string& path) { std::ofstream(path, std::ios::trunc) << "x"; };
  const std::vector<std::function<void()>> damages = {
      [&] { std::filesystem::remove(blobs + layer.data[0].digest.Hex()); },
      [&] { truncate(blobs + layer.data[0].digest.Hex()); },
      [&] { std::filesystem::remove(blobs + layer.index.digest.Hex()); },
      [&] { truncate(blobs + layer.index.digest.Hex()); },
      [&] { std::filesystem::remove(tag); },
      [&] { truncate(tag); }};
  for (size_t i = 0; i < damages.size(); ++i) {
    damages[i]();
    const Result<ImageReport> report = Convert("app", *store);
    ASSERT_TRUE(report.ok()) << i << report.status().ToString();
    EXPECT_FALSE(report->layers[0].was_there) << i;
    EXPECT_EQ(report->manifest, first.manifest);
    ExpectWhole(*store, *report);
  }
}

TEST_F(ImageConverterTest, LayersWithoutTheirDirectoriesBelongToWhatIsBelow) {
  const LayoutLayer base = Plain(TarWriter()
                                     .Directory("tmp/", 01777)
                                     .Directory("usr/", 0711)
                                     .Directory("usr/lib/", 0751)
                                     .Symlink("lib", "usr/lib")
                                     .Directory("gone/", 0700)
                                     .Finish());
  const LayoutLayer removal = Plain(TarWriter().File(".wh.gone", "").Finish());
  const LayoutLayer other = Plain(TarWriter().Directory("tmp/", 0700).Finish());
  const LayoutLayer top = Plain(TarWriter().File("tmp/f", "1").File("lib/g", "2").File("gone/h", "3").Finish());
  layout_.AddImage("one", {base, removal, top});
  layout_.AddImage("two", {base, other, top});
  const std::unique_ptr<BlobStore> store = Open("store");
  const auto modes = [&](const ImageReport& report) {
    LowerLayers layers(*store, clock_, std::chrono::minutes(1));
    layers.Push(report.layers.back().converted.layer);
    std::string text;
    for (const char* path : {"/tmp", "/lib", "/usr/lib", "/gone", "/usr/lib/g"}) {
      const Result<std::optional<LowerTree::Found>> found = layers.Lookup(path);
      EXPECT_TRUE(found.ok()) << found.status().ToString();
      text += found.ok() && *found ? std::to_string((*found)->attributes.mode & 07777U) + " " : "- ";
    }
    return text;
  };
  const Result<ImageReport> one = Convert("one", *store), two = Convert("two", *store);
  ASSERT_TRUE(one.ok() && two.ok()) << one.status().ToString() << two.status().ToString();
  EXPECT_TRUE(one->layers[2].converted.needs_lower);
  EXPECT_FALSE(two->layers[2].was_there);  // below it lies something else
  EXPECT_EQ(modes(*one), std::to_string(01777) + " - " + std::to_string(0751) + " " + std::to_string(0755) + " " +
                             std::to_string(0644) + " ");
  EXPECT_EQ(modes(*two), std::to_string(0700) + " - " + std::to_string(0751) + " " + std::to_string(0700) + " " +
                             std::to_string(0644) + " ");
  const Result<ImageReport> again = Convert("one", *store);
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->layers[2].was_there);
}

TEST_F(ImageConverterTest, ChoosesThePlatform) {
  const Digest intel = layout_.AddImage("intel", {Numbered(1)}, "amd64");
  const Digest arm = layout_.AddImage("arm", {Numbered(2)}, "arm64");
  layout_.JoinImages("both");
  const auto resolve = [&](const char* text) {
    const Platform platform = *ParsePlatform(text);
    return NewLayoutSource(NewFolderFiles(layout_.folder()), "both")->Resolve(platform, Deadline::Infinite());
  };
  EXPECT_EQ(resolve("linux/amd64")->manifest.digest, intel);
  EXPECT_EQ(resolve("linux/arm64")->manifest.digest, arm);
  EXPECT_EQ(resolve("linux/riscv64").status().code(), StatusCode::kNotFound);
  EXPECT_NE(resolve("linux/riscv64").status().message().find("linux/arm64"), std::string::npos);
}

TEST_F(ImageConverterTest, ReadsArchivesWhereTheyLie) {
  layout_.AddImage("app", {Numbered(1), Numbered(2)});
  const std::string archive = folder_ / "app.tar";
  ASSERT_EQ(std::system(("tar -cf " + archive + " -C " + layout_.folder() + " .").c_str()), 0);
  const std::unique_ptr<BlobStore> store = Open("store");
  const ImageReport from_folder = *Convert("app", *store);
  Result<std::unique_ptr<ImageSource>> source = OpenLocalSource("oci-archive:" + archive + ":app");
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  const std::unique_ptr<BlobStore> second = Open("second");
  ConvertProgress progress;
  const ImageConversion conversion{{"linux", "amd64", ""}, {}, &progress, nullptr};
  const Result<ImageReport> report = ConvertImage(**source, *second, conversion, clock_, {});
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(report->manifest, from_folder.manifest);
}

TEST_F(ImageConverterTest, SaysWhatIsWrongWithASource) {
  layout_.AddImage("app", {Numbered(1)});
  const std::unique_ptr<BlobStore> store = Open("store");
  const Status no_tag = Convert("other", *store).status();
  EXPECT_EQ(no_tag.code(), StatusCode::kNotFound);
  EXPECT_NE(no_tag.message().find("app"), std::string::npos);
  std::filesystem::remove(layout_.BlobPath(Sha256Of(Numbered(1).blob)));
  EXPECT_EQ(Convert("app", *store).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(OpenLocalSource("docker-daemon:x").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenLocalSource("oci-archive:" + folder_ / "none").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace paceline::blocks
