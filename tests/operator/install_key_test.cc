#include "operator/dependencies/install_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

namespace paceline::operator_ {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Json = nlohmann::json;

const std::string kDigest = "sha256:" + std::string(64, 'a');

class InstallKeyTest : public ::testing::Test {
 protected:
  Result<InstallKey> Make() {
    const Json& container = pod_["spec"]["containers"][0];
    return MakeInstallKey({pod_, container, settings_, image_, "team", "x86_64",
                           [this](const std::string& name) -> Result<std::map<std::string, std::string>> {
                             const auto found = maps_.find(name);
                             if (found == maps_.end()) return NotFoundError("not found");
                             return found->second;
                           }});
  }
  std::string Key() { return deps::KeyOf(deps::KeyDocument(Make()->inputs)).Hex(); }
  std::string Refusal() {
    const Result<InstallKey> key = Make();
    return key.ok() ? "cacheable" : key.status().message();
  }
  Json& container() { return pod_["spec"]["containers"][0]; }
  void MountInputs() {
    pod_["spec"]["volumes"] = {{{"name", "inputs"}, {"configMap", {{"name", "reqs"}}}},
                               {{"name", "data"}, {"nfs", {}}}};
    container()["volumeMounts"] = {{{"name", "inputs"}, {"mountPath", "/inputs"}},
                                   {{"name", "data"}, {"mountPath", "/data"}}};
    settings_.inputs = {"/inputs/requirements.txt"};
    maps_["reqs"] = {{"requirements.txt", "-r more.txt\nnumpy==2.0\n"}, {"more.txt", "scipy==1.0\n"}};
  }

  Json pod_ = Json::parse(R"({"metadata":{"name":"a-0"},"spec":{"containers":[
      {"name":"main","image":"r/i:1","env":[{"name":"PIP_INDEX_URL","value":"https://me:x@pypi/simple"},
       {"name":"RANK","value":"3"}]}]}})");
  api::DependencySettings settings_{
      .install = "pip install -r /inputs/requirements.txt", .capture = {"/opt/venv"}, .environment = {"VARIANT"}};
  ImageFacts image_{.digest = kDigest, .environment = {{"PATH", "/usr/bin"}, {"HOSTNAME", "x"}}, .directory = "/app"};
  std::map<std::string, std::map<std::string, std::string>> maps_;
};

TEST_F(InstallKeyTest, HoldsWhatDecidesTheInstallAndTheImageForTheRest) {
  const Result<InstallKey> key = Make();
  ASSERT_TRUE(key.ok()) << key.status().ToString();
  const Json document = deps::KeyDocument(key->inputs);
  EXPECT_EQ(document["namespace"], "team");
  EXPECT_EQ(document["image"], kDigest);
  EXPECT_EQ(document["arch"], "x86_64");
  EXPECT_EQ(document["directory"], "/app");
  for (const char* field : {"base", "libc", "system", "home", "umask"}) EXPECT_EQ(document[field], "") << field;
  EXPECT_THAT(document["interpreters"], IsEmpty());
  EXPECT_EQ(document["environment"], (Json{{"PATH", "/usr/bin"}, {"PIP_INDEX_URL", "https://pypi/simple"}}));
  EXPECT_THAT(key->variables, Contains("PIP_INDEX_URL"));
  EXPECT_THAT(key->variables, Contains("HOME"));
  EXPECT_THAT(key->variables, Not(Contains("RANK")));
  EXPECT_TRUE(deps::ParseKeyDocument(document).ok());
}

