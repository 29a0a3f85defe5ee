// The whole operator against the fake API server: from a job that asks for conversion to its ImageProfile. The test
// plays kubelet and the Job controller.
#include <algorithm>
#include <fstream>

#include "operator/image/conversion_job.h"
#include "tests/fakes/temporary_folder.h"
#include "tests/operator/operator_fixture.h"

namespace paceline::operator_ {
namespace {

const std::string kUsedDigest = "sha256:" + std::string(64, 'a');
const std::string kUsedProfile = ImageProfileName(kUsedDigest, "linux/amd64");

class ImageConversionTest : public OperatorTest {
 protected:
  ImageConversionTest() {
    config_.conversion_store = "docker://registry.test:5000/blocks";
    config_.conversion_template = folder_ / "template.json";
    std::ofstream(config_.conversion_template)
        << R"({"spec": {"containers": [{"name": "converter", "image": "pacectl:1"}]}})";
    server_.Put(kube::kNodes, {{"apiVersion", "v1"},
                               {"kind", "Node"},
                               {"metadata", {{"name", "n1"}}},
                               {"status", {{"nodeInfo", {{"architecture", "amd64"}}}}}});
  }

  Json IndexedJob(const std::string& name, Json annotations) {
    annotations["paceline.dev/enabled"] = "true";
    return server_.Put(
        kube::kJobs,
        {{"apiVersion", "batch/v1"},
         {"kind", "Job"},
         {"metadata", {{"name", name}, {"namespace", "team"}, {"annotations", annotations}}},
         {"spec",
          {{"completions", 1},
           {"parallelism", 1},
           {"completionMode", "Indexed"},
           {"template",
            {{"metadata", Json::object()},
             {"spec",
              {{"containers", Json::array({{{"name", "main"}, {"image", "registry.test:5000/train:1"}}})}}}}}}}});
  }
  void RunOn(const Json& job, const std::string& node = "n1",
             const std::string& image_id = "registry.test:5000/train@" + kUsedDigest) {
    const std::string name = MakePod(job, 0)["metadata"]["name"];
    RunPod(name, node);
    Json pod = Get(kube::kPods, name);
    pod["metadata"].erase("resourceVersion");
    pod["status"]["containerStatuses"][0]["imageID"] = image_id;
    server_.Put(kube::kPods, pod);
  }
  Json Profile() { return Get(kImageProfiles, kUsedProfile, ""); }
  std::string State() { return Profile().is_null() ? "" : Profile().value("/status/state"_json_pointer, ""); }
  Json Conversion() { return Get(kube::kJobs, ConversionJobName(kUsedProfile), "default"); }
  // As kubelet and the Job controller leave it.
  void EndConversion(int exit_code, const std::string& message) {
    Json job = Conversion();
    Json pod = job["spec"]["template"];
    pod["apiVersion"] = "v1";
    pod["kind"] = "Pod";
    pod["metadata"]["name"] = job["metadata"]["name"].get<std::string>() + "-x" + std::to_string(++pods_);
    pod["metadata"]["namespace"] = "default";
    pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] = job["metadata"]["name"];
    pod["metadata"]["ownerReferences"] = Json::array({{{"apiVersion", "batch/v1"},
                                                       {"kind", "Job"},
                                                       {"name", job["metadata"]["name"]},
                                                       {"uid", job["metadata"]["uid"]},
                                                       {"controller", true}}});
    pod["status"] = {{"phase", exit_code == 0 ? "Succeeded" : "Failed"},
                     {"containerStatuses",
                      Json::array({{{"name", "converter"},
                                    {"state", {{"terminated", {{"exitCode", exit_code}, {"message", message}}}}}}})}};
    server_.Put(kube::kPods, pod);
    job["metadata"].erase("resourceVersion");
    job["status"]["conditions"] = Json::array({{{"type", exit_code == 0 ? "Complete" : "Failed"}, {"status", "True"}}});
    server_.Put(kube::kJobs, job);
  }
  std::string Made() const {
    return R"({"version": 1, "image": "sha256:)" + std::string(64, 'c') + R"(", "source": "sha256:)" +
           std::string(64, 'b') + R"(", "sourceBytes": 900, "storedBytes": 800, "seconds": 2})";
  }
  int64_t ConversionsAsked() const {
    const std::vector<std::string> requests = server_.Requests();
    return std::count_if(requests.begin(), requests.end(), [](const std::string& request) {
      return request.starts_with("POST") && request.find("/namespaces/default/jobs") != std::string::npos;
    });
  }

  const fakes::TemporaryFolder folder_;
  const Json auto_ = {{"paceline.dev/image-convert", "Auto"}};
  int pods_ = 0;
};

