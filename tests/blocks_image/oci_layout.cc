#include "tests/blocks_image/oci_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <fstream>

namespace paceline::blocks {
namespace {

void WriteFile(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

}  // namespace

OciLayout::OciLayout(std::string folder) : folder_(std::move(folder)) {
  std::filesystem::create_directories(folder_ + "/blobs/sha256");
  WriteFile(folder_ + "/oci-layout", R"({"imageLayoutVersion":"1.0.0"})");
  WriteIndex();
}

std::string OciLayout::Put(const std::string& bytes, const std::string& media_type, const std::string& more) {
  const Digest digest = Sha256Of(bytes);
  WriteFile(BlobPath(digest), bytes);
  return fmt::format(R"({{"mediaType":"{}","digest":"{}","size":{}{}}})", media_type, digest.ToString(), bytes.size(),
                     more);
}

void OciLayout::WriteIndex() {
  WriteFile(folder_ + "/index.json",
            fmt::format(R"({{"schemaVersion":2,"manifests":[{}]}})", fmt::join(entries_, ",")));
}

Digest OciLayout::AddImage(const std::string& tag, const std::vector<LayoutLayer>& layers,
                           const std::string& architecture) {
  std::vector<std::string> descriptors, diff_ids;
  for (const LayoutLayer& layer : layers) {
    descriptors.push_back(Put(layer.blob, "application/vnd.oci.image.layer.v1.tar"));
    diff_ids.push_back("\"" + Sha256Of(layer.tar).ToString() + "\"");
  }
  const std::string config =
      fmt::format(R"({{"os":"linux","architecture":"{}","rootfs":{{"type":"layers","diff_ids":[{}]}}}})", architecture,
                  fmt::join(diff_ids, ","));
  const std::string manifest =
      fmt::format(R"({{"schemaVersion":2,"config":{},"layers":[{}]}})",
                  Put(config, "application/vnd.oci.image.config.v1+json"), fmt::join(descriptors, ","));
  constexpr char kType[] = "application/vnd.oci.image.manifest.v1+json";
  entries_.push_back(
      Put(manifest, kType, fmt::format(R"(,"annotations":{{"org.opencontainers.image.ref.name":"{}"}})", tag)));
  manifests_.push_back(
      Put(manifest, kType, fmt::format(R"(,"platform":{{"os":"linux","architecture":"{}"}})", architecture)));
  WriteIndex();
  return Sha256Of(manifest);
}

void OciLayout::JoinImages(const std::string& tag) {
  const std::string index = fmt::format(R"({{"schemaVersion":2,"manifests":[{}]}})", fmt::join(manifests_, ","));
  entries_ = {Put(index, "application/vnd.oci.image.index.v1+json",
                  fmt::format(R"(,"annotations":{{"org.opencontainers.image.ref.name":"{}"}})", tag))};
  WriteIndex();
}

}  // namespace paceline::blocks
