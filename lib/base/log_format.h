// How a log line looks: the part of logging that is a pure function. Used by log.cc and by the capturing sink of tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/log.h"

namespace paceline {

// "debug", "info", "warn", "error".
std::string_view LogLevelName(LogLevel level);

// `message key=value key="two words"`. Values with anything but plain visible characters are quoted and escaped as in
// JSON; the result is always one line of valid UTF-8.
std::string FormatLogText(std::string_view message, const std::vector<LogField>& fields);

// `"message":"...","key":"value","count":3`: the inside of a JSON object, to be put behind the fields that the writer
// adds (time, level, program). Keys that would hide one of those get a "_" at the end. Always one line of valid UTF-8.
std::string FormatLogJson(std::string_view message, const std::vector<LogField>& fields);

// `text` in double quotes with JSON's escapes; bytes that are not UTF-8 become U+FFFD.
std::string QuoteJson(std::string_view text);

}  // namespace paceline