TEST_F(ImageConversionTest, AnImageIsConvertedOnceForAllJobs) {
  const auto replica = Start();
  const Json first = IndexedJob("first", auto_), second = IndexedJob("second", auto_);
  RunOn(first);
  RunOn(second);
  ASSERT_TRUE(Eventually([&] { return State() == "Converting"; }));
  EXPECT_EQ(Profile()["spec"]["image"], "registry.test:5000/train");
  EXPECT_EQ(Profile()["spec"]["digest"], kUsedDigest);
  EXPECT_EQ(Conversion()["metadata"]["ownerReferences"][0]["name"], kUsedProfile);
  EXPECT_EQ(Conversion()["spec"]["template"]["spec"]["containers"][0]["args"][2],
            "docker://registry.test:5000/train@" + kUsedDigest);
  EndConversion(0, Made());
  ASSERT_TRUE(Eventually([&] { return State() == "Ready" && Conversion().is_null(); }));
  EXPECT_EQ(Profile()["status"]["artifact"]["digest"], "sha256:" + std::string(64, 'c'));
  EXPECT_EQ(Profile()["status"]["artifact"]["sizeBytes"], 800);
  EXPECT_EQ(Condition(Profile(), "Converted"), "True");
  ASSERT_TRUE(Eventually([&] { return Profile()["status"].contains("lastUsed"); }));
  ASSERT_TRUE(Eventually([&] { return EventNotes("Converted").find("lazily") != std::string::npos; }));
  RunOn(IndexedJob("third", auto_));
  ASSERT_TRUE(Eventually([&] { return Exists(kTrainingRuns, RunNameOf(Get(kube::kJobs, "third"))); }));
  EXPECT_EQ(ConversionsAsked(), 1);
  EXPECT_EQ(server_.All(kImageProfiles).size(), 1U);
}

TEST_F(ImageConversionTest, ARestartedOperatorGoesOnWhereTheOtherWas) {
  RunOn(IndexedJob("job", auto_));
  {
    const auto replica = Start();
    ASSERT_TRUE(Eventually([&] { return State() == "Converting"; }));
  }
  EndConversion(0, Made());  // nobody sees it
  {
    server_.Inject(
        {.method = "PATCH", .target_part = "/imageprofiles/", .times = 2, .status = 0, .is_carried_out = true});
    const auto replica = Start();
    ASSERT_TRUE(Eventually([&] { return State() == "Ready" && Conversion().is_null(); }));
  }
  const auto replica = Start();
  ASSERT_TRUE(Eventually([&] { return replica->get().is_ready(); }));
  const Json later = IndexedJob("later", auto_);
  RunOn(later);
  ASSERT_TRUE(Eventually([&] { return Exists(kTrainingRuns, RunNameOf(later)); }));
  EXPECT_EQ(ConversionsAsked(), 1);
}

TEST_F(ImageConversionTest, AFailureIsToldWithWhatToDoAndDoesNotHoldTheJobUp) {
  const auto replica = Start();
  const Json job = IndexedJob("job", auto_);
  RunOn(job);
  ASSERT_TRUE(Eventually([&] { return State() == "Converting"; }));
  EndConversion(1, R"({"version": 1, "error": {"code": "PermissionDenied", "message": "pull access denied"}})");
  ASSERT_TRUE(Eventually([&] { return State() == "Failed" && Conversion().is_null(); }));
  EXPECT_EQ(Condition(Profile(), "Converted", "reason"), "ConversionDenied");
  EXPECT_EQ(Profile()["status"]["tries"]["failures"], 1);
  ASSERT_TRUE(Eventually([&] { return EventNotes("ConversionDenied").find("registrySecret") != std::string::npos; }));
  EXPECT_EQ(ConversionsAsked(), 1);  // the next try is a minute away
  ASSERT_TRUE(Eventually([&] { return Phase(Get(kTrainingRuns, RunNameOf(job))) == "Running"; }));
}

TEST_F(ImageConversionTest, NobodyIsConvertedUnasked) {
  config_.conversion_images = {"registry.test:5000/allowed/*"};
  const auto replica = Start();
  const Json plain = IndexedJob("plain", Json::object());
  RunOn(plain);
  RunOn(IndexedJob("elsewhere", auto_));
  ASSERT_TRUE(Eventually([&] { return EventNotes("ImageNotAllowed").find("conversion.images") != std::string::npos; }));
  RunOn(IndexedJob("local", auto_), "n1", kUsedDigest);
  ASSERT_TRUE(Eventually([&] { return EventNotes("ImageWithoutDigest").find("push it") != std::string::npos; }));
  ASSERT_TRUE(Eventually([&] { return Exists(kTrainingRuns, RunNameOf(plain)); }));
  EXPECT_TRUE(server_.All(kImageProfiles).empty());
  EXPECT_EQ(ConversionsAsked(), 0);
}

