#include "lib/api/crd.h"

#include "lib/api/crd_columns.h"
#include "lib/api/dependency_snapshot_fields.h"
#include "lib/api/field_schema.h"
#include "lib/api/image_profile_fields.h"
#include "lib/api/incident_fields.h"
#include "lib/api/node_plan_fields.h"
#include "lib/api/straggler_policy_fields.h"
#include "lib/api/training_job_fields.h"
#include "lib/api/training_run_fields.h"

namespace paceline::api {

namespace {

struct KindDescription {
  std::string_view kind;
  std::string_view doc;
  OrderedJson (*schema)();
};

constexpr KindDescription kDescriptions[] = {
    {"TrainingJob",
     "A training job of a fixed number of workers that start together, with everything that makes its start fast.",
     StructSchema<TrainingJob>},
    {"TrainingRun", "One start of a training job of any kind, and where its time went.", StructSchema<TrainingRun>},
    {"NodePlan", "What one node is to do and what it can do. The object has the node's name.", StructSchema<NodePlan>},
    {"ImageProfile", "What is known of one image for one use: its block image, and which parts a start reads.",
     StructSchema<ImageProfile>},
    {"DependencySnapshot", "The recorded result of an install command.", StructSchema<DependencySnapshot>},
    {"StragglerPolicy", "When a slow node is blamed, what may be done to it, and the limits on doing it.",
     StructSchema<StragglerPolicy>},
    {"Incident", "A stall or a straggler: what set it off, what Paceline thinks it was, and what was done.",
     StructSchema<Incident>},
};

const KindDescription& DescriptionOf(std::string_view kind) {
  for (const KindDescription& description : kDescriptions) {
    if (description.kind == kind) return description;
  }
  return kDescriptions[0];  // kAllKinds and the list above are held equal by a test
}

OrderedJson Columns(const std::vector<Column>& columns) {
  OrderedJson list = OrderedJson::array();
  for (const Column& column : columns) {
    OrderedJson entry{{"name", std::string(column.name)},
                      {"type", std::string(column.type)},
                      {"jsonPath", std::string(column.path)},
                      {"description", std::string(column.doc)}};
    if (column.priority != 0) entry["priority"] = column.priority;
    list.push_back(std::move(entry));
  }
  return list;
}

// The schema with the parts that the API server knows by itself.
OrderedJson RootSchema(const KindDescription& description) {
  OrderedJson fields = description.schema();
  OrderedJson root{{"description", std::string(description.doc)}};
  OrderedJson properties{
      {"apiVersion", {{"type", "string"}}}, {"kind", {{"type", "string"}}}, {"metadata", {{"type", "object"}}}};
  properties["spec"] = std::move(fields["properties"]["spec"]);
  properties["status"] = std::move(fields["properties"]["status"]);
  fields["properties"] = std::move(properties);
  for (auto it = fields.begin(); it != fields.end(); ++it) root[it.key()] = std::move(it.value());
  return root;
}

}  // namespace

OrderedJson MakeCrd(const KindInfo& kind) {
  const KindDescription& description = DescriptionOf(kind.kind);
  OrderedJson names{{"kind", std::string(kind.kind)},
                    {"listKind", std::string(kind.kind) + "List"},
                    {"plural", std::string(kind.plural)},
                    {"singular", std::string(kind.singular)}};
  if (!kind.short_name.empty()) names["shortNames"] = OrderedJson::array({std::string(kind.short_name)});
  names["categories"] = OrderedJson::array({"paceline"});
  OrderedJson version{{"name", std::string(kVersion)},
                      {"served", true},
                      {"storage", true},
                      {"subresources", {{"status", OrderedJson::object()}}},
                      {"additionalPrinterColumns", Columns(PrinterColumns(kind.kind))},
                      {"schema", {{"openAPIV3Schema", RootSchema(description)}}}};
  return {{"apiVersion", "apiextensions.k8s.io/v1"},
          {"kind", "CustomResourceDefinition"},
          {"metadata", {{"name", std::string(kind.plural) + "." + std::string(kGroup)}}},
          {"spec",
           {{"group", std::string(kGroup)},
            {"names", names},
            {"scope", kind.scope == Scope::kCluster ? "Cluster" : "Namespaced"},
            {"versions", OrderedJson::array({version})}}}};
}

}  // namespace paceline::api
