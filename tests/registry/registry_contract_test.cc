// What a registry must do for RegistryClient: on the fake always, on a real one with TLS and basic auth when
// REGISTRY_ADDRESS is set (scripts/testbed env).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "lib/blocks/registry/registry_client.h"
#include "lib/blocks/registry/registry_store.h"
#include "tests/fakes/registry.h"

namespace paceline::blocks {
namespace {

using testing::SizeIs;

constexpr char kOciManifest[] = "application/vnd.oci.image.manifest.v1+json";

std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

class RegistryContract : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    RegistryOptions options;
    std::string address;
    if (std::string_view(GetParam()) == "Fake") {
      fake_ = std::make_unique<fakes::Registry>(clock_);
      fakes::RegistrySwitches switches;
      switches.auth = fakes::RegistrySwitches::Auth::kBasic;
      fake_->Set(switches);
      address = fake_->address();
      options.plain_http.push_back(address);
      credential_ = {.username = switches.username, .password = switches.password};
    } else {
      address = FromEnvironment("REGISTRY_ADDRESS");
      if (address.empty()) GTEST_SKIP() << "REGISTRY_ADDRESS is not set: needs a real registry (scripts/testbed)";
      credential_ = {.username = FromEnvironment("REGISTRY_USER"), .password = FromEnvironment("REGISTRY_PASSWORD")};
      options.ca_files.push_back(FromEnvironment("REGISTRY_CA"));
    }
    options_ = options;
    options.credentials = NewFixedCredential(credential_);
    client_ = *RegistryClient::New(options, files_, clock_);
    // Content of its own, since registries keep it between runs.
    salt_ = fmt::format("{}-{}", getpid(), clock_.WallNow().time_since_epoch().count());
    image_ = *ParseImageReference(address + "/contract/app:" + salt_);
  }

  Deadline Soon() const { return Deadline::After(clock_, std::chrono::seconds(30)); }

  Descriptor Push(const std::string& bytes) {
    const Descriptor blob{"application/octet-stream", Sha256Of(bytes), bytes.size(), {}};
    const Status status = client_->PushBlob(image_, blob.digest, bytes, Soon());
    EXPECT_TRUE(status.ok()) << status.ToString();
    return blob;
  }

  // A manifest that real registries take: its config and layer are there.
  std::string ManifestOf(const Descriptor& layer, const std::string& more = "") {
    const Descriptor config = Push("{}");
    return fmt::format(
        R"({{"schemaVersion":2,"mediaType":"{}",{}"config":{{"mediaType":"application/vnd.oci.empty.v1+json","digest":"{}","size":{}}},)"
        R"("layers":[{{"mediaType":"application/octet-stream","digest":"{}","size":{}}}]}})",
        kOciManifest, more, config.digest.ToString(), config.size_bytes, layer.digest.ToString(), layer.size_bytes);
  }

  Result<std::string> Read(const Descriptor& blob) {
    std::string out;
    const Status status = client_->ReadBlob(
        image_, blob, [&](std::string_view piece) { return out += piece, Status(); }, Soon());
    if (!status.ok()) return status;
    return out;
  }

  RealClock clock_;
  RealFileSystem files_;
  std::unique_ptr<fakes::Registry> fake_;
  RegistryOptions options_;
  Credential credential_;
  std::unique_ptr<RegistryClient> client_;
  std::string salt_;
  ImageReference image_;
};

TEST_P(RegistryContract, ABlobAsItWasPushed) {
  const std::string bytes = salt_ + std::string(200000, 'b') + "end";
  const Descriptor blob = Push(bytes);
  EXPECT_EQ(Push(bytes), blob);  // twice is once
  EXPECT_EQ(client_->StatBlob(image_, blob.digest, Soon()).value_or(0), bytes.size());
  EXPECT_TRUE(Read(blob).value_or("") == bytes);
  for (const auto& [offset, length] : {std::pair<uint64_t, size_t>{0, 10}, {bytes.size() - 3, 3}, {77, 100000}}) {
    std::string out(length, 'x');
    const Status status = client_->ReadRange(image_, blob.digest, offset, out, Soon());
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(out == bytes.substr(offset, length));
  }
  std::string beyond(10, 'x');
  EXPECT_FALSE(client_->ReadRange(image_, blob.digest, bytes.size(), beyond, Soon()).ok());
}

