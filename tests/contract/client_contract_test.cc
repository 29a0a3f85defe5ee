// Reading and writing objects: what lib/kube's callers rely on, on any API server.
#include <gmock/gmock.h>

#include <set>
#include <thread>

#include "lib/kube/apply.h"
#include "tests/contract/bed.h"

namespace paceline::contract {
namespace {

using kube::kConfigMaps;
using kube::PatchType;
using kube::WriteOptions;

class ClientContract : public ContractTest {
 protected:
  Json Make(const Resource& resource, const Json& object) {
    Result<Json> made = client_->Create(resource, object, {}, Soon());
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    return made.ok() ? *made : Json::object();
  }
  Json Read(const Resource& resource, const std::string& name) {
    Result<Json> got = client_->Get(resource, Key(name), Soon());
    EXPECT_TRUE(got.ok()) << got.status().ToString();
    return got.ok() ? *got : Json::object();
  }
  StatusCode PatchCode(const Resource& resource, const std::string& name, PatchType type, const Json& patch,
                       const WriteOptions& options = {}) {
    const Status status = client_->Patch(resource, Key(name), type, patch, options, Soon()).status();
    last_message_ = status.ToString();
    return status.code();
  }
  std::set<std::string> Names(const Resource& resource, const std::string& labels, const std::string& fields = "") {
    const Result<kube::ObjectList> list =
        client_->List(resource, {.ns = ns_, .label_selector = labels, .field_selector = fields}, Soon());
    EXPECT_TRUE(list.ok()) << list.status().ToString();
    std::set<std::string> names;
    for (const Json& item : list.ok() ? list->items : std::vector<Json>()) names.insert(item["metadata"]["name"]);
    return names;
  }

