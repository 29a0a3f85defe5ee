#include "cli/error_advice.h"

#include <fmt/format.h>

#include <iterator>

namespace paceline::cli {
namespace {

constexpr std::string_view kWhere = "pacectl, on standard error";
constexpr std::string_view kNothingDone = "nothing was done";
constexpr std::string_view kStopped = "the command stopped there; what it had done before stays";

// In the order of StatusCode, without kOk.
constexpr api::Advice kErrors[] = {
    {kWhere, "InvalidArgument", "an argument, or what it names, is not what it has to be", kNothingDone,
     "correct what the message names; --help of the command lists what it takes"},
    {kWhere, "NotFound", "what was named is not there", kNothingDone,
     "see whether name, namespace (-n) and cluster (--context) are the ones that you mean"},
    {kWhere, "AlreadyExists", "what was to be made is there already", kNothingDone, "take another name, or remove it"},
    {kWhere, "PermissionDenied", "the API server, a store or this machine does not let you", kNothingDone,
     "ask for the right that the message names, or do it as somebody who has it"},
    {kWhere, "Aborted", "somebody else changed the same thing meanwhile", kNothingDone, "run the command again"},
    {kWhere, "Unavailable", "something that has to answer does not", kStopped,
     "see whether it runs and can be reached from here, then run the command again; pacectl doctor looks a cluster "
     "over"},
    {kWhere, "DeadlineExceeded", "it took longer than it may", kStopped,
     "run it again, with a longer --timeout where the command has one"},
    {kWhere, "Cancelled", "the command was asked to stop", kStopped, "run it again when it suits"},
    {kWhere, "ResourceExhausted", "there is no room left, or a limit is reached", kStopped,
     "make room, or raise the limit that the message names"},
    {kWhere, "DataLoss", "bytes are not what their digest or length says", "none of them were used",
     "fetch or make them again; look at the disk or store that the message names"},
    {kWhere, "Unimplemented", "this cannot be done with what was named", kNothingDone,
     "the message says what can; a newer pacectl may know more"},
    {kWhere, "Internal", "pacectl met what it holds impossible", kStopped,
     "report it with the command and this message"},
};
static_assert(std::size(kErrors) == static_cast<size_t>(StatusCode::kInternal));

}  // namespace

const api::Advice kUsageAdvice{kWhere, "Usage", "the command line cannot be understood", kNothingDone,
                               "--help of the command lists what it takes"};
const api::Advice kNotRecordedAdvice{kWhere, "NotRecorded", "what an install left could not be kept",
                                     "the install ran all the same, and the next start installs again",
                                     "do what the message says"};
const api::Advice kBrokenSnapshotAdvice{kWhere, "BrokenSnapshot", "a snapshot of the store cannot be read",
                                        "it is left out here, and jobs of its key install instead",
                                        "see what pacectl deps verify says of it; the next recording replaces it"};
const api::Advice kNoAnswerAdvice{kWhere, "NoAnswer", "the agent of a node gave no answer",
                                  "what its ranks did is not in what is printed or written",
                                  "see whether it runs: pacectl doctor"};

const api::Advice& ErrorAdvice(StatusCode code) {
  return kErrors[code == StatusCode::kOk ? std::size(kErrors) - 1 : static_cast<size_t>(code) - 1];
}

std::vector<api::Advice> ErrorMessages() {
  std::vector<api::Advice> all(std::begin(kErrors), std::end(kErrors));
  all.insert(all.end(), {kUsageAdvice, kNotRecordedAdvice, kBrokenSnapshotAdvice, kNoAnswerAdvice});
  return all;
}

std::string RenderError(const Status& status) {
  return RenderNotice(ErrorAdvice(status.code()), "pacectl: " + status.message());
}

std::string RenderNotice(const api::Advice& advice, std::string_view message) {
  return fmt::format("{}\n  ({}; {})\n", message, advice.cost, advice.action);
}

}  // namespace paceline::cli
