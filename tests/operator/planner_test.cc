#include "operator/dependencies/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/json.h"
#include "operator/webhook/injection.h"

namespace paceline::operator_ {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

class FakeImages final : public ImageLookup {
 public:
  Result<ImageFacts> Find(const std::string& image, const std::string& architecture, Deadline) override {
    asked.push_back(architecture + " " + image);
    if (!is_there) return UnavailableError("the registry is away");
    return facts;
  }
  bool is_there = true;
  ImageFacts facts{.digest = "sha256:" + std::string(64, 'a'), .entrypoint = {"/entry", "$HOME"}, .command = {"serve"}};
  std::vector<std::string> asked;
};

class NoServer final : public kube::Reader {
 public:
  Result<Json> Get(const kube::Resource&, const kube::ObjectKey&, Deadline) override { return NotFoundError("none"); }
  Result<kube::ObjectList> List(const kube::Resource&, const kube::ListOptions&, Deadline) override {
    return NotFoundError("none");
  }
};

class PlannerTest : public ::testing::Test {
 protected:
  PlannedInstall Plan() {
    return planner_.Plan({pod_, "team", settings_, architecture_, why_no_volume_}, Deadline::Infinite());
  }
  Json After() {
    InjectedVolumes volumes;
    volumes.install = Plan().install;
    return pod_.patch(InjectionPatch(pod_, {"JobSet", "llama", "u1", "", 2, 5}, volumes));
  }

  Json pod_ = Json::parse(R"json({"metadata":{},"spec":{"containers":[
      {"name":"main","image":"r/i:1","command":["python"],"args":["train.py","$(RANK)"]},{"name":"side"}]}})json");
  api::DependencySettings settings_{.install = "pip install $X", .capture = {"/opt/venv"}};
  std::string architecture_ = "amd64", why_no_volume_;
  RealClock clock_;
  FakeImages images_;
  NoServer server_;
  InstallPlanner planner_{&images_, server_, std::chrono::seconds(2), clock_};
};

TEST_F(PlannerTest, PutsTheWrapperBeforeTheCommandAndTheVolumeIntoTheFirstContainer) {
  const Json after = After();
  const Json& main = after["spec"]["containers"][0];
  EXPECT_EQ(main["command"], Json::array({"/run/paceline/dependencies/bin/paceline-deps"}));
  const std::vector<std::string> args = main["args"];
  const std::string key =
      deps::KeyOf(*ParseJson(std::string(after["spec"]["volumes"][0]["csi"]["volumeAttributes"]["key"]))).Hex();
  EXPECT_THAT(args, IsSupersetOf({"--mark", "--sentinel", "/opt/venv/.paceline-dependencies", "--key", key.c_str(),
                                  "--install", "pip install $$X"}));
  EXPECT_EQ(std::vector<std::string>(args.end() - 4, args.end()),
            (std::vector<std::string>{"--", "python", "train.py", "$(RANK)"}));
  const Json attributes = after["spec"]["volumes"][0]["csi"]["volumeAttributes"];
  EXPECT_EQ(attributes["type"], "deps");
  EXPECT_EQ(attributes["capture"], R"(["/opt/venv"])");
  EXPECT_EQ(main["volumeMounts"][2],
            (Json{{"name", "paceline-dependencies"}, {"mountPath", "/opt/venv"}, {"subPath", "tree/opt/venv"}}));
  EXPECT_EQ(main["volumeMounts"][0]["readOnly"], true);
  EXPECT_FALSE(after["spec"]["containers"][1].contains("volumeMounts"));
  EXPECT_FALSE(after["spec"]["containers"][1].contains("command"));
  EXPECT_EQ(after["metadata"]["annotations"]["paceline.dev/injected"], "identity,install");
  // A second call sees that it is done.
  InjectedVolumes volumes;
  volumes.install = Plan().install;
  EXPECT_THAT(InjectionPatch(after, {"JobSet", "llama", "u1", "", 2, 5}, volumes), IsEmpty());
}

