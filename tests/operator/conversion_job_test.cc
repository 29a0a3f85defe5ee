#include "operator/image/conversion_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lib/base/json.h"
#include "operator/image/pod_images.h"
#include "operator/names.h"
#include "tests/operator/pod_builder.h"

namespace paceline::operator_ {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kTrainDigest = "sha256:" + std::string(64, 'a');

api::ImageProfile TrainProfile() {
  api::ImageProfile profile;
  profile.metadata.name = ImageProfileName(kTrainDigest, "linux/amd64");
  profile.metadata.uid = "uid-p";
  profile.spec = {"registry.test:5000/train", kTrainDigest, "linux/amd64", "default"};
  return profile;
}

ConversionJobSettings TemplateSettings(const std::string& pod_template) {
  Result<std::shared_ptr<const Json>> parsed = ParseConversionTemplate(pod_template);
  EXPECT_TRUE(parsed.ok()) << parsed.status().ToString();
  return {"paceline-system", "docker://registry.test:5000/blocks", *parsed, std::chrono::minutes(90)};
}

Json ServerJob(const char* condition = nullptr, const char* reason = "") {
  Json job = ConversionJobManifest(TrainProfile(), TemplateSettings(R"({"spec": {"containers": [{"name": "c"}]}})"));
  job["metadata"]["uid"] = "uid-j";
  if (condition != nullptr) {
    job["status"]["conditions"] =
        Json::array({{{"type", condition}, {"status", "True"}, {"reason", reason}, {"message", "said"}}});
  }
  return job;
}

Json ServerPod(Json state) {
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata", {{"name", "p"}, {"namespace", "paceline-system"}}},
          {"spec", {{"nodeName", "n1"}, {"containers", Json::array({{{"name", "c"}}})}}},
          {"status",
           {{"phase", "Failed"}, {"containerStatuses", Json::array({{{"name", "c"}, {"state", std::move(state)}}})}}}};
}

Json EndedWith(int exit_code, const std::string& message, const char* reason = "Error") {
  return {{"terminated", {{"exitCode", exit_code}, {"reason", reason}, {"message", message}}}};
}

const std::string kGoodReport = R"({"version": 1, "image": "sha256:)" + std::string(64, 'c') +
                                R"(", "source": "sha256:)" + std::string(64, 'b') +
                                R"(", "sourceBytes": 9, "storedBytes": 8, "seconds": 1.5})";

TEST(ConversionJob, RunsPacectlAsTheTemplateSays) {
  const Json job = ConversionJobManifest(
      TrainProfile(),
      TemplateSettings(R"({"metadata": {"labels": {"team": "x"}}, "spec": {"priorityClassName": "low", "containers":
                             [{"name": "converter", "image": "pacectl:1", "args": ["--threads", "2"]}]}})"));
  EXPECT_EQ(job["metadata"]["namespace"], "paceline-system");
  EXPECT_EQ(job["metadata"]["ownerReferences"][0]["uid"], "uid-p");
  EXPECT_EQ(job["spec"]["backoffLimit"], 0);
  EXPECT_EQ(job["spec"]["activeDeadlineSeconds"], 5400);
  const Json& pod = job["spec"]["template"];
  EXPECT_EQ(pod["metadata"]["labels"]["team"], "x");
  EXPECT_EQ(pod["metadata"]["labels"][std::string(kConversionLabel)], "true");
  EXPECT_EQ(pod["spec"]["priorityClassName"], "low");
  EXPECT_EQ(pod["spec"]["restartPolicy"], "Never");
  const Json& container = pod["spec"]["containers"][0];
  EXPECT_EQ(container["args"], Json({"image", "convert", "docker://registry.test:5000/train@" + kTrainDigest, "--store",
                                     "docker://registry.test:5000/blocks", "--report", "/dev/termination-log",
                                     "--platform", "linux/amd64", "--threads", "2"}));
  EXPECT_EQ(container["terminationMessagePolicy"], "FallbackToLogsOnError");
}

