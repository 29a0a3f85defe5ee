// One recorder per key, and no collector while somebody records: locks on files (flock), which end with whoever holds
// them, however that ends. docs/formats/dependency-snapshot.md, section 3.
//
// Called by the recorder and by `pacectl deps gc`. An object belongs to one thread; its destruction frees the lock.
#pragma once

#include <stop_token>
#include <string>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace paceline::deps {

class Lease {
 public:
  enum class Mode { kShared, kExclusive };
  // Locks `folder`/`name`, both of which are made. Tries until `deadline`; then kAborted, which says who holds it and
  // since when, kCancelled when stopped.
  static Result<Lease> Take(const std::string& folder, const std::string& name, Mode mode, const Clock& clock,
                            Deadline deadline, const std::stop_token& stop = {});

  // Whether somebody holds it exclusively now.
  static bool IsTaken(const std::string& folder, const std::string& name);

 private:
  explicit Lease(UniqueFd file) : file_(std::move(file)) {}

  UniqueFd file_;
};

inline constexpr char kStoreLease[] = "store";

}  // namespace paceline::deps
