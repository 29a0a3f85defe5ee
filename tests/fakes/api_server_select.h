// Label and field selectors of the Kubernetes API, for the fake API server. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/kube/resource.h"

namespace paceline::fakes {

class Selector {
 public:
  // kInvalidArgument as the server's 400: bad syntax, or a field that this resource cannot be selected by.
  static Result<Selector> Parse(const kube::Resource& resource, std::string_view labels, std::string_view fields);

  bool Matches(const nlohmann::json& object) const;

 private:
  enum class Operator { kIn, kNotIn, kExists, kNotExists };
  struct Requirement {
    std::string key;
    Operator op;
    std::vector<std::string> values;
  };
  struct FieldRequirement {
    std::vector<std::string> path;
    std::string value;
    bool is_equal;
  };

  static Result<Requirement> ParseLabel(std::string_view text);

  std::vector<Requirement> labels_;
  std::vector<FieldRequirement> fields_;
};

}  // namespace paceline::fakes