  std::string last_message_;
};

TEST_P(ClientContract, CreatedObjectHasWhatTheServerAdds) {
  const Json made = Make(kConfigMaps, ConfigMap("a", {{"k", "v"}}));
  EXPECT_FALSE(made["metadata"]["uid"].get<std::string>().empty());
  EXPECT_FALSE(made["metadata"]["resourceVersion"].get<std::string>().empty());
  EXPECT_TRUE(ParseRfc3339(made["metadata"]["creationTimestamp"].get<std::string>()).ok());
  const Json got = Read(kConfigMaps, "a");
  EXPECT_EQ(got["data"], Json({{"k", "v"}}));
  EXPECT_EQ(got["kind"], "ConfigMap");
  EXPECT_EQ(got["apiVersion"], "v1");
}

TEST_P(ClientContract, ErrorsHaveTheirCodes) {
  Make(kConfigMaps, ConfigMap("a"));
  EXPECT_EQ(client_->Create(kConfigMaps, ConfigMap("a"), {}, Soon()).status().code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(client_->Get(kConfigMaps, Key("none"), Soon()).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(client_->Update(kConfigMaps, ConfigMap("none"), {}, Soon()).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(PatchCode(kConfigMaps, "none", PatchType::kMerge, {{"data", {{"a", "b"}}}}), StatusCode::kNotFound);
  EXPECT_EQ(client_->Delete(kConfigMaps, Key("none"), {}, Soon()).code(), StatusCode::kNotFound);
  Json elsewhere = ConfigMap("a");
  elsewhere["metadata"]["namespace"] = "no-such-namespace";
  EXPECT_EQ(client_->Create(kConfigMaps, elsewhere, {}, Soon()).status().code(), StatusCode::kNotFound);
  const Resource unknown{"no.such.group", "v1", "things", "Thing", true};
  EXPECT_EQ(client_->Get(unknown, Key("a"), Soon()).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(client_->Create(kConfigMaps, ConfigMap("Not_A_Name"), {}, Soon()).status().code(),
            StatusCode::kInvalidArgument);
  Json with_version = ConfigMap("b");
  with_version["metadata"]["resourceVersion"] = "1";
  // The server calls this an internal error (500), so that is what a caller sees.
  EXPECT_EQ(client_->Create(kConfigMaps, with_version, {}, Soon()).status().code(), StatusCode::kUnavailable);
  Json wrong_kind = ConfigMap("c");
  wrong_kind["kind"] = "Secret";
  EXPECT_EQ(client_->Create(kConfigMaps, wrong_kind, {}, Soon()).status().code(), StatusCode::kInvalidArgument);
}

TEST_P(ClientContract, ErrorNamesTheObject) {
  const Status missing = client_->Get(kConfigMaps, Key("lost-and-found"), Soon()).status();
  EXPECT_THAT(missing.message(), ::testing::HasSubstr("lost-and-found"));
}

TEST_P(ClientContract, StaleUpdateIsAConflict) {
  const Json first = Make(kConfigMaps, ConfigMap("a", {{"n", "1"}}));
  Json second = first;
  second["data"]["n"] = "2";
  ASSERT_TRUE(client_->Update(kConfigMaps, second, {}, Soon()).ok());
  Json stale = first;
  stale["data"]["n"] = "3";
  const Status conflict = client_->Update(kConfigMaps, stale, {}, Soon()).status();
  EXPECT_EQ(conflict.code(), StatusCode::kAborted) << conflict.ToString();
  EXPECT_EQ(Read(kConfigMaps, "a")["data"]["n"], "2");
}

TEST_P(ClientContract, UpdateWithoutVersionDependsOnTheKind) {
  DefineWidgets();
  Make(kConfigMaps, ConfigMap("a"));
  EXPECT_TRUE(client_->Update(kConfigMaps, ConfigMap("a", {{"n", "9"}}), {}, Soon()).ok());
  Make(kWidgets, Widget("w"));
  EXPECT_EQ(client_->Update(kWidgets, Widget("w", {{"n", 9}}), {}, Soon()).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_P(ClientContract, UpdateThatChangesNothingKeepsTheVersion) {
  const Json first = Make(kConfigMaps, ConfigMap("a", {{"n", "1"}}));
  const Result<Json> again = client_->Update(kConfigMaps, first, {}, Soon());
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ((*again)["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
}

TEST_P(ClientContract, GenerateNameMakesDifferentNames) {
  Json object = ConfigMap("");
  object["metadata"].erase("name");
  object["metadata"]["generateName"] = "part-";
  const std::string one = Make(kConfigMaps, object)["metadata"]["name"];
  const std::string two = Make(kConfigMaps, object)["metadata"]["name"];
  EXPECT_THAT(one, ::testing::StartsWith("part-"));
  EXPECT_NE(one, two);
}

TEST_P(ClientContract, DeleteHonoursTheUid) {
  const Json made = Make(kConfigMaps, ConfigMap("a"));
  EXPECT_EQ(client_->Delete(kConfigMaps, Key("a"), {.uid_precondition = "another"}, Soon()).code(),
            StatusCode::kAborted);
  EXPECT_TRUE(client_->Delete(kConfigMaps, Key("a"), {.uid_precondition = made["metadata"]["uid"]}, Soon()).ok());
  EXPECT_EQ(client_->Get(kConfigMaps, Key("a"), Soon()).status().code(), StatusCode::kNotFound);
}

TEST_P(ClientContract, ListIsPagedAndWhole) {
  for (int i = 0; i < 10; ++i) Make(kConfigMaps, ConfigMap("m" + std::to_string(i), {}, {{"part", "list"}}));
  const Result<kube::ObjectList> list =
      client_->List(kConfigMaps, {.ns = ns_, .label_selector = "part=list", .page_size = 3}, Soon());
  ASSERT_TRUE(list.ok()) << list.status().ToString();
  ASSERT_EQ(list->items.size(), 10u);
  EXPECT_FALSE(list->resource_version.empty());
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(list->items[i]["metadata"]["name"], "m" + std::to_string(i));
    EXPECT_EQ(list->items[i]["kind"], "ConfigMap");
    EXPECT_EQ(list->items[i]["apiVersion"], "v1");
  }
}

TEST_P(ClientContract, LabelSelectorsSelect) {
  Make(kConfigMaps, ConfigMap("a", {}, {{"set", "s"}, {"tier", "front"}}));
  Make(kConfigMaps, ConfigMap("b", {}, {{"set", "s"}, {"tier", "back"}}));
  Make(kConfigMaps, ConfigMap("c", {}, {{"set", "s"}}));
  using Set = std::set<std::string>;
  const std::pair<std::string, Set> cases[] = {
      {"set=s", {"a", "b", "c"}},
      {"set==s,tier=front", {"a"}},
      {"set=s,tier!=front", {"b", "c"}},
      {"set=s,tier", {"a", "b"}},
      {"set=s,!tier", {"c"}},
      {"set=s,tier in (front,back)", {"a", "b"}},
      {"set=s,tier notin (front)", {"b", "c"}},
      {"set=other", {}},
  };
  for (const auto& [selector, names] : cases) EXPECT_EQ(Names(kConfigMaps, selector), names) << selector;
  EXPECT_EQ(client_->List(kConfigMaps, {.ns = ns_, .label_selector = "tier in front"}, Soon()).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_P(ClientContract, FieldSelectorsSelect) {
  Make(kConfigMaps, ConfigMap("a", {}, {{"set", "s"}}));
  Make(kConfigMaps, ConfigMap("b", {}, {{"set", "s"}}));
  using Set = std::set<std::string>;
  EXPECT_EQ(Names(kConfigMaps, "set=s", "metadata.name=a"), Set{"a"});
  EXPECT_EQ(Names(kConfigMaps, "set=s", "metadata.name!=a"), Set{"b"});
  EXPECT_EQ(Names(kConfigMaps, "set=s", "metadata.namespace=" + ns_), (Set{"a", "b"}));
  EXPECT_EQ(client_->List(kConfigMaps, {.ns = ns_, .field_selector = "data.x=1"}, Soon()).status().code(),
            StatusCode::kInvalidArgument);
  ASSERT_TRUE(CreatePod({{"metadata", {{"name", "p1"}}}, {"spec", {{"nodeName", "no-such-node"}}}}).ok());
  ASSERT_TRUE(CreatePod({{"metadata", {{"name", "p2"}}}}).ok());
  EXPECT_EQ(Names(kube::kPods, "", "spec.nodeName=no-such-node"), Set{"p1"});
}

TEST_P(ClientContract, MergePatchReplacesArraysAndDeletesByNull) {
  DefineWidgets();
  Make(kWidgets, Widget("w", {{"list", {1, 2, 3}}, {"keep", "x"}, {"drop", "y"}}));
  ASSERT_EQ(PatchCode(kWidgets, "w", PatchType::kMerge, {{"spec", {{"list", {9}}, {"drop", nullptr}}}}),
            StatusCode::kOk)
      << last_message_;
  EXPECT_EQ(Read(kWidgets, "w")["spec"], Json({{"list", {9}}, {"keep", "x"}}));
  EXPECT_EQ(PatchCode(kWidgets, "w", PatchType::kMerge,
                      {{"metadata", {{"resourceVersion", "1"}}}, {"spec", {{"keep", "z"}}}}),
            StatusCode::kAborted)
      << last_message_;
}

TEST_P(ClientContract, JsonPatchTestsBeforeItChanges) {
  DefineWidgets();
  Make(kWidgets, Widget("w", {{"n", 1}}));
  const Json failing = {{{"op", "test"}, {"path", "/spec/n"}, {"value", 2}},
                        {{"op", "replace"}, {"path", "/spec/n"}, {"value", 3}}};
  EXPECT_EQ(PatchCode(kWidgets, "w", PatchType::kJson, failing), StatusCode::kInvalidArgument) << last_message_;
  EXPECT_EQ(Read(kWidgets, "w")["spec"]["n"], 1);
  const Json passing = {{{"op", "test"}, {"path", "/spec/n"}, {"value", 1}},
                        {{"op", "replace"}, {"path", "/spec/n"}, {"value", 3}}};
  EXPECT_EQ(PatchCode(kWidgets, "w", PatchType::kJson, passing), StatusCode::kOk) << last_message_;
  EXPECT_EQ(Read(kWidgets, "w")["spec"]["n"], 3);
}

TEST_P(ClientContract, StrategicMergeIsForBuiltInKindsOnly) {
  DefineWidgets();
  Make(kWidgets, Widget("w"));
  EXPECT_EQ(PatchCode(kWidgets, "w", PatchType::kStrategicMerge, {{"spec", {{"n", 1}}}}), StatusCode::kInvalidArgument)
      << last_message_;
  ASSERT_TRUE(CreatePod({{"metadata", {{"name", "p"}}}}).ok());
  const Json condition = {{"status", {{"conditions", {{{"type", "paceline.dev/Seen"}, {"status", "True"}}}}}}};
  WriteOptions status;
  status.subresource = "status";
  ASSERT_EQ(PatchCode(kube::kPods, "p", PatchType::kStrategicMerge, condition, status), StatusCode::kOk)
      << last_message_;
  const Json other = {{"status", {{"conditions", {{{"type", "paceline.dev/Other"}, {"status", "True"}}}}}}};
  ASSERT_EQ(PatchCode(kube::kPods, "p", PatchType::kStrategicMerge, other, status), StatusCode::kOk) << last_message_;
  const Json conditions = Read(kube::kPods, "p")["status"]["conditions"];
  EXPECT_NE(kube::FindCondition(conditions, "paceline.dev/Seen"), nullptr) << conditions;
  EXPECT_NE(kube::FindCondition(conditions, "paceline.dev/Other"), nullptr) << conditions;
}

TEST_P(ClientContract, ApplyOwnsItsFields) {
  DefineWidgets();
  Json mine = Widget("w", {{"mine", "1"}, {"both", "a"}});
  ASSERT_TRUE(kube::Apply(*client_, kWidgets, mine, "one", Soon()).ok()) << "apply creates";
  Json theirs = Widget("w", {{"theirs", "2"}, {"both", "b"}});
  WriteOptions gently;
  gently.field_manager = "two";
  const Status conflict = client_->Patch(kWidgets, Key("w"), PatchType::kApply, theirs, gently, Soon()).status();
  EXPECT_EQ(conflict.code(), StatusCode::kAborted) << conflict.ToString();
  EXPECT_EQ(Read(kWidgets, "w")["spec"], Json({{"mine", "1"}, {"both", "a"}}));
  ASSERT_TRUE(kube::Apply(*client_, kWidgets, theirs, "two", Soon()).ok());
  EXPECT_EQ(Read(kWidgets, "w")["spec"], Json({{"mine", "1"}, {"both", "b"}, {"theirs", "2"}}));
  theirs["spec"].erase("theirs");
  ASSERT_TRUE(kube::Apply(*client_, kWidgets, theirs, "two", Soon()).ok());
  EXPECT_EQ(Read(kWidgets, "w")["spec"], Json({{"mine", "1"}, {"both", "b"}}));
  WriteOptions nameless;
  EXPECT_EQ(PatchCode(kWidgets, "w", PatchType::kApply, mine, nameless), StatusCode::kInvalidArgument) << last_message_;
}

TEST_P(ClientContract, AppliedConditionsOfTwoManagersLiveSideBySide) {
  DefineWidgets();
  Make(kWidgets, Widget("w"));
  auto with_condition = [this](const std::string& type) {
    Json object = Widget("w");
    object.erase("spec");
    object["status"]["conditions"] = {{{"type", type}, {"status", "True"}}};
    return object;
  };
  ASSERT_TRUE(kube::Apply(*client_, kWidgets, with_condition("A"), "one", Soon(), "status").ok());
  ASSERT_TRUE(kube::Apply(*client_, kWidgets, with_condition("B"), "two", Soon(), "status").ok());
  const Json conditions = Read(kWidgets, "w")["status"]["conditions"];
  EXPECT_EQ(conditions.size(), 2u) << conditions;
}

TEST_P(ClientContract, DryRunLeavesNothing) {
  WriteOptions options;
  options.dry_run = true;
  const Result<Json> made = client_->Create(kConfigMaps, ConfigMap("a"), options, Soon());
  EXPECT_TRUE(made.ok()) << made.status().ToString();
  EXPECT_EQ(client_->Get(kConfigMaps, Key("a"), Soon()).status().code(), StatusCode::kNotFound);
}

TEST_P(ClientContract, StatusAndSpecAreWrittenApart) {
  DefineWidgets();
  Json object = Widget("w", {{"n", 1}});
  object["status"]["phase"] = "ignored";
  Json stored = Make(kWidgets, object);
  EXPECT_FALSE(stored.contains("status")) << "create takes no status";
  EXPECT_EQ(stored["metadata"]["generation"], 1);

  WriteOptions status;
  status.subresource = "status";
  stored["status"]["phase"] = "Running";
  stored["spec"]["n"] = 77;
  stored = client_->Update(kWidgets, stored, status, Soon()).value();
  EXPECT_EQ(stored["status"]["phase"], "Running");
  EXPECT_EQ(stored["spec"]["n"], 1) << "a status write leaves the spec";
  EXPECT_EQ(stored["metadata"]["generation"], 1);

  stored["spec"]["n"] = 2;
  stored["status"]["phase"] = "Lost";
  stored = client_->Update(kWidgets, stored, {}, Soon()).value();
  EXPECT_EQ(stored["status"]["phase"], "Running") << "and the other way round";
  EXPECT_EQ(stored["spec"]["n"], 2);
  EXPECT_EQ(stored["metadata"]["generation"], 2);

  stored["metadata"]["labels"]["x"] = "y";
  stored = client_->Update(kWidgets, stored, {}, Soon()).value();
  EXPECT_EQ(stored["metadata"]["generation"], 2) << "labels are no change of what is wanted";
}

TEST_P(ClientContract, FinalizersHoldAnObjectUntilTheLastIsGone) {
  DefineWidgets();
  Make(kWidgets, Widget("w"));
  ASSERT_TRUE(kube::AddFinalizer(*client_, kWidgets, Key("w"), "contract.paceline.dev/a", Soon()).ok());
  ASSERT_TRUE(kube::AddFinalizer(*client_, kWidgets, Key("w"), "contract.paceline.dev/b", Soon()).ok());
  ASSERT_TRUE(client_->Delete(kWidgets, Key("w"), {}, Soon()).ok());
  EXPECT_TRUE(kube::IsBeingDeleted(Read(kWidgets, "w")));
  EXPECT_EQ(kube::AddFinalizer(*client_, kWidgets, Key("w"), "contract.paceline.dev/c", Soon()).status().code(),
            StatusCode::kAborted);
  const Json late = {{{"op", "add"}, {"path", "/metadata/finalizers/-"}, {"value", "contract.paceline.dev/c"}}};
  EXPECT_EQ(PatchCode(kWidgets, "w", PatchType::kJson, late), StatusCode::kInvalidArgument) << last_message_;
  ASSERT_TRUE(kube::RemoveFinalizer(*client_, kWidgets, Key("w"), "contract.paceline.dev/a", Soon()).ok());
  EXPECT_EQ(Read(kWidgets, "w")["metadata"]["finalizers"], Json({"contract.paceline.dev/b"}));
  ASSERT_TRUE(kube::RemoveFinalizer(*client_, kWidgets, Key("w"), "contract.paceline.dev/b", Soon()).ok());
  EXPECT_EQ(client_->Get(kWidgets, Key("w"), Soon()).status().code(), StatusCode::kNotFound);
}

// Four writers, ten increments each, all on one object: none is lost.
TEST_P(ClientContract, ConflictRetryLosesNoUpdate) {
  DefineWidgets();
  Make(kWidgets, Widget("w", {{"n", 0}}));
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(NewClient());
  std::vector<std::thread> writers;
  for (auto& client : clients) {
    writers.emplace_back([&] {
      for (int i = 0; i < 10;) {
        const Status done = kube::UpdateWithRetry(
                                *client, kWidgets, Key("w"), "status",
                                [](Json& object) {
                                  Json& status = object["status"];  // null until the first write
                                  const int before = status.is_object() ? status.value("n", 0) : 0;
                                  status["n"] = before + 1;
                                  return Status();
                                },
                                Soon())
                                .status();
        if (done.ok()) {
          ++i;
        } else {
          ASSERT_EQ(done.code(), StatusCode::kAborted) << done.ToString();
        }
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(Read(kWidgets, "w")["status"]["n"], 40);
}

TEST_P(ClientContract, CutOffDeadlineIsDeadlineExceeded) {
  const Deadline over = Deadline::At(clock_.Now() - std::chrono::seconds(1));
  EXPECT_EQ(client_->Get(kConfigMaps, Key("a"), over).status().code(), StatusCode::kDeadlineExceeded);
}

PACELINE_CONTRACT(ClientContract);

}  // namespace
}  // namespace paceline::contract
