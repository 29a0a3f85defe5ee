// Runs a program and reads what it prints: credential plugins, and what else is a process of its own. Thread-safe,
// blocking.
#pragma once

#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace paceline::kube {

// The standard output of `command` (looked up on PATH when it holds no slash), run without input and with `env` added
// to our environment. kNotFound when there is no such program, kUnavailable with the beginning of its standard error
// when it ends with a failure, kDeadlineExceeded when it had to be killed, kCancelled when it was because of `stop`,
// kResourceExhausted past 1 MiB of output.
Result<std::string> RunProgram(const std::string& command, const std::vector<std::string>& args,
                               const std::vector<std::pair<std::string, std::string>>& env, Deadline deadline,
                               const Clock& clock, std::stop_token stop = {});

}  // namespace paceline::kube
