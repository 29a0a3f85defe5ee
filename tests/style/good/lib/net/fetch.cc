#include "lib/net/fetch.h"

#include <openssl/ssl.h>

#include <nlohmann/json.hpp>

namespace paceline::net {

// Words in comments and texts are no code: std::mutex, sleep_for, getenv, throw, system_clock::now, catch (...).
Result<std::string> Fetch(const std::string& url, const FetchOptions& options, const Clock& clock) {
  const char* text = "std::mutex sleep_for(1'000) getenv throw \"quoted\" steady_clock::now()";
  const char* raw = R"(catch (...) { "std::lock_guard" })";
  const int many = 1'000'000;
  const char quote = '"';  // an odd quote must not turn the rest of the file into a literal
  if (clock.Now() > TimePoint::max() - options.timeout) return InvalidArgumentError(url);
  return std::string(text) + raw + std::to_string(many) + quote;
}

}  // namespace paceline::net
