// What to do about each class of cause that an Incident names, for events, the job page and pacectl. Pure; thread-safe.
#pragma once

#include <string_view>
#include <vector>

#include "lib/api/advice.h"

namespace paceline::api {

// `category` as in Incident.status.verdict.category and in what pacectl prints; a row for kUnknown for any other text.
const Advice& VerdictAdvice(std::string_view category);

// All of them, for docs/messages.md and the job page.
std::vector<Advice> VerdictMessages();

}  // namespace paceline::api
