#include "lib/deps/key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <set>

namespace paceline::deps {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

KeyInputs Inputs() {
  KeyInputs inputs;
  inputs.ns = "team";
  inputs.image = "sha256:" + std::string(64, 'a');
  inputs.machine = {"x86_64", "glibc 2.36", "debian 12", {{"python3", "cpython-311 3.11.2 /usr"}},
                    "0:0",    "/root",      "/app",      "022"};
  inputs.command = "pip install -r requirements.txt";
  inputs.inputs = {{"/app/requirements.txt", blocks::Sha256Of("numpy==2.0")}};
  inputs.environment = {{"PATH", "/usr/bin"}};
  inputs.secrets = {"PIP_TOKEN"};
  inputs.capture = {"/opt/venv"};
  return inputs;
}

TEST(Key, IsThatOfTheWrittenDocument) {
  const Json document = KeyDocument(Inputs());
  EXPECT_EQ(KeyOf(document), blocks::Sha256Of(DumpJson(document)));
  EXPECT_EQ(JsonInt(document, "keyVersion").value_or(0), kKeyVersion);
  EXPECT_EQ(KeyOf(KeyDocument(Inputs())), KeyOf(document));
}

TEST(Key, EveryFactThatDecidesTheInstallChangesIt) {
  const std::pair<const char*, std::function<void(KeyInputs&)>> changes[] = {
      {"namespace", [](KeyInputs& k) { k.ns = "other"; }},
      {"epoch", [](KeyInputs& k) { k.epoch = 1; }},
      {"image", [](KeyInputs& k) { k.image = ""; }},
      {"base", [](KeyInputs& k) { k.base = "sha256:1"; }},
      {"arch", [](KeyInputs& k) { k.machine.arch = "aarch64"; }},
      {"libc", [](KeyInputs& k) { k.machine.libc = "glibc 2.37"; }},
      {"system", [](KeyInputs& k) { k.machine.system = "debian 13"; }},
      {"interpreters.python3", [](KeyInputs& k) { k.machine.interpreters["python3"] = "cpython-312"; }},
      {"user", [](KeyInputs& k) { k.machine.user = "1:1"; }},
      {"home", [](KeyInputs& k) { k.machine.home = "/home"; }},
      {"directory", [](KeyInputs& k) { k.machine.directory = "/"; }},
      {"umask", [](KeyInputs& k) { k.machine.umask = "077"; }},
      {"command", [](KeyInputs& k) { k.command += " "; }},
      {"inputs./app/requirements.txt", [](KeyInputs& k) { k.inputs[0].digest = blocks::Sha256Of("numpy==2.1"); }},
      {"environment.PATH", [](KeyInputs& k) { k.environment["PATH"] = "/bin"; }},
      {"secrets", [](KeyInputs& k) { k.secrets.clear(); }},
      {"capture", [](KeyInputs& k) { k.capture.push_back("/opt/x"); }},
      {"exclude", [](KeyInputs& k) { k.exclude.push_back("*.a"); }},
      {"times", [](KeyInputs& k) { k.times = FileTimes::kKept; }},
  };
  const Json before = KeyDocument(Inputs());
  std::set<std::string> keys = {KeyOf(before).Hex()};
  for (const auto& [field, change] : changes) {
    KeyInputs inputs = Inputs();
    change(inputs);
    const Json after = KeyDocument(inputs);
    EXPECT_TRUE(keys.insert(KeyOf(after).Hex()).second) << field;
    const std::vector<KeyDifference> differences = ExplainDifference(before, after);
    ASSERT_EQ(differences.size(), 1U) << field;
    EXPECT_EQ(differences[0].field, field);
  }
}

TEST(Key, TheOrderOfListsDoesNotMatter) {
  KeyInputs one = Inputs(), other = Inputs();
  one.capture = {"/a", "/b"};
  other.capture = {"/b", "/a", "/b"};
  EXPECT_EQ(KeyOf(KeyDocument(one)), KeyOf(KeyDocument(other)));
}

TEST(Key, DifferencesNameBothSides) {
  KeyInputs now = Inputs();
  now.environment = {{"PATH", "/usr/bin"}, {"CC", "clang"}};
  EXPECT_THAT(ExplainDifference(KeyDocument(Inputs()), KeyDocument(now)),
              ElementsAre(KeyDifference{"environment.CC", "-", "clang"}));
  EXPECT_THAT(ExplainDifference(KeyDocument(now), KeyDocument(now)), IsEmpty());
}

TEST(Key, DocumentsAreReadBackOrRefused) {
  const Json document = KeyDocument(Inputs());
  const Result<KeyInputs> read = ParseKeyDocument(document);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(KeyDocument(*read), document);
  for (const auto& [name, value] : document.items()) {
    for (const Json& wrong : {Json(), Json(7), Json("x"), Json{{"a", 1}}, Json{3, Json{{"path", 1}}}}) {
      Json changed = document;
      changed[name] = wrong;
      const Result<KeyInputs> other = ParseKeyDocument(changed);
      // Either it is not believed, or it says what the document says.
      if (other.ok()) {
        EXPECT_EQ(KeyDocument(*other), changed) << name;
      }
    }
    Json less = document;
    less.erase(name);
    EXPECT_FALSE(ParseKeyDocument(less).ok()) << name;
  }
  Json more = document;
  more["gpu"] = "h100";
  EXPECT_FALSE(ParseKeyDocument(more).ok());
  EXPECT_FALSE(ParseKeyDocument(Json::array()).ok());
}

TEST(Key, DocumentsOfOtherFormsAreComparedAsFarAsTheyGo) {
  EXPECT_THAT(ExplainDifference(Json::array(), Json::object()), IsEmpty());
  EXPECT_THAT(ExplainDifference({{"inputs", {1, {{"path", 3}}}}}, {{"inputs", "x"}}),
              ElementsAre(KeyDifference{"inputs", "-", "x"}, KeyDifference{"inputs.?", "?", "-"}));
}

}  // namespace
}  // namespace paceline::deps
