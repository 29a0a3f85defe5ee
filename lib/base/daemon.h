// The way of a program into the background: the one that was started stays until the service works, or has failed, and
// passes that on; the service goes on without its terminal. For main functions, before any thread exists.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "lib/base/status.h"
#include "lib/base/unique_fd.h"

namespace paceline {

// Forks. In the child, a session of its own, gives what `serve` returns; `word` is for LeaveTerminal. In the parent
// waits for that, prints the child's summary and gives 0, or the exit code of a child that ended before. 1 when there
// can be no child.
int RunInBackground(const std::function<int(UniqueFd word)>& serve);

// Called by the service once it works: standard output and error go to `log_file` (to nobody for "") from now on, and
// the parent ends with `summary`, a line, or with no word for "". Fails when the log cannot be opened.
Status LeaveTerminal(const std::string& log_file, std::string_view summary, UniqueFd& word);

}  // namespace paceline
