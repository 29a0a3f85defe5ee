#include "lib/blocks/format/manifest.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

namespace paceline::blocks {
namespace {

Descriptor Blob(const char* type, const std::string& name, uint64_t size) { return {type, Sha256Of(name), size, {}}; }

BlockLayer Layer(const std::string& name, int blobs) {
  BlockLayer layer;
  layer.diff_id = Sha256Of("diff " + name);
  layer.index = Blob(kIndexMediaType, "index " + name, 1234);
  for (int i = 0; i < blobs; ++i) layer.data.push_back(Blob(kDataMediaType, name + std::to_string(i), 99));
  return layer;
}

BlockImageManifest Image() {
  BlockImageManifest image;
  image.subject = Blob(kManifestMediaType, "original", 555);
  image.config = Sha256Of("config");
  image.platform = "linux/arm64/v8";
  image.layers = {Layer("a", 1), Layer("b", 0), Layer("c", 3), Layer("a", 1)};
  for (BlockLayer& layer : image.layers) layer.source = Sha256Of("source " + layer.diff_id.Hex());
  return image;
}

TEST(Manifest, ImagesReadBack) {
  const BlockImageManifest image = Image();
  const Result<BlockImageManifest> read = ParseImageManifest(EncodeImageManifest(image));
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->subject, image.subject);
  EXPECT_EQ(read->config, image.config);
  EXPECT_EQ(read->platform, image.platform);
  EXPECT_EQ(read->layers, image.layers);
}

TEST(Manifest, LayersReadBack) {
  const BlockLayer layer = Layer("x", 2);
  const Result<BlockLayer> read = ParseLayerManifest(EncodeLayerManifest(layer));
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(*read, layer);
}

TEST(Manifest, IsAnOciArtifact) {
  BlockImageManifest image = Image();
  image.layers.clear();
  const nlohmann::json json = nlohmann::json::parse(EncodeImageManifest(image));
  EXPECT_EQ(json["mediaType"], kManifestMediaType);
  EXPECT_EQ(json["artifactType"], kImageArtifactType);
  EXPECT_EQ(json["config"]["mediaType"], "application/vnd.oci.empty.v1+json");
  EXPECT_EQ(json["config"]["digest"], "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
  EXPECT_EQ(json["config"]["size"], 2);
  EXPECT_EQ(json["layers"].size(), 1U);  // OCI asks for one entry: the empty blob
  EXPECT_TRUE(ParseImageManifest(json.dump())->layers.empty());
}

TEST(Manifest, RefusesWhatIsNone) {
  const nlohmann::json good = nlohmann::json::parse(EncodeImageManifest(Image()));
  const std::pair<const char*, nlohmann::json> cases[] = {
      {"/artifactType", "application/vnd.other"},
      {"/subject/digest", "sha256:xyz"},
      {"/subject", nullptr},
      {"/layers", 5},
      {"/layers/0/mediaType", "application/vnd.oci.image.layer.v1.tar"},
      {"/layers/0/mediaType", kDataMediaType},
      {"/layers/0/size", -1},
      {"/layers/0/size", "5"},
      {"/layers/0/digest", nullptr},
      {"/layers/0/annotations/dev.paceline.layer.diff-id", "x"},
      {"/layers/0/annotations", nullptr},
  };
  for (const auto& [path, value] : cases) {
    nlohmann::json json = good;
    json[nlohmann::json::json_pointer(path)] = value;
    EXPECT_EQ(ParseImageManifest(json.dump()).status().code(), StatusCode::kDataLoss) << path;
  }
  for (const char* text : {"", "{}", "[]", "null", "{\"artifactType\":5}"}) {
    EXPECT_EQ(ParseImageManifest(text).status().code(), StatusCode::kDataLoss) << text;
  }
  EXPECT_EQ(ParseLayerManifest(EncodeImageManifest(Image())).status().code(), StatusCode::kDataLoss);
}

TEST(Manifest, DamageEndsWell) {
  const std::string whole = EncodeImageManifest(Image());
  for (size_t size = 0; size < whole.size(); size += 7) EXPECT_FALSE(ParseImageManifest(whole.substr(0, size)).ok());
  std::mt19937 random(4);
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = whole;
    damaged[random() % damaged.size()] ^= static_cast<char>(1U << random() % 8);
    ParseImageManifest(damaged).status().IgnoreError();  // well-formed or not: it must only end
  }
}

TEST(Manifest, Tags) {
  const Digest digest = Sha256Of("x");
  EXPECT_EQ(ImageTag(digest), "paceline-image-v1-" + digest.Hex());
  EXPECT_EQ(LayerTag(digest, 16), "paceline-layer-v1-64k-" + digest.Hex());
  EXPECT_EQ(ChainTag(digest, 1024), "paceline-chain-v1-4096k-" + digest.Hex());
  EXPECT_LE(ChainTag(digest, 1024).size(), 128U);
}

TEST(Manifest, ChainIdIsThatOfOci) {
  const Digest a = Sha256Of("a"), b = Sha256Of("b");
  EXPECT_EQ(ChainId(std::nullopt, a), a);
  EXPECT_EQ(ChainId(a, b), Sha256Of(a.ToString() + " " + b.ToString()));
}

}  // namespace
}  // namespace paceline::blocks