TEST_F(InstallKeyTest, IsTheSameForAllPodsOfAJobAndAnotherForWhatMatters) {
  MountInputs();
  const std::string key = Key();
  pod_["metadata"]["name"] = "a-1";
  container()["env"][1]["value"] = "4";
  pod_["spec"]["nodeName"] = "n2";
  EXPECT_EQ(Key(), key);
  const std::pair<const char*, std::function<void()>> changes[] = {
      {"command", [&] { settings_.install += " "; }},
      {"image", [&] { image_.digest = "sha256:" + std::string(64, 'b'); }},
      {"environment",
       [&] {
         container()["env"].push_back({{"name", "VARIANT"}, {"value", "cpu"}});
       }},
      {"image's environment", [&] { image_.environment["PIP_NO_BINARY"] = "1"; }},
      {"user", [&] { pod_["spec"]["securityContext"]["runAsUser"] = 1000; }},
      {"group", [&] { container()["securityContext"]["runAsGroup"] = 1000; }},
      {"directory", [&] { container()["workingDir"] = "/work"; }},
      {"capture", [&] { settings_.capture.push_back("/opt/other"); }},
      {"input", [&] { maps_["reqs"]["requirements.txt"] += "torch==2.1\n"; }},
      {"included input", [&] { maps_["reqs"]["more.txt"] = "scipy==1.1\n"; }},
  };
  std::string before = key;
  for (const auto& [what, change] : changes) {
    change();
    const std::string now = Key();
    EXPECT_NE(now, before) << what;
    before = now;
  }
}

TEST_F(InstallKeyTest, InputsOfConfigMapsAreFollowedAndDecideThePinning) {
  MountInputs();
  Result<InstallKey> key = Make();
  ASSERT_TRUE(key.ok()) << key.status().ToString();
  ASSERT_EQ(key->inputs.inputs.size(), 2U);
  EXPECT_EQ(key->inputs.inputs[0].path, "/inputs/more.txt");
  EXPECT_EQ(key->inputs.inputs[0].digest, blocks::Sha256Of("scipy==1.0\n"));
  EXPECT_TRUE(key->pinning.is_pinned) << key->pinning.reason;
  maps_["reqs"]["more.txt"] = "scipy\n";
  EXPECT_THAT(Make()->pinning.reason, HasSubstr("scipy"));
  // A file of its own, and a renamed entry.
  container()["volumeMounts"][0] = {{"name", "inputs"}, {"mountPath", "/inputs/requirements.txt"}, {"subPath", "a"}};
  pod_["spec"]["volumes"][0]["configMap"]["items"] = Json::parse(R"([{"key":"plain","path":"a"}])");
  maps_["reqs"]["plain"] = "numpy==2.0\n";
  key = Make();
  ASSERT_TRUE(key.ok()) << key.status().ToString();
  EXPECT_EQ(key->inputs.inputs[0].digest, blocks::Sha256Of("numpy==2.0\n"));
  // A file of the image counts as the image.
  settings_.inputs = {"requirements.txt"};
  EXPECT_EQ(Make()->inputs.inputs[0].path, "/app/requirements.txt");
  EXPECT_EQ(Make()->inputs.inputs[0].digest.ToString(), kDigest);
  EXPECT_FALSE(Make()->pinning.is_pinned);
}

TEST_F(InstallKeyTest, WhatCannotBeReadIsNotCacheable) {
  MountInputs();
  settings_.inputs = {"/data/requirements.txt"};
  EXPECT_THAT(Refusal(), HasSubstr("lies on the volume data, which is no ConfigMap"));
  settings_.inputs = {"/inputs/none.txt"};
  EXPECT_THAT(Refusal(), HasSubstr("is not in the ConfigMap reqs"));
  settings_.inputs = {"/inputs/requirements.txt"};
  maps_["reqs"]["more.txt"] = "-r https://host/x.txt\n";
  EXPECT_THAT(Refusal(), HasSubstr("cannot be looked at"));
  maps_["reqs"]["more.txt"] = "-r /data/x.txt\n";
  EXPECT_THAT(Refusal(), HasSubstr("volume data"));
  maps_["reqs"]["more.txt"] = "-r requirements.txt\n";
  EXPECT_EQ(Refusal(), "cacheable");  // each file once
  maps_.clear();
  EXPECT_THAT(Refusal(), HasSubstr("ConfigMap reqs: not found"));
}

