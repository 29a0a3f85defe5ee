// The JSON of trace tables and verdicts, docs/formats/trace-tables.md.
//
// Written by agents, read by the operator and pacectl: documents come from other machines and are not trusted. Pure
// functions, any thread.
#pragma once

#include <string_view>

#include "analysis/trace_model.h"
#include "lib/base/json.h"

namespace paceline::analysis {

Json WriteTables(const Tables& tables);
Json WriteVerdict(const Verdict& verdict);

// kInvalidArgument names what is wrong and where; kUnimplemented for another version. Places that point nowhere become
// -1. Memory is bounded by the limits of the format.
Result<Tables> ReadTables(const Json& json);
// Of a text.
Result<Tables> ParseTables(std::string_view text);

// Joins another agent's answer to `all`.
void Append(Tables more, Tables& all);

}  // namespace paceline::analysis
