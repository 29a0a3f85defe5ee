// RegistryClient against a registry that misbehaves in every way the fake knows.
#include "lib/blocks/registry/registry_client.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/fakes/memory_filesystem.h"
#include "tests/fakes/registry.h"
#include "tests/registry/skipping_clock.h"

namespace paceline::blocks {
namespace {

using fakes::RegistrySwitches;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::Each;
using testing::Ge;
using testing::HasSubstr;
using testing::Lt;
using testing::Not;
using testing::SizeIs;

constexpr char kAnyType[] = "application/json";
constexpr char kManifestType[] = "application/vnd.oci.image.manifest.v1+json";

std::string Pattern(size_t size) {
  std::string bytes(size, '\0');
  uint64_t state = 88172645463325252u;
  for (char& byte : bytes) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    byte = static_cast<char>(state);
  }
  return bytes;
}

class RegistryClientTest : public testing::Test {
 protected:
  void SetUp() override {
    digest_ = *ParseDigest(registry_.AddBlob(bytes_));
    Connect();
  }

  void Connect(RegistryOptions options = {}) {
    options.plain_http.push_back(registry_.address());
    if (options.credentials == nullptr)
      options.credentials = NewFixedCredential({.username = "user", .password = "secret"});
    Result<std::unique_ptr<RegistryClient>> client = RegistryClient::New(std::move(options), files_, clock_);
    ASSERT_TRUE(client.ok());
    client_ = *std::move(client);
    image_ = *ParseImageReference(registry_.address() + "/team/app:v1");
  }

  void Switch(const std::function<void(RegistrySwitches&)>& change) {
    RegistrySwitches switches = registry_.switches();
    change(switches);
    registry_.Set(switches);
  }

  // hosts.toml for the registry.
  void Configure(const std::string& text) {
    std::string folder = "/certs.d/" + registry_.address();
    ASSERT_TRUE(files_.MakeDirectories(folder, 0755).ok());
    ASSERT_TRUE(files_.WriteFileAtomically(folder + "/hosts.toml", text, 0644).ok());
    RegistryOptions options;
    options.hosts_root = "/certs.d";
    Connect(options);
  }

  Deadline Soon() const { return Deadline::After(clock_, minutes(10)); }

  Result<std::string> Range(uint64_t offset, size_t length) {
    std::string out(length, 'x');
    const Status status = client_->ReadRange(image_, digest_, offset, out, Soon());
    if (!status.ok()) return status;
    return out;
  }

  Result<std::string> Whole() {
    std::string out;
    const Descriptor blob{"", digest_, bytes_.size(), {}};
    const Status status = client_->ReadBlob(
        image_, blob,
        [&](std::string_view piece) {
          out += piece;
          return Status();
        },
        Soon());
    if (!status.ok()) return status;
    return out;
  }