TEST_F(ImageConversionTest, WithoutAStoreTheJobIsTold) {
  config_.conversion_store.clear();
  config_.conversion_template.clear();
  const auto replica = Start();
  TrainingJob("llama", {{"startup", {{"image", {{"convert", "Auto"}}}}}});
  ASSERT_TRUE(Eventually([&] { return EventNotes("ConversionOff").find("conversion.store") != std::string::npos; }));
  EXPECT_TRUE(Eventually([&] { return Exists(kube::kJobs, "llama-g0"); }));
}

TEST_F(ImageConversionTest, OnlySoManyAtOnce) {
  config_.conversions_at_once = 1;
  const auto replica = Start();
  const std::string other = "sha256:" + std::string(64, 'd');
  RunOn(IndexedJob("first", auto_));
  ASSERT_TRUE(Eventually([&] { return State() == "Converting"; }));
  RunOn(IndexedJob("second", auto_), "n1", "registry.test:5000/train@" + other);
  const std::string name = ImageProfileName(other, "linux/amd64");
  ASSERT_TRUE(Eventually([&] { return Condition(Get(kImageProfiles, name, ""), "Converted", "reason") == "Queued"; }));
  EXPECT_EQ(ConversionsAsked(), 1);
}

// Plays the agent of n1.
TEST_F(ImageConversionTest, WhatANodeSaysOfAnImageIsInItsRunAndItsProfile) {
  const auto replica = Start();
  const Json job = IndexedJob("job", auto_);
  RunOn(job);
  ASSERT_TRUE(Eventually([&] { return State() == "Converting"; }));
  EndConversion(0, Made());
  ASSERT_TRUE(Eventually([&] { return State() == "Ready" && !Get(kNodePlans, "n1", "").is_null(); }));
  const auto report = [&](Json image) {
    image["image"] = "registry.test:5000/train:1";
    image["manifest"] = "sha256:" + std::string(64, 'b');
    image["askedAt"] = FormatRfc3339(clock_.WallNow() + std::chrono::minutes(1));
    Json plan = Get(kNodePlans, "n1", "");
    plan["metadata"].erase("resourceVersion");
    plan["status"]["heartbeat"] = FormatRfc3339(clock_.WallNow());
    plan["status"]["imageReports"] = Json::array({image});
    server_.Put(kNodePlans, plan);
  };
  report({{"mode", "Pulled"}, {"reason", "NotConverted"}, {"message", "no store has it"}});
  ASSERT_TRUE(Eventually([&] { return EventNotes("ImageNotConverted").find("n1") != std::string::npos; }));
  const auto run = [&] { return Get(kTrainingRuns, RunNameOf(job)); };
  ASSERT_TRUE(Eventually([&] { return run().value("/status/fallbacks/0/node"_json_pointer, "") == "n1"; }));
  report({{"mode", "Lazy"},
          {"hotSet", "Fetched"},
          {"hotSetDigest", "sha256:" + std::string(64, 'e')},
          {"hotSetChunks", 12},
          {"hotSetBytes", 3400},
          {"figures", {{"registryBytes", 5000}, {"hits", 3}, {"misses", 1}}}});
  ASSERT_TRUE(Eventually([&] { return run().value("/status/bytes/imageFromRegistry"_json_pointer, 0) == 5000; }));
  EXPECT_EQ(run()["status"]["images"][0]["mode"], "Lazy");
  EXPECT_EQ(run()["status"]["hotSet"]["hitRatio"], 0.75);
  EXPECT_FALSE(run()["status"].contains("fallbacks"));
  EXPECT_FALSE(run()["status"]["bytes"].contains("checkpointRead")) << "nobody reports any";
  ASSERT_TRUE(Eventually([&] { return Profile().value("/status/hotSet/chunks"_json_pointer, 0) == 12; }));
  EXPECT_EQ(Profile()["status"]["hitRatio"], 0.75);
}

TEST_F(ImageConversionTest, ABadTemplateEndsTheOperator) {
  std::ofstream(config_.conversion_template) << "{}";
  const auto replica = Start();
  EXPECT_FALSE(replica->Stop().ok());
}

}  // namespace
}  // namespace paceline::operator_