TEST(ConversionJob, NamesFollowFromTheImage) {
  const std::string name = ImageProfileName(kTrainDigest, "linux/arm64/v8");
  EXPECT_EQ(name, "sha256-" + std::string(64, 'a') + ".linux-arm64-v8");
  EXPECT_NE(ConversionJobName(name), ConversionJobName(ImageProfileName(kTrainDigest, "linux/amd64")));
  EXPECT_LE(ConversionJobName(name).size(), kMaxDnsLabel);
  EXPECT_THAT(ConversionJobName(name), HasSubstr("paceline-convert-aaaaaaaaaaaa-"));
}

TEST(ConversionJob, ATemplateWithoutAContainerIsRefused) {
  for (const char* text : {"", "{", "[]", "{}", R"({"spec": {}})", R"({"spec": {"containers": []}})",
                           R"({"spec": {"containers": ["x"]}})", R"({"metadata": 1, "spec": {"containers": [{}]}})",
                           R"({"metadata": {"labels": []}, "spec": {"containers": [{}]}})"}) {
    EXPECT_EQ(ParseConversionTemplate(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST(ConversionJob, TellsHowItStands) {
  const api::ImageProfile profile = TrainProfile();
  const Json good = ServerPod(EndedWith(0, kGoodReport, "Completed"));
  ConversionJobFacts facts = ReadConversionJob(ServerJob("Complete"), &good, profile);
  EXPECT_EQ(facts.end, ConversionJobEnd::kSucceeded);
  EXPECT_TRUE(facts.is_ours);
  ASSERT_TRUE(facts.report.has_value());
  EXPECT_EQ(facts.report->stored_bytes, 8);

  const Json told =
      ServerPod(EndedWith(1, R"({"version": 1, "error": {"code": "NotFound", "message": "no such manifest"}})"));
  facts = ReadConversionJob(ServerJob("Failed", "BackoffLimitExceeded"), &told, profile);
  EXPECT_EQ(facts.end, ConversionJobEnd::kFailed);
  EXPECT_EQ(facts.report->error, NotFoundError("no such manifest"));

  const Json killed = ServerPod(EndedWith(137, "", "OOMKilled"));
  facts = ReadConversionJob(ServerJob("Failed", "BackoffLimitExceeded"), &killed, profile);
  EXPECT_FALSE(facts.report.has_value());
  EXPECT_EQ(facts.failure, "OOMKilled");

  const Json logged = ServerPod(EndedWith(1, "pacectl: unknown flag"));
  EXPECT_EQ(ReadConversionJob(ServerJob("Failed", "BackoffLimitExceeded"), &logged, profile).failure_detail,
            "pacectl: unknown flag");
  EXPECT_EQ(ReadConversionJob(ServerJob("Failed", "BackoffLimitExceeded"), nullptr, profile).failure_detail, "said");
  EXPECT_EQ(ReadConversionJob(ServerJob("Failed", "DeadlineExceeded"), &killed, profile).failure, "DeadlineExceeded");

  const Json waits = ServerPod({{"waiting", {{"reason", "ImagePullBackOff"}, {"message", "back-off"}}}});
  Json running = waits;
  running["status"]["phase"] = "Pending";
  facts = ReadConversionJob(ServerJob(), &running, profile);
  EXPECT_EQ(facts.end, ConversionJobEnd::kNone);
  EXPECT_THAT(facts.waiting, HasSubstr("ImagePullBackOff"));

  Json other = ServerJob("Complete");
  other["metadata"]["ownerReferences"][0]["uid"] = "another";
  EXPECT_FALSE(ReadConversionJob(other, &good, profile).is_ours);
}

TEST(ConversionReport, WhatIsNoneIsNoReport) {
  EXPECT_TRUE(ParseConversionReport(kGoodReport).ok());
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("[1]"), std::string(R"({"version": 2, "error": {"code": "x"}})"),
        std::string(R"({"version": 1})"), std::string(R"({"version": 1, "image": "sha256:1", "source": "x"})"),
        kGoodReport + std::string(5000, ' ')}) {
    EXPECT_EQ(ParseConversionReport(text).status().code(), StatusCode::kDataLoss) << text.substr(0, 80);
  }
  for (size_t length = 0; length < kGoodReport.size(); ++length) {
    EXPECT_FALSE(ParseConversionReport(kGoodReport.substr(0, length)).ok()) << length;
  }
  for (size_t at = 0; at < kGoodReport.size(); ++at) {
    for (const char flip : {1, 32, 127}) {
      std::string damaged = kGoodReport;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      const Result<ConversionReport> report = ParseConversionReport(damaged);
      if (!report.ok() || !report->error.ok()) continue;
      EXPECT_EQ(report->image.size(), 71U) << damaged;
      EXPECT_GE(report->stored_bytes, 0) << damaged;
    }
  }
}

std::shared_ptr<const kube::PodView> RunningPod(const char* name, const char* node, const std::string& image,
                                                const std::string& image_id, int64_t second) {
  kube::PodView pod;
  pod.meta.name = name;
  pod.spec.node_name = node;
  pod.spec.containers.push_back({"main", image, ""});
  kube::ContainerStatus status;
  status.name = "main";
  status.image_id = image_id;
  status.state.running = kube::ContainerRunning{SecondOf(AtMs(second * 1000))};
  pod.status.containers.push_back(status);
  return std::make_shared<const kube::PodView>(std::move(pod));
}

TEST(PodImages, AreReadFromWhatKubeletSays) {
  const auto architecture = [](std::string_view node) {
    return node == "gone" ? "" : node == "arm" ? "arm64" : "amd64";
  };
  const std::string other = "sha256:" + std::string(64, 'b');
  const auto images =
      ImagesOf({RunningPod("a", "n1", "registry.test:5000/train:1", "registry.test:5000/train@" + kTrainDigest, 1),
                RunningPod("b", "n2", "registry.test:5000/train:1", "registry.test:5000/train@" + kTrainDigest, 5),
                RunningPod("c", "arm", "registry.test:5000/train:1", "registry.test:5000/train@" + kTrainDigest, 2),
                RunningPod("d", "n1", "python", "docker.io/library/python@" + other, 3),
                RunningPod("e", "n1", "local:1", other, 3),  // loaded by hand: the digest of its config
                RunningPod("f", "n1", "x/y:1", "", 3),       // not there yet
                RunningPod("g", "gone", "z", "docker.io/library/z@" + other, 3),
                RunningPod("h", "", "z", "docker.io/library/z@" + other, 3)},
               architecture);
  EXPECT_THAT(images, ElementsAre(PodImage{"registry.test:5000/train", kTrainDigest, "linux/amd64", AtMs(5000)},
                                  PodImage{"registry.test:5000/train", kTrainDigest, "linux/arm64", AtMs(2000)},
                                  PodImage{"docker.io/library/python", other, "linux/amd64", AtMs(3000)},
                                  PodImage{"docker.io/library/local", "", "linux/amd64", AtMs(3000)}));
  EXPECT_THAT(ImagesOf({}, architecture), IsEmpty());
}

TEST(PodImages, MayBeLimitedToRepositories) {
  EXPECT_TRUE(IsAllowedRepository("r.test/a", {}));
  EXPECT_TRUE(IsAllowedRepository("r.test/a", {"x", "r.test/a"}));
  EXPECT_TRUE(IsAllowedRepository("r.test/team/a", {"r.test/team/*"}));
  EXPECT_FALSE(IsAllowedRepository("r.test/teams", {"r.test/team/*"}));
  EXPECT_FALSE(IsAllowedRepository("r.test/ab", {"r.test/a"}));
}

}  // namespace
}  // namespace paceline::operator_
