// containerd's filter expressions over snapshots: kind==committed,labels."a/b"==c and the like. A list of filters is
// an "or", the selectors of one an "and"; the grammar is containerd's (its package filters). Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "snapshotter/plugin/snapshot_record.h"

namespace paceline::snapshotter {

class SnapshotFilter {
 public:
  // kInvalidArgument names the place. No filter at all, or an empty one, lets everything through.
  static Result<SnapshotFilter> Parse(const std::vector<std::string>& filters);

  bool Matches(const SnapshotRecord& snapshot) const;

  struct Selector {
    enum class Operator { kPresent, kEqual, kNotEqual, kMatches };
    std::vector<std::string> path;
    Operator op = Operator::kPresent;
    std::string value;
  };

 private:
  std::vector<std::vector<Selector>> alternatives_;  // empty: everything
};

}  // namespace paceline::snapshotter
