#include "lib/kube/owner.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lib/kube/rest_client.h"
#include "tests/fakes/api_server.h"
#include "tests/fakes/simulated_clock.h"

namespace paceline::kube {
namespace {

using namespace std::chrono_literals;

Json Owned(const std::string& name, const std::string& uid, const std::string& owner_api, const std::string& owner_kind,
           const std::string& owner_name, const std::string& owner_uid) {
  Json object = {{"metadata", {{"name", name}, {"uid", uid}}}};
  if (!owner_kind.empty()) {
    object["metadata"]["ownerReferences"] = {
        {{"apiVersion", "example.dev/v1"}, {"kind", "Bystander"}, {"name", "x"}, {"uid", "x"}},
        {{"apiVersion", owner_api},
         {"kind", owner_kind},
         {"name", owner_name},
         {"uid", owner_uid},
         {"controller", true}}};
  }
  return object;
}

// Objects by "Kind.group/name".
OwnerLookup Table(std::map<std::string, Result<Json>> objects) {
  return [objects = std::move(objects)](const ControllerReference& owner, const std::string&,
                                        Deadline) -> Result<std::shared_ptr<const Json>> {
    auto it = objects.find(owner.ToString());
    if (it == objects.end()) return NotFoundError("nothing there");
    if (!it->second.ok()) return it->second.status();
    return std::shared_ptr<const Json>(std::make_shared<Json>(*it->second));
  };
}

TEST(WalkOwners, FollowsControllersToTheTop) {
  const Json pod = Owned("p", "1", "batch/v1", "Job", "j", "2");
  const OwnerLookup lookup = Table({
      {"Job.batch j", Owned("j", "2", "jobset.x-k8s.io/v1alpha2", "JobSet", "s", "3")},
      {"JobSet.jobset.x-k8s.io s", Owned("s", "3", "trainer.kubeflow.org/v1alpha1", "TrainJob", "t", "4")},
      {"TrainJob.trainer.kubeflow.org t", Owned("t", "4", "", "", "", "")},
  });
  const OwnerChain chain = WalkOwners(pod, "team", lookup, Deadline::Infinite());
  ASSERT_EQ(chain.steps.size(), 3u);
  EXPECT_EQ(chain.end, WalkEnd::kTop);
  EXPECT_TRUE(chain.steps[0].reference.IsKind("batch", "Job"));
  EXPECT_TRUE(chain.steps[2].reference.IsKind("trainer.kubeflow.org", "TrainJob"));
  EXPECT_EQ(chain.steps[2].reference.version, "v1alpha1");
  EXPECT_EQ(chain.steps[2].object->at("metadata").at("uid"), "4");
}

TEST(WalkOwners, SaysWhyItStopped) {
  const Json pod = Owned("p", "1", "batch.volcano.sh/v1alpha1", "Job", "j", "2");
  const struct {
    Status error;
    WalkEnd end;
  } cases[] = {
      {NotFoundError("x"), WalkEnd::kGone},
      {PermissionDeniedError("x"), WalkEnd::kNoAccess},
      {UnimplementedError("x"), WalkEnd::kNoAccess},
      {UnavailableError("x"), WalkEnd::kUnknown},
      {DeadlineExceededError("x"), WalkEnd::kUnknown},
  };
  for (const auto& c : cases) {
    const OwnerChain chain =
        WalkOwners(pod, "team", Table({{"Job.batch.volcano.sh j", c.error}}), Deadline::Infinite());
    EXPECT_EQ(chain.end, c.end) << c.error.ToString();
    ASSERT_EQ(chain.steps.size(), 1u);
    EXPECT_EQ(chain.steps[0].object, nullptr);
    EXPECT_TRUE(chain.steps[0].reference.IsKind("batch.volcano.sh", "Job"));
    EXPECT_FALSE(chain.steps[0].reference.IsKind("batch", "Job"));
    EXPECT_EQ(chain.error.code(), c.error.code());
  }
}

TEST(WalkOwners, LoopEndsAtTheDepthLimit) {
  const OwnerLookup lookup = Table({{"Job.batch a", Owned("a", "1", "batch/v1", "Job", "b", "2")},
                                    {"Job.batch b", Owned("b", "2", "batch/v1", "Job", "a", "1")}});
  const OwnerChain chain =
      WalkOwners(Owned("p", "0", "batch/v1", "Job", "a", "1"), "team", lookup, Deadline::Infinite());
  EXPECT_EQ(chain.end, WalkEnd::kTooDeep);
  EXPECT_EQ(chain.steps.size(), 6u);
}

TEST(ControllerOf, TreatsAnythingMalformedAsNone) {
  const char* cases[] = {
      "{}",
      "[]",
      "5",
      R"({"metadata":null})",
      R"({"metadata":{"ownerReferences":null}})",
      R"({"metadata":{"ownerReferences":{}}})",
      R"({"metadata":{"ownerReferences":[null,5,"x",[]]}})",
      R"({"metadata":{"ownerReferences":[{"controller":"true","kind":"Job","name":"j"}]}})",
      R"({"metadata":{"ownerReferences":[{"controller":true,"kind":7,"name":"j"}]}})",
      R"({"metadata":{"ownerReferences":[{"controller":true,"kind":"Job"}]}})",
      R"({"metadata":{"ownerReferences":[{"kind":"Job","name":"j"}]}})",
  };
  for (const char* text : cases) EXPECT_FALSE(ControllerOf(Json::parse(text)).has_value()) << text;
}

class CacheThenServerTest : public ::testing::Test {
 protected:
  OwnerLookup Lookup() {
    return CacheThenServer([this](const Resource&, const ObjectKey&) { return cached_; }, *client_,
                           [](std::string_view group, std::string_view kind) -> std::optional<Resource> {
                             if (group == "batch" && kind == "Job") return kJobs;
                             return std::nullopt;
                           },
                           2s, clock_);
  }
  size_t Requests() { return server_.Requests().size(); }

