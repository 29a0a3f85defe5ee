#include "lib/api/crd.h"

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

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

TEST(Crd, PrinterColumnsNameFieldsThatAreThere) {
  for (const KindInfo& kind : kAllKinds) {
    const OrderedJson crd = MakeCrd(kind);
    const OrderedJson& version = crd["spec"]["versions"][0];
    std::set<std::string> paths = {".metadata.creationTimestamp", ".status.conditions[?(@.type==\"Ready\")].status"};
    Walk(version["schema"]["openAPIV3Schema"], "",
         [&](const OrderedJson&, const std::string& path) { paths.insert(path); });
    for (const OrderedJson& column : version["additionalPrinterColumns"]) {
      EXPECT_TRUE(paths.count(column["jsonPath"].get<std::string>())) << kind.kind << " " << column["jsonPath"];
    }
  }
}

}  // namespace
}  // namespace paceline::api