TEST_P(RegistryContract, ABlobInChunks) {
  const std::string bytes = salt_ + std::string(3000000, 'c');
  Result<std::unique_ptr<BlobWriter>> upload = client_->NewUpload(image_, 1 << 20, Soon());
  ASSERT_TRUE(upload.ok()) << upload.status().ToString();
  for (size_t at = 0; at < bytes.size(); at += 500000) {
    const Status status = (*upload)->Append(std::string_view(bytes).substr(at, 500000), Soon());
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  const Result<Descriptor> blob = (*upload)->Commit(Soon());
  ASSERT_TRUE(blob.ok()) << blob.status().ToString();
  EXPECT_EQ(blob->digest, Sha256Of(bytes));
  EXPECT_TRUE(Read(*blob).value_or("") == bytes);
}

TEST_P(RegistryContract, AnEmptyBlobInChunks) {
  Result<std::unique_ptr<BlobWriter>> upload = client_->NewUpload(image_, 1 << 20, Soon());
  ASSERT_TRUE(upload.ok()) << upload.status().ToString();
  const Result<Descriptor> blob = (*upload)->Commit(Soon());
  ASSERT_TRUE(blob.ok()) << blob.status().ToString();
  EXPECT_EQ(client_->StatBlob(image_, blob->digest, Soon()).value_or(7), 0u);
}

TEST_P(RegistryContract, AManifestByTagAndByDigest) {
  const std::string bytes = ManifestOf(Push(salt_));
  const Result<Descriptor> pushed = client_->PushManifest(image_, kOciManifest, bytes, Soon());
  ASSERT_TRUE(pushed.ok()) << pushed.status().ToString();
  ImageReference by_digest = image_;
  by_digest.tag.clear();
  by_digest.digest = pushed->digest.ToString();
  for (const ImageReference& reference : {image_, by_digest}) {
    const Result<StoredManifest> got = client_->GetManifest(reference, Soon());
    ASSERT_TRUE(got.ok()) << got.status().ToString();
    EXPECT_EQ(got->bytes, bytes);
    EXPECT_EQ(got->descriptor.digest, pushed->digest);
    EXPECT_EQ(got->descriptor.media_type, kOciManifest);
  }
}

TEST_P(RegistryContract, WhatIsNotThereIsNotFound) {
  image_.tag = "none-" + salt_;
  EXPECT_EQ(client_->GetManifest(image_, Soon()).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(client_->StatBlob(image_, Sha256Of(image_.tag), Soon()).status().code(), StatusCode::kNotFound);
  std::string out(10, 'x');
  EXPECT_EQ(client_->ReadRange(image_, Sha256Of(image_.tag), 0, out, Soon()).code(), StatusCode::kNotFound);
}

TEST_P(RegistryContract, WhatIsAttachedToAnImageIsListed) {
  const Descriptor layer = Push(salt_);
  const Result<Descriptor> subject = client_->PushManifest(image_, kOciManifest, ManifestOf(layer), Soon());
  ASSERT_TRUE(subject.ok()) << subject.status().ToString();
  EXPECT_THAT(client_->ListReferrers(image_, subject->digest, "", Soon()).value_or(std::vector<Referrer>(9)),
              SizeIs(0));
  const std::string attached = ManifestOf(
      layer, fmt::format(R"("artifactType":"test/kind","subject":{{"mediaType":"{}","digest":"{}","size":{}}},)",
                         kOciManifest, subject->digest.ToString(), subject->size_bytes));
  ImageReference by_digest = image_;
  by_digest.tag.clear();
  const Result<Descriptor> pushed = client_->PushManifest(by_digest, kOciManifest, attached, Soon());
  ASSERT_TRUE(pushed.ok()) << pushed.status().ToString();
  const Result<std::vector<Referrer>> listed = client_->ListReferrers(image_, subject->digest, "test/kind", Soon());
  ASSERT_TRUE(listed.ok()) << listed.status().ToString();
  ASSERT_THAT(*listed, SizeIs(1));
  EXPECT_EQ(listed->front().descriptor.digest, pushed->digest);
  EXPECT_THAT(*client_->ListReferrers(image_, subject->digest, "other/kind", Soon()), SizeIs(0));
}

TEST_P(RegistryContract, ARepositoryIsAStore) {
  options_.credentials = NewFixedCredential(credential_);
  const auto opened =
      OpenStoreUrl("docker://" + image_.registry + "/contract/store", StoreAccess::kWrite, options_, files_, clock_);
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  BlobStore& store = **opened;
  const std::string bytes = salt_ + std::string(100000, 's');
  const Result<Descriptor> blob = WriteWholeBlob(store, "application/octet-stream", bytes, Soon());
  ASSERT_TRUE(blob.ok()) << blob.status().ToString();
  EXPECT_TRUE(ReadWholeBlob(store, *blob, Soon()).value_or("") == bytes);
  std::string part(10, 'x');
  ASSERT_TRUE(store.ReadBlob(blob->digest, 50000, part, Soon()).ok());
  EXPECT_EQ(part, "ssssssssss");
  ASSERT_TRUE(WriteWholeBlob(store, "application/vnd.oci.empty.v1+json", "{}", Soon()).ok());
  const std::string manifest = ManifestOf(*blob);
  const Result<Descriptor> put = store.PutManifest(salt_, kOciManifest, manifest, Soon());
  ASSERT_TRUE(put.ok()) << put.status().ToString();
  for (const std::string& name : {salt_, put->digest.ToString()}) {
    EXPECT_EQ(store.GetManifest(name, Soon()).value_or(StoredManifest()).bytes, manifest) << name;
  }
  EXPECT_EQ(store.GetManifest("none-" + salt_, Soon()).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store.StatBlob(Sha256Of("none" + salt_), Soon()).status().code(), StatusCode::kNotFound);
}

TEST(OpenStoreUrl, FormsThatAreNoStore) {
  const RealClock clock;
  const RealFileSystem files;
  for (const char* url :
       {"", "http://x/y", "docker://", "docker://r.test/x:tag", "ftp://x", "relative/path", "docker://r.test/UPPER"}) {
    EXPECT_EQ(OpenStoreUrl(url, StoreAccess::kRead, {}, files, clock).status().code(), StatusCode::kInvalidArgument)
        << url;
  }
  EXPECT_EQ(OpenStoreUrl("file:///nowhere/at/all", StoreAccess::kRead, {}, files, clock).status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ((*OpenStoreUrl("docker://r.test:5000/a/b", StoreAccess::kRead, {}, files, clock))->Describe(),
            "docker://r.test:5000/a/b");
}

TEST_P(RegistryContract, WrongCredentialsAreRefused) {
  const std::pair<const char*, Credential> cases[] = {{"none", {}}, {"wrong", {.username = "x", .password = "hidden"}}};
  for (const auto& [name, credential] : cases) {
    options_.credentials = NewFixedCredential(credential);
    const auto stranger = *RegistryClient::New(options_, files_, clock_);
    const Status status = stranger->GetManifest(image_, Soon()).status();
    EXPECT_EQ(status.code(), StatusCode::kPermissionDenied) << name << ": " << status.ToString();
    EXPECT_EQ(status.message().find("hidden"), std::string::npos);
  }
}

std::string KindName(const testing::TestParamInfo<const char*>& info) { return info.param; }

INSTANTIATE_TEST_SUITE_P(Registry, RegistryContract, testing::Values("Fake", "Real"), KindName);

}  // namespace
}  // namespace paceline::blocks