TEST_F(PlannerTest, TakesTheCommandFromTheImageAsKubernetesWould) {
  const auto program = [&](const char* container) {
    pod_["spec"]["containers"][0] = Json::parse(container);
    const PlannedInstall planned = Plan();
    if (!planned.install) return std::vector<std::string>{planned.not_installed};
    const std::vector<std::string>& args = planned.install->args;
    return std::vector<std::string>(std::find(args.begin(), args.end(), "--") + 1, args.end());
  };
  EXPECT_THAT(program(R"({"image":"i"})"), ElementsAre("/entry", "$$HOME", "serve"));
  EXPECT_THAT(program(R"({"image":"i","args":["x"]})"), ElementsAre("/entry", "$$HOME", "x"));
  EXPECT_THAT(program(R"({"image":"i","command":["c"]})"), ElementsAre("c"));
  EXPECT_THAT(program(R"({"image":"i","command":["c"],"args":["x"]})"), ElementsAre("c", "x"));
  images_.is_there = false;
  EXPECT_THAT(program(R"({"image":"i","command":["c"]})"), ElementsAre("c"));
  EXPECT_THAT(program(R"({"image":"i","args":["x"]})"), ElementsAre(HasSubstr("the registry is away")));
  images_ = FakeImages();
  images_.facts.entrypoint.clear();
  images_.facts.command.clear();
  EXPECT_THAT(program(R"({"image":"i"})"), ElementsAre(HasSubstr("names a command")));
}

TEST_F(PlannerTest, WhatIsNotCacheableIsInstalledInEveryPodAndSaid) {
  const auto reason = [&] {
    const PlannedInstall planned = Plan();
    EXPECT_TRUE(planned.install.has_value());
    if (!planned.install->attributes.empty()) {
      EXPECT_EQ(planned.install->attributes.count("key"), 0U);
      EXPECT_EQ(planned.install->mounts.size(), 2U);
      EXPECT_NE(planned.install->attributes.at("reason"), "");
    }
    EXPECT_THAT(planned.install->args, Contains("python"));
    return planned.not_cacheable;
  };
  images_.is_there = false;
  EXPECT_THAT(reason(), HasSubstr("not known by its digest: the registry is away"));
  images_.is_there = true;
  architecture_ = "";
  EXPECT_THAT(reason(), HasSubstr("several architectures"));
  architecture_ = "amd64";
  settings_.capture = {"/usr/lib"};
  EXPECT_THAT(reason(), HasSubstr("lies in /usr"));
  settings_.capture = {"/opt/venv"};
  settings_.inputs = {"/x/requirements.txt"};
  pod_["spec"]["volumes"] = Json::parse(R"([{"name":"x","configMap":{"name":"reqs"}}])");
  pod_["spec"]["containers"][0]["volumeMounts"] = Json::parse(R"([{"name":"x","mountPath":"/x"}])");
  EXPECT_THAT(reason(), HasSubstr("ConfigMap reqs"));
  // Asked for: nothing to warn of, and no registry to ask.
  images_.asked.clear();
  settings_.enabled = false;
  EXPECT_EQ(reason(), "");
  EXPECT_THAT(images_.asked, IsEmpty());
}

TEST_F(PlannerTest, WithoutAgentsTheContainersShellInstalls) {
  why_no_volume_ = "node n1 has no live paceline-agent";
  const PlannedInstall planned = Plan();
  EXPECT_EQ(planned.not_cacheable, why_no_volume_);
  EXPECT_THAT(planned.install->command, ElementsAre("/bin/sh", "-c"));
  EXPECT_THAT(planned.install->args,
              ElementsAre("(pip install $$X\n) && exec \"$$@\"", "paceline-deps", "python", "train.py", "$(RANK)"));
  EXPECT_FALSE(After()["spec"].contains("volumes"));
}

TEST_F(PlannerTest, NothingToInstallChangesNothing) {
  settings_.install = "";
  EXPECT_FALSE(Plan().install.has_value());
  settings_.install = "make";
  for (const char* pod : {"{}", R"({"spec":{}})", R"({"spec":{"containers":[]}})", R"({"spec":{"containers":[7]}})"}) {
    pod_ = Json::parse(pod);
    EXPECT_FALSE(Plan().install.has_value()) << pod;
  }
}

}  // namespace
}  // namespace paceline::operator_
