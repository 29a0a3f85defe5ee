#include "lib/api/crd.h"

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "lib/api/codec.h"
#include "tests/api/case_file.h"

namespace paceline::api {
namespace {

const std::string kRoot = PACELINE_SOURCE_DIR;

TEST(Crd, ChartAndReferenceAreWhatTheGeneratorWrites) {
  for (const KindInfo& kind : kAllKinds) {
    const std::string path = kRoot + "/deploy/helm/paceline/templates/crds/" + std::string(kind.plural) + ".yaml";
    EXPECT_EQ(ReadFile(path), CrdTemplate(kind)) << "run: paceline-crdgen chart deploy/helm/paceline/templates/crds";
  }
  EXPECT_EQ(ReadFile(kRoot + "/docs/api.md"), ApiReference()) << "run: paceline-crdgen docs docs/api.md";
}

Json FromYaml(const YAML::Node& node) {
  if (node.IsMap()) {
    Json map = Json::object();
    for (const auto& entry : node) map[entry.first.as<std::string>()] = FromYaml(entry.second);
    return map;
  }
  if (node.IsSequence()) {
    Json list = Json::array();
    for (const YAML::Node& item : node) list.push_back(FromYaml(item));
    return list;
  }
  // Quoted scalars carry the tag "!": they are text whatever they look like.
  if (node.Tag() == "!") return node.as<std::string>();
  const Json parsed = Json::parse(node.as<std::string>(), nullptr, false);
  return parsed.is_discarded() ? Json(node.as<std::string>()) : parsed;
}

TEST(Crd, YamlReadsBackAsTheSameDefinition) {
  for (const KindInfo& kind : kAllKinds) {
    EXPECT_EQ(FromYaml(YAML::Load(ToYaml(MakeCrd(kind)))), *CustomResourceDefinition(kind.kind)) << kind.kind;
  }
  const OrderedJson odd = {{"a b", {{"list", {1, {{"x", "true"}, {"y", nullptr}}, {"nested"}, "no"}}}},
                           {"empty", Json::array()}};
  EXPECT_EQ(FromYaml(YAML::Load(ToYaml(odd))), Json(odd));
}

// Walks a schema and calls `visit` for each node below properties and items.
template <typename Visit>
void Walk(const OrderedJson& schema, const std::string& path, Visit visit) {
  visit(schema, path);
  if (schema.contains("properties")) {
    for (const auto& [name, field] : schema["properties"].items()) Walk(field, path + "." + name, visit);
  }
  if (schema.contains("items")) Walk(schema["items"], path + "[]", visit);
}

TEST(Crd, EveryFieldHasATypeAndEveryOwnFieldADescription) {
  for (const KindInfo& kind : kAllKinds) {
    const OrderedJson crd = MakeCrd(kind);
    EXPECT_EQ(crd["spec"]["names"]["kind"], std::string(kind.kind));
    const OrderedJson& root = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    std::set<std::string> paths;
    Walk(root, "", [&](const OrderedJson& schema, const std::string& path) {
      EXPECT_TRUE(paths.insert(path).second) << path;
      EXPECT_TRUE(schema.contains("type") || schema.contains("x-kubernetes-int-or-string")) << kind.kind << path;
      const bool is_ours = path.find(".template.") == std::string::npos && path.find("[]") == std::string::npos &&
                           (path.rfind(".spec", 0) == 0 || path.rfind(".status", 0) == 0);
      EXPECT_TRUE(!is_ours || !schema.value("description", "").empty()) << kind.kind << path;
      EXPECT_TRUE(schema.value("type", "") != "array" || schema.contains("x-kubernetes-list-type"))
          << kind.kind << path;
    });
    EXPECT_TRUE(paths.count(".spec")) << kind.kind;
    EXPECT_TRUE(paths.count(".status.conditions")) << kind.kind;
  }
}

// A path that picks an item of a list by a field of it, `a[?(@.b=="C")].d`, needs `a[].d`, `a[].b`, and where those are
// all the values that `b` can have, C among them.
void ExpectIsThere(const std::map<std::string, OrderedJson>& fields, const std::string& path) {
  static const std::regex kPick(R"re(\[\?\(@\.(\w+)=="(\w+)"\)\])re");
  EXPECT_TRUE(fields.count(std::regex_replace(path, kPick, "[]"))) << path;
  std::smatch pick;
  if (!std::regex_search(path, pick, kPick)) return;
  const auto key = fields.find(pick.prefix().str() + "[]." + pick[1].str());
  ASSERT_NE(key, fields.end()) << path;
  const OrderedJson values = key->second.value("enum", OrderedJson::array());
  EXPECT_TRUE(values.empty() || std::find(values.begin(), values.end(), pick[2].str()) != values.end()) << path;
}

TEST(Crd, PrinterColumnsNameFieldsThatAreThere) {
  for (const KindInfo& kind : kAllKinds) {
    const OrderedJson crd = MakeCrd(kind);
    const OrderedJson& version = crd["spec"]["versions"][0];
    std::map<std::string, OrderedJson> fields = {{".metadata.creationTimestamp", {}}};
    Walk(version["schema"]["openAPIV3Schema"], "",
         [&](const OrderedJson& schema, const std::string& path) { fields[path] = schema; });
    for (const OrderedJson& column : version["additionalPrinterColumns"]) {
      SCOPED_TRACE(kind.kind);
      ExpectIsThere(fields, column["jsonPath"].get<std::string>());
    }
  }
}

}  // namespace
}  // namespace paceline::api