TEST_F(InstallKeyTest, VariablesWhoseValuesAreUnknownMatterOnlyWhenTheyCount) {
  container()["env"].push_back({{"name", "JOB_NODE"}, {"valueFrom", {{"fieldRef", {{"fieldPath", "x"}}}}}});
  EXPECT_EQ(Refusal(), "cacheable");
  container()["env"].push_back(
      {{"name", "PIP_TOKEN"}, {"valueFrom", {{"secretKeyRef", {{"name", "s"}, {"key", "k"}}}}}});
  EXPECT_THAT(Make()->inputs.secrets, ElementsAre("PIP_TOKEN"));
  EXPECT_THAT(Make()->variables, Contains("PIP_TOKEN"));
  container()["env"].push_back({{"name", "PIP_CACHE_DIR"}, {"value", "/x/$(JOB_NODE)"}});
  EXPECT_THAT(Refusal(), HasSubstr("PIP_CACHE_DIR is not known"));
  container()["env"].erase(4);
  container()["env"].push_back(
      {{"name", "VARIANT"}, {"valueFrom", {{"configMapKeyRef", {{"name", "s"}, {"key", "k"}}}}}});
  EXPECT_THAT(Refusal(), HasSubstr("VARIANT is not known"));
  container()["env"].erase(4);
  container()["envFrom"] = Json::parse(R"([{"secretRef":{"name":"s"}}])");
  EXPECT_THAT(Refusal(), HasSubstr("envFrom"));
}

TEST(WhyNotCaptured, NamesDirectoriesThatAreNotTheInstallsOwn) {
  const Json container = Json::parse(R"({"volumeMounts":[{"name":"data","mountPath":"/data"},
      {"name":"models","mountPath":"/opt/venv/models"}]})");
  const struct {
    std::vector<std::string> capture;
    const char* why;
  } cases[] = {
      {{"/opt/venv"}, ""},
      {{"/opt/venv", "/root/conda", "/var/lib/env"}, ""},
      {{}, "no directories"},
      {{"/"}, "more than an install makes"},
      {{"/opt"}, "more than an install makes"},
      {{"/usr/lib/python3/site-packages"}, "lies in /usr"},
      {{"/etc"}, "lies in /etc"},
      {{"venv"}, "no plain absolute path"},
      {{"/opt/venv/"}, "no plain absolute path"},
      {{"/opt/../usr"}, "no plain absolute path"},
      {{"/opt/venv", "/opt/venv/lib"}, "lies in /opt/venv"},
      {{"/data/venv"}, "lies on the volume data"},
      {{"/data"}, "lies on the volume data"},
  };
  for (const auto& c : cases) {
    const std::string why = WhyNotCaptured(c.capture, container);
    EXPECT_THAT(why, HasSubstr(c.why)) << why;
    EXPECT_EQ(why.empty(), std::string(c.why).empty()) << why;
  }
}

TEST(ImageFacts, AreReadFromTheConfig) {
  const Result<ImageFacts> facts = ParseImageConfig(
      R"({"config":{"Entrypoint":["/entry"],"Cmd":["a","b"],"Env":["PATH=/usr/bin","EMPTY=","ODD"],"User":"app",
          "WorkingDir":"/work"}})");
  ASSERT_TRUE(facts.ok());
  EXPECT_THAT(facts->entrypoint, ElementsAre("/entry"));
  EXPECT_THAT(facts->command, ElementsAre("a", "b"));
  EXPECT_EQ(facts->environment, (std::map<std::string, std::string>{{"EMPTY", ""}, {"PATH", "/usr/bin"}}));
  EXPECT_EQ(facts->user, "app");
  EXPECT_EQ(facts->directory, "/work");
  EXPECT_THAT(ParseImageConfig("{}")->entrypoint, IsEmpty());
  for (const char* bad : {"", "[]", "{\"config\"", "7"}) EXPECT_FALSE(ParseImageConfig(bad).ok()) << bad;
}

}  // namespace
}  // namespace paceline::operator_