  SkippingClock clock_;
  fakes::MemoryFileSystem files_{clock_};
  fakes::Registry registry_{clock_};
  const std::string bytes_ = Pattern(300000);
  Digest digest_;
  ImageReference image_;
  std::unique_ptr<RegistryClient> client_;
};

TEST_F(RegistryClientTest, RangesAreExactlyTheBytesAskedFor) {
  const std::pair<uint64_t, size_t> cases[] = {{0, 1}, {0, 300000}, {299999, 1}, {12345, 65536}};
  for (const auto& [offset, length] : cases) {
    const Result<std::string> got = Range(offset, length);
    ASSERT_TRUE(got.ok()) << got.status().ToString();
    EXPECT_TRUE(*got == bytes_.substr(offset, length)) << offset;
  }
  EXPECT_EQ(Range(299999, 2).status().code(), StatusCode::kDataLoss);  // the blob ends inside
  EXPECT_EQ(Range(300000, 1).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(RegistryClientTest, AnAnswerThatIsNotTheRangeIsRefused) {
  Switch([](auto& s) { s.ignores_range = true; });
  EXPECT_EQ(Range(0, 300000).status().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(Range(10, 10).status().code(), StatusCode::kUnimplemented);
  EXPECT_THAT(clock_.sleeps(), SizeIs(0));  // asking again cannot help
  Switch([](auto& s) { s.ignores_range = false, s.shifts_ranges = true; });
  EXPECT_EQ(Range(10, 10).status().code(), StatusCode::kDataLoss);
  Switch([](auto& s) { s.shifts_ranges = false, s.mislabels_ranges = true; });
  EXPECT_EQ(Range(10, 10).status().code(), StatusCode::kDataLoss);
}

TEST_F(RegistryClientTest, ACutRangeIsAskedForAgain) {
  Switch([](auto& s) { s.cuts_left = 2, s.cut_after_bytes = 1000; });
  const Result<std::string> got = Range(5000, 100000);
  ASSERT_TRUE(got.ok()) << got.status().ToString();
  EXPECT_TRUE(*got == bytes_.substr(5000, 100000));
}

TEST_F(RegistryClientTest, ACutBlobGoesOnWhereItWas) {
  Switch([](auto& s) { s.cuts_left = 5, s.cut_after_bytes = 50000; });
  const Result<std::string> got = Whole();
  ASSERT_TRUE(got.ok()) << got.status().ToString();
  EXPECT_TRUE(*got == bytes_);
  std::vector<std::string> ranges;
  for (const auto& request : registry_.requests()) {
    if (const auto found = request.headers.find("Range"); found != request.headers.end())
      ranges.push_back(found->second);
  }
  ASSERT_FALSE(ranges.empty());
  EXPECT_EQ(ranges.back(), "bytes=250000-299999");
}

TEST_F(RegistryClientTest, ACutBlobOfAServerWithoutRangesStartsOver) {
  Switch([](auto& s) { s.cuts_left = 2, s.cut_after_bytes = 50000, s.ignores_range = true; });
  const Result<std::string> got = Whole();
  ASSERT_TRUE(got.ok()) << got.status().ToString();
  EXPECT_TRUE(*got == bytes_);
}

TEST_F(RegistryClientTest, AFlippedBitIsFoundByTheDigest) {
  Switch([](auto& s) { s.corrupts_blobs = s.corrupts_manifests = true; });
  EXPECT_EQ(Whole().status().code(), StatusCode::kDataLoss);
  registry_.AddManifest("team/app", "v1", kAnyType, "{}");
  EXPECT_EQ(client_->GetManifest(image_, Soon()).status().code(), StatusCode::kDataLoss);
}

TEST_F(RegistryClientTest, NotFoundIsSaidOnlyByTheRegistry) {
  digest_ = Sha256Of("another");
  const Status status = Range(0, 10).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("BLOB_UNKNOWN"));
  EXPECT_EQ(client_->GetManifest(image_, Soon()).status().code(), StatusCode::kNotFound);
  ImageReference nobody = *ParseImageReference("127.0.0.1:1/x");
  EXPECT_EQ(client_->GetManifest(nobody, Deadline::After(clock_, seconds(5))).status().code(),
            StatusCode::kUnavailable);
}

TEST_F(RegistryClientTest, OverloadIsWaitedOut) {
  Switch([](auto& s) { s.failures_left = 2, s.failure_status = 429, s.retry_after = "7"; });
  EXPECT_TRUE(Range(0, 10).ok());
  ASSERT_THAT(clock_.sleeps(), SizeIs(2));
  EXPECT_THAT(clock_.sleeps(), Each(Ge(Duration(std::chrono::milliseconds(6900)))));

  Switch([](auto& s) { s.failures_left = 3, s.failure_status = 503, s.retry_after = ""; });
  EXPECT_TRUE(Range(0, 10).ok());
  Switch([](auto& s) { s.failures_left = 100, s.failure_status = 500; });
  EXPECT_EQ(Range(0, 10).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(registry_.switches().failures_left, 94);  // six rounds, then it is over
}

TEST_F(RegistryClientTest, RetryAfterMayBeADateAndIsNotBelievedWithoutEnd) {
  Switch([](auto& s) { s.failures_left = 1, s.failure_status = 429, s.retry_after = "Fri, 31 Dec 2100 23:59:59 GMT"; });
  EXPECT_TRUE(Range(0, 10).ok());
  ASSERT_THAT(clock_.sleeps(), SizeIs(1));
  EXPECT_LE(clock_.sleeps()[0], seconds(61));
}

TEST_F(RegistryClientTest, NoWaitGoesBeyondTheDeadline) {
  Switch([](auto& s) { s.failures_left = 100, s.failure_status = 429, s.retry_after = "30"; });
  std::string out(10, 'x');
  const Status status = client_->ReadRange(image_, digest_, 0, out, Deadline::After(clock_, seconds(20)));
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(clock_.sleeps(), SizeIs(0));
}

TEST_F(RegistryClientTest, OtherFailuresAreNotRepeated) {
  Switch([](auto& s) { s.failures_left = 1, s.failure_status = 400; });
  EXPECT_EQ(Range(0, 10).status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(clock_.sleeps(), SizeIs(0));
}

TEST_F(RegistryClientTest, BasicCredentialsAndTheirRejection) {
  Switch([](auto& s) { s.auth = RegistrySwitches::Auth::kBasic; });
  EXPECT_TRUE(Range(0, 10).ok());
  registry_.ForgetRequests();
  EXPECT_TRUE(Range(0, 10).ok());
  EXPECT_THAT(registry_.requests(), SizeIs(1));  // up front from now on
  Switch([](auto& s) { s.password = "changed"; });
  const Status status = Range(0, 10).status();
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(status.message(), Not(HasSubstr("secret")));
}

TEST_F(RegistryClientTest, TokensAreFetchedOnceAndRenewedInTime) {
  Switch([](auto& s) { s.auth = RegistrySwitches::Auth::kBearer; });
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(Range(0, 10).ok());
  EXPECT_EQ(registry_.CountRequests("GET", "/token"), 1u);
  // Ten minutes of reading under tokens of 60 s, without one request that was refused.
  registry_.ForgetRequests();
  for (int i = 0; i < 60; ++i) {
    clock_.Advance(seconds(10));
    ASSERT_TRUE(Range(0, 10).ok());
  }
  EXPECT_THAT(registry_.requests(), SizeIs(60 + registry_.CountRequests("GET", "/token")));
  EXPECT_THAT(registry_.CountRequests("GET", "/token"), testing::AllOf(Ge(10u), Lt(20u)));
}

TEST_F(RegistryClientTest, ARevokedTokenIsRenewedAndTheCallRepeatedOnce) {
  Switch([](auto& s) { s.auth = RegistrySwitches::Auth::kBearer, s.hides_scope = true; });
  ASSERT_TRUE(Range(0, 10).ok());
  registry_.RevokeTokens();
  EXPECT_TRUE(Range(0, 10).ok());
  EXPECT_EQ(registry_.CountRequests("GET", "/token"), 2u);
  // When the service refuses us there is no second try.
  Switch([](auto& s) { s.password = "changed"; });
  registry_.RevokeTokens();
  registry_.ForgetRequests();
  EXPECT_EQ(Range(0, 10).status().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(registry_.CountRequests("GET", "/token"), 1u);
}

TEST_F(RegistryClientTest, ManyThreadsShareOneToken) {
  Switch([](auto& s) { s.auth = RegistrySwitches::Auth::kBearer; });
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([this] { EXPECT_TRUE(Range(0, 1000).ok()); });
  }
  threads.clear();
  EXPECT_EQ(registry_.CountRequests("GET", "/token"), 1u);
}

TEST_F(RegistryClientTest, RedirectsAreFollowedWithoutCredentials) {
  Switch([](auto& s) { s.auth = RegistrySwitches::Auth::kBasic, s.redirects_blobs = true; });
  for (int i = 0; i < 3; ++i) {
    const Result<std::string> got = Range(100, 1000);
    ASSERT_TRUE(got.ok()) << got.status().ToString();
    EXPECT_TRUE(*got == bytes_.substr(100, 1000));
  }
  size_t at_storage = 0;
  for (const auto& request : registry_.requests()) {
    if (!request.at_storage) continue;
    ++at_storage;
    EXPECT_FALSE(request.headers.contains("Authorization"));
  }
  EXPECT_EQ(at_storage, 3u);
  // 401, the redirect, and then straight to the storage.
  EXPECT_THAT(registry_.requests(), SizeIs(5));
}

TEST_F(RegistryClientTest, AnExpiredRedirectIsResolvedAgain) {
  Switch([](auto& s) { s.redirects_blobs = true, s.redirect_lifetime = seconds(60); });
  ASSERT_TRUE(Range(0, 10).ok());
  clock_.Advance(seconds(100));
  const Result<std::string> got = Range(0, 10);
  ASSERT_TRUE(got.ok()) << got.status().ToString();
  Switch([](auto& s) { s.redirect_lifetime = seconds(-1); });
  clock_.Advance(seconds(100));
  const Status status = Range(0, 10).status();
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(status.message(), Not(HasSubstr("signature=")));
}

TEST_F(RegistryClientTest, AMirrorComesFirstAndMayFailInAnyWay) {
  fakes::Registry mirror(clock_);
  mirror.AddBlob(bytes_);
  RegistrySwitches switches;
  switches.requires_ns = true;
  mirror.Set(switches);
  Configure(fmt::format("server = \"http://{}\"\n[host.\"http://{}\"]\ncapabilities = [\"pull\"]\n",
                        registry_.address(), mirror.address()));
  ASSERT_TRUE(Range(0, 10).ok());
  EXPECT_THAT(registry_.requests(), SizeIs(0));
  EXPECT_THAT(mirror.requests().back().target, HasSubstr("?ns=127.0.0.1%3A"));
  // It may not say what a tag means.
  registry_.AddManifest("team/app", "v1", kAnyType, "{}");
  EXPECT_TRUE(client_->GetManifest(image_, Soon()).ok());
  EXPECT_EQ(mirror.CountRequests("GET", "/v2/team/app/manifests/"), 0u);

  const std::function<void(RegistrySwitches&)> faults[] = {
      [](RegistrySwitches& s) { s.failures_left = 1000, s.failure_status = 404; },
      [](RegistrySwitches& s) { s.failures_left = 1000, s.failure_status = 500; },
      [](RegistrySwitches& s) { s.failures_left = 1000, s.failure_status = 403; },
      [](RegistrySwitches& s) { s.failures_left = 1000, s.failure_status = 429, s.retry_after = "5"; },
      [](RegistrySwitches& s) { s.auth = RegistrySwitches::Auth::kBasic, s.password = "not ours"; },
      [](RegistrySwitches& s) { s.ignores_range = true; },
      [](RegistrySwitches& s) { s.mislabels_ranges = true; },
      [](RegistrySwitches& s) { s.cuts_left = 1000; },
  };
  for (const auto& fault : faults) {
    RegistrySwitches broken;
    fault(broken);
    mirror.Set(broken);
    clock_.Advance(minutes(5));  // a mirror that failed rests a while
    const Result<std::string> got = Range(1000, 1000);
    ASSERT_TRUE(got.ok()) << got.status().ToString();
    EXPECT_TRUE(*got == bytes_.substr(1000, 1000));
  }
  EXPECT_THAT(clock_.sleeps(), SizeIs(0));
}

TEST_F(RegistryClientTest, AMirrorThatIsDownIsLeftAloneForAWhile) {
  Configure(fmt::format("server = \"http://{}\"\n[host.\"http://127.0.0.1:1\"]\n", registry_.address()));
  ASSERT_TRUE(Range(0, 10).ok());
  ASSERT_TRUE(Range(0, 10).ok());
}

TEST_F(RegistryClientTest, TheRegistrysCredentialsAreNotForItsMirror) {
  fakes::Registry mirror(clock_);
  RegistrySwitches asks;
  asks.auth = RegistrySwitches::Auth::kBasic;
  mirror.Set(asks);
  Configure(fmt::format("server = \"http://{}\"\n[host.\"http://{}\"]\n", registry_.address(), mirror.address()));
  const std::string json =
      fmt::format(R"({{"auths":{{"{}":{{"username":"user","password":"secret"}}}}}})", registry_.address());
  RegistryOptions options;
  options.hosts_root = "/certs.d";
  options.credentials = NewDockerConfigSource([json]() -> Result<std::string> { return json; });
  Connect(options);
  Switch([](auto& s) { s.auth = RegistrySwitches::Auth::kBasic; });
  ASSERT_TRUE(Range(0, 10).ok());
  for (const auto& request : mirror.requests()) EXPECT_FALSE(request.headers.contains("Authorization"));
}

TEST_F(RegistryClientTest, AnUploadGoesOnAfterACut) {
  Switch([](auto& s) { s.auth = RegistrySwitches::Auth::kBearer, s.upload_cuts_left = 3; });
  const std::string bytes = Pattern(1000001);
  Result<std::unique_ptr<BlobWriter>> upload = client_->NewUpload(image_, 300000, Soon());
  ASSERT_TRUE(upload.ok()) << upload.status().ToString();
  for (size_t at = 0; at < bytes.size(); at += 70000) {
    const Status status = (*upload)->Append(std::string_view(bytes).substr(at, 70000), Soon());
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  const Result<Descriptor> blob = (*upload)->Commit(Soon());
  ASSERT_TRUE(blob.ok()) << blob.status().ToString();
  EXPECT_EQ(blob->digest, Sha256Of(bytes));
  EXPECT_EQ(blob->size_bytes, bytes.size());
  EXPECT_TRUE(registry_.HasBlob(blob->digest.ToString()));
}

TEST_F(RegistryClientTest, AnUploadThatIsDroppedIsCancelled) {
  {
    const auto upload = client_->NewUpload(image_, 1000, Soon());
    ASSERT_TRUE(upload.ok() && (*upload)->Append(Pattern(5000), Soon()).ok());
  }
  EXPECT_EQ(registry_.CountRequests("DELETE", "/v2/team/app/blobs/uploads/"), 1u);
}

TEST_F(RegistryClientTest, ReferrersByTagWhereThereIsNoApi) {
  Switch([](auto& s) { s.lacks_referrers = true; });
  const Digest subject = Sha256Of("an image");
  std::vector<Digest> pushed;
  for (const char* type : {"type/a", "type/b", "type/a"}) {
    const std::string manifest =
        fmt::format(R"({{"schemaVersion":2,"artifactType":"{}","n":{},"subject":{{"digest":"{}","size":1}}}})", type,
                    pushed.size(), subject.ToString());
    ImageReference by_digest = image_;
    by_digest.tag.clear();
    const Result<Descriptor> done = client_->PushManifest(by_digest, kManifestType, manifest, Soon());
    ASSERT_TRUE(done.ok()) << done.status().ToString();
    pushed.push_back(done->digest);
  }
  const auto all = client_->ListReferrers(image_, subject, "", Soon());
  ASSERT_TRUE(all.ok()) << all.status().ToString();
  EXPECT_THAT(*all, SizeIs(3));
  const auto some = client_->ListReferrers(image_, subject, "type/a", Soon());
  ASSERT_TRUE(some.ok()) << some.status().ToString();
  ASSERT_THAT(*some, SizeIs(2));
  EXPECT_EQ((*some)[1].descriptor.digest, pushed[2]);
  EXPECT_THAT(*client_->ListReferrers(image_, Sha256Of("nothing"), "", Soon()), SizeIs(0));
}

TEST_F(RegistryClientTest, AStopEndsACall) {
  Switch([](auto& s) { s.failures_left = 100; });
  std::stop_source stop;
  stop.request_stop();
  std::string out(10, 'x');
  EXPECT_EQ(client_->ReadRange(image_, digest_, 0, out, Soon(), stop.get_token()).code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace paceline::blocks
