// The words of events, conditions and commands: for every reason what happened and to whom, what it costs, and what to
// do, in one table a program, so that no message forgets one of them and docs/messages.md can be written from the code.
// Plain values; thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace paceline::api {

struct Advice {
  std::string_view where;     // "TrainingRun, condition Progressing"
  std::string_view reason;    // "ImagePullBackOff": what machines and `kubectl get events` show
  std::string_view happened;  // to whom and what, in general; a message says it with names and numbers
  std::string_view cost;      // empty: nothing is lost
  std::string_view action;    // empty: nothing is to be done
};

// "WHAT (COST; ACTION)", without the parts that are empty: `what` is this one case, with its names and numbers.
std::string Say(const Advice& advice, std::string_view what);

}  // namespace paceline::api