  fakes::SimulatedClock clock_;
  fakes::ApiServer server_{clock_};
  std::unique_ptr<net::HttpTransport> transport_ = server_.Connect();
  std::unique_ptr<Client> client_ = NewRestClient(*transport_, clock_);
  std::shared_ptr<const Json> cached_;
};

TEST_F(CacheThenServerTest, AsksTheServerOnlyWhenTheCacheHasAnotherOrNone) {
  const Json job = server_.Put(kJobs, {{"metadata", {{"name", "j"}, {"namespace", "team"}}}});
  const std::string uid = job["metadata"]["uid"];
  const ControllerReference owner{"batch", "v1", "Job", "j", uid};
  server_.ForgetRequests();

  auto live = Lookup()(owner, "team", Deadline::Infinite());
  ASSERT_TRUE(live.ok()) << live.status().ToString();
  EXPECT_EQ((**live)["metadata"]["uid"], uid);
  EXPECT_EQ(Requests(), 1u);

  cached_ = std::make_shared<Json>(job);
  ASSERT_TRUE(Lookup()(owner, "team", Deadline::Infinite()).ok());
  EXPECT_EQ(Requests(), 1u) << "the cache had it";

  cached_ = std::make_shared<Json>(Owned("j", "older-uid", "", "", "", ""));
  ASSERT_TRUE(Lookup()(owner, "team", Deadline::Infinite()).ok());
  EXPECT_EQ(Requests(), 2u) << "a cached namesake does not count";

  ControllerReference gone = owner;
  gone.uid = "another-uid";
  EXPECT_EQ(Lookup()(gone, "team", Deadline::Infinite()).status().code(), StatusCode::kNotFound);
}

TEST_F(CacheThenServerTest, UnknownKindCostsNoRequest) {
  const ControllerReference owner{"batch.volcano.sh", "v1alpha1", "Job", "j", "u"};
  EXPECT_EQ(Lookup()(owner, "team", Deadline::Infinite()).status().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(Requests(), 0u);
}

}  // namespace
}  // namespace paceline::kube
