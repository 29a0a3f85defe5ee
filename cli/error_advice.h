// What an error that ends pacectl cost, and what a person can do about it, by its kind: the message itself says what
// happened and to what. And the same for what goes wrong and does not end it. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/api/advice.h"
#include "lib/base/status.h"

namespace paceline::cli {

// For any code but kOk.
const api::Advice& ErrorAdvice(StatusCode code);

// Of a command line that cannot be understood.
extern const api::Advice kUsageAdvice;
// Of what the command goes on after.
extern const api::Advice kNotRecordedAdvice;
extern const api::Advice kBrokenSnapshotAdvice;
extern const api::Advice kNoAnswerAdvice;

// All of them, for docs/messages.md.
std::vector<api::Advice> ErrorMessages();

// "pacectl: MESSAGE" and a line with cost and action.
std::string RenderError(const Status& status);
// The message as it is, and that line.
std::string RenderNotice(const api::Advice& advice, std::string_view message);

}  // namespace paceline::cli
