#include "lib/kube/apply.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lib/kube/rest_client.h"
#include "tests/fakes/api_server.h"
#include "tests/fakes/simulated_clock.h"

namespace paceline::kube {
namespace {

using namespace std::chrono_literals;

const Resource kRuns{"paceline.dev", "v1alpha1", "trainingruns", "TrainingRun", true};
const ObjectKey kKey{"default", "run-1"};

class ApplyTest : public ::testing::Test {
 protected:
  ApplyTest() {
    server_.AddResource(kRuns);
    server_.Put(kRuns, {{"metadata", {{"name", kKey.name}}}, {"spec", {{"job", "llama"}}}});
  }
  Json Stored() { return server_.Find(kRuns, kKey).value(); }
  // Before each write of the client the test changes the object too, `times` times.
  void RaceEachWrite(int times) {
    server_.SetRequestHook([this, times](const net::HttpRequest& request) mutable {
      if (request.method == "GET" || times-- <= 0) return;
      Json object = Stored();
      object["metadata"]["annotations"]["raced"] = std::to_string(times);
      server_.Put(kRuns, object);
    });
  }

  fakes::SimulatedClock clock_;
  fakes::ApiServer server_{clock_};
  std::unique_ptr<net::HttpTransport> transport_ = server_.Connect();
  std::unique_ptr<Client> client_ = NewRestClient(*transport_, clock_);
  Deadline deadline_ = Deadline::After(clock_, 10s);
};

TEST_F(ApplyTest, StatusUpdateIsRepeatedOnFreshCopiesAfterConflicts) {
  RaceEachWrite(3);
  int calls = 0;
  const auto updated = UpdateWithRetry(
      *client_, kRuns, kKey, "status",
      [&calls](Json& object) {
        ++calls;
        object["status"]["seen"] = object.value(Json::json_pointer("/metadata/annotations/raced"), "none");
        return Status();
      },
      deadline_);
  ASSERT_TRUE(updated.ok()) << updated.status().ToString();
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(Stored()["status"]["seen"], "0") << "the change saw the last write of the other side";
  EXPECT_EQ(Stored()["metadata"]["annotations"]["raced"], "0") << "which is still there";
}

TEST_F(ApplyTest, UpdateGivesUpAfterEightConflicts) {
  RaceEachWrite(100);
  const auto updated = UpdateWithRetry(
      *client_, kRuns, kKey, "status",
      [](Json& object) {
        object["status"]["x"] = 1;
        return Status();
      },
      deadline_);
  EXPECT_EQ(updated.status().code(), StatusCode::kAborted) << updated.status().ToString();
}

TEST_F(ApplyTest, UnchangedObjectIsNotWritten) {
  server_.ForgetRequests();
  ASSERT_TRUE(UpdateWithRetry(
                  *client_, kRuns, kKey, "status", [](Json&) { return Status(); }, deadline_)
                  .ok());
  EXPECT_EQ(server_.Requests().size(), 1u);
}

TEST_F(ApplyTest, ErrorOfTheChangeEndsTheUpdate) {
  const auto updated = UpdateWithRetry(
      *client_, kRuns, kKey, "status", [](Json&) { return InvalidArgumentError("no"); }, deadline_);
  EXPECT_EQ(updated.status().message(), "no");
}

TEST_F(ApplyTest, FinalizerIsAddedOnceAndRemovedAlone) {
  ASSERT_TRUE(AddFinalizer(*client_, kRuns, kKey, "paceline.dev/a", deadline_).ok());
  ASSERT_TRUE(AddFinalizer(*client_, kRuns, kKey, "paceline.dev/a", deadline_).ok());
  ASSERT_TRUE(AddFinalizer(*client_, kRuns, kKey, "paceline.dev/b", deadline_).ok());
  EXPECT_EQ(Stored()["metadata"]["finalizers"], Json({"paceline.dev/a", "paceline.dev/b"}));
  ASSERT_TRUE(RemoveFinalizer(*client_, kRuns, kKey, "paceline.dev/a", deadline_).ok());
  EXPECT_EQ(Stored()["metadata"]["finalizers"], Json({"paceline.dev/b"}));
  EXPECT_TRUE(RemoveFinalizer(*client_, kRuns, kKey, "paceline.dev/a", deadline_).ok());
  EXPECT_TRUE(RemoveFinalizer(*client_, kRuns, {"default", "gone"}, "paceline.dev/a", deadline_).ok());
}

TEST_F(ApplyTest, FinalizersOfOthersSurviveARace) {
  bool is_done = false;
  server_.SetRequestHook([&](const net::HttpRequest& request) {
    if (request.method != "PATCH" || std::exchange(is_done, true)) return;
    Json object = Stored();
    object["metadata"]["finalizers"] = {"other.dev/x"};
    server_.Put(kRuns, object);
  });
  ASSERT_TRUE(AddFinalizer(*client_, kRuns, kKey, "paceline.dev/a", deadline_).ok());
  EXPECT_EQ(Stored()["metadata"]["finalizers"], Json({"other.dev/x", "paceline.dev/a"}));

  // Removing while the other removes its own: the index moves.
  is_done = false;
  server_.SetRequestHook([&](const net::HttpRequest& request) {
    if (request.method != "PATCH" || std::exchange(is_done, true)) return;
    Json object = Stored();
    object["metadata"]["finalizers"] = {"paceline.dev/a", "third.dev/y"};
    server_.Put(kRuns, object);
  });
  ASSERT_TRUE(RemoveFinalizer(*client_, kRuns, kKey, "paceline.dev/a", deadline_).ok());
  EXPECT_EQ(Stored()["metadata"]["finalizers"], Json({"third.dev/y"}));
}

TEST_F(ApplyTest, FinalizerKeepsTheObjectUntilItIsRemoved) {
  ASSERT_TRUE(AddFinalizer(*client_, kRuns, kKey, "paceline.dev/a", deadline_).ok());
  ASSERT_TRUE(client_->Delete(kRuns, kKey, {}, deadline_).ok());
  EXPECT_TRUE(IsBeingDeleted(Stored()));
  EXPECT_EQ(AddFinalizer(*client_, kRuns, kKey, "paceline.dev/b", deadline_).status().code(), StatusCode::kAborted);
  ASSERT_TRUE(RemoveFinalizer(*client_, kRuns, kKey, "paceline.dev/a", deadline_).ok());
  EXPECT_EQ(server_.Find(kRuns, kKey).status().code(), StatusCode::kNotFound);
}

TEST_F(ApplyTest, ApplyTakesFieldsOverAndDropsWhatItNoLongerNames) {
  const Json first = {
      {"metadata", {{"name", kKey.name}, {"namespace", kKey.ns}, {"labels", {{"a", "1"}, {"b", "1"}}}}}};
  ASSERT_TRUE(Apply(*client_, kRuns, first, "runs", deadline_).ok());
  const Json second = {{"metadata", {{"name", kKey.name}, {"namespace", kKey.ns}, {"labels", {{"a", "2"}}}}}};
  ASSERT_TRUE(Apply(*client_, kRuns, second, "runs", deadline_).ok());
  EXPECT_EQ(Stored()["metadata"]["labels"], Json({{"a", "2"}}));
  EXPECT_EQ(Stored()["spec"]["job"], "llama") << "not ours, not touched";
  EXPECT_EQ(Apply(*client_, kRuns, Json::object(), "runs", deadline_).status().code(), StatusCode::kInvalidArgument);
}

TEST(SetControllerReference, RefusesWhatTheGarbageCollectorWouldDelete) {
  const Json owner = {
      {"apiVersion", "v1"}, {"kind", "A"}, {"metadata", {{"name", "o"}, {"namespace", "x"}, {"uid", "1"}}}};
  const Json cluster_owner = {{"apiVersion", "v1"}, {"kind", "C"}, {"metadata", {{"name", "o"}, {"uid", "2"}}}};
  Json object = {{"metadata", {{"name", "a"}, {"namespace", "y"}}}};
  EXPECT_EQ(SetControllerReference(owner, object).code(), StatusCode::kInvalidArgument);
  Json cluster_object = {{"metadata", {{"name", "a"}}}};
  EXPECT_EQ(SetControllerReference(owner, cluster_object).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(SetControllerReference(cluster_owner, object).ok());
  EXPECT_TRUE(IsControlledBy(object, cluster_owner));
  EXPECT_FALSE(IsControlledBy(object, owner));
  EXPECT_TRUE(SetControllerReference(cluster_owner, object).ok()) << "again is fine";
  EXPECT_EQ(object["metadata"]["ownerReferences"].size(), 1u);
  Json same_namespace_owner = owner;
  same_namespace_owner["metadata"]["namespace"] = "y";
  EXPECT_EQ(SetControllerReference(same_namespace_owner, object).code(), StatusCode::kAlreadyExists);
}

TEST(SetCondition, MovesTheTransitionTimeOnlyWithTheStatus) {
  const WallTime start{1767323045s};
  Json conditions;
  ConditionUpdate ready{"Ready", ConditionStatus::kFalse, "Starting", "pulling", 3};
  EXPECT_TRUE(SetCondition(conditions, ready, start));
  EXPECT_FALSE(SetCondition(conditions, ready, start + 1h)) << "nothing changed";
  ready.message = "installing";
  EXPECT_TRUE(SetCondition(conditions, ready, start + 1h));
  EXPECT_EQ((*FindCondition(conditions, "Ready"))["lastTransitionTime"], FormatRfc3339(start));
  ready.status = ConditionStatus::kTrue;
  EXPECT_TRUE(SetCondition(conditions, ready, start + 2h));
  EXPECT_EQ((*FindCondition(conditions, "Ready"))["lastTransitionTime"], FormatRfc3339(start + 2h));
  EXPECT_EQ((*FindCondition(conditions, "Ready"))["observedGeneration"], 3);
  EXPECT_TRUE(
      SetCondition(conditions, {"Stalled", ConditionStatus::kUnknown, "NoData", std::string(40000, 'x'), 0}, start));
  EXPECT_EQ(conditions.size(), 2u);
  EXPECT_EQ((*FindCondition(conditions, "Stalled"))["message"].get<std::string>().size(), 32768u);
  EXPECT_EQ(FindCondition(conditions, "Missing"), nullptr);
  EXPECT_EQ(FindCondition(Json("x"), "Ready"), nullptr);
}

}  // namespace
}  // namespace paceline::kube
