// Makes the CustomResourceDefinitions and their documentation from the field descriptions. Used by codec.cc and by the
// program paceline-crdgen, which writes the chart's files and docs/api.md. Internal to lib/api.
#pragma once

#include <string>

#include "lib/api/fields.h"
#include "lib/api/names.h"

namespace paceline::api {

// The CustomResourceDefinition of one of kAllKinds, keys in the order in which people read them.
OrderedJson MakeCrd(const KindInfo& kind);

// `value` as block-style YAML, indented by `indent` spaces, with a line end after each line.
std::string ToYaml(const OrderedJson& value, int indent = 0);

// The CRD as a template of the chart.
std::string CrdTemplate(const KindInfo& kind);

// docs/api.md: every field of every kind with type, default, limits and meaning.
std::string ApiReference();

}  // namespace paceline::api
