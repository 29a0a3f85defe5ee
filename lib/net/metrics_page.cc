#include "lib/net/metrics_page.h"

#include <map>
#include <utility>

namespace paceline::net {
namespace {

constexpr std::string_view kTotal = "_total";

template <typename Take>
void ForEachLine(std::string_view text, const Take& take) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    take(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
}

// "# TYPE name counter": keyword, name and what comes after; empty for any other line.
struct Comment {
  std::string_view keyword, name, rest;
};

Comment ParseComment(std::string_view line) {
  Comment comment;
  if (line.substr(0, 2) != "# ") return comment;
  line.remove_prefix(2);
  const size_t first = line.find(' ');
  if (first == std::string_view::npos) return comment;
  const size_t second = line.find(' ', first + 1);
  comment.keyword = line.substr(0, first);
  comment.name = line.substr(first + 1, second == std::string_view::npos ? second : second - first - 1);
  if (second != std::string_view::npos) comment.rest = line.substr(second + 1);
  if (comment.keyword != "TYPE" && comment.keyword != "HELP") return {};
  return comment;
}

bool EndsInTotal(std::string_view name) {
  return name.size() > kTotal.size() && name.substr(name.size() - kTotal.size()) == kTotal;
}

// Unlike the text format, OpenMetrics wants quotes in help escaped.
std::string EscapeQuotes(std::string_view help) {
  std::string out;
  for (const char c : help) {
    if (c == '"') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::string AsOpenMetrics(std::string_view text) {
  std::map<std::string_view, std::string_view> types;
  ForEachLine(text, [&](std::string_view line) {
    const Comment comment = ParseComment(line);
    if (comment.keyword == "TYPE") types[comment.name] = comment.rest;
  });
  std::string out;
  out.reserve(text.size() + 16);
  ForEachLine(text, [&](std::string_view line) {
    if (line.empty()) return;
    const Comment comment = ParseComment(line);
    if (comment.keyword.empty()) {
      if (line[0] != '#') out.append(line).append("\n");  // a sample; remarks have no place in OpenMetrics
      return;
    }
    const auto type = types.find(comment.name);
    const bool is_counter = type != types.end() && type->second == "counter" && EndsInTotal(comment.name);
    std::string_view name = comment.name;
    if (is_counter) name.remove_suffix(kTotal.size());
    out.append("# ").append(comment.keyword).append(" ").append(name).append(" ");
    if (comment.keyword == "HELP") {
      out += EscapeQuotes(comment.rest);
    } else if (comment.rest == "untyped" || (comment.rest == "counter" && !is_counter)) {
      out += "unknown";  // a counter's samples must end in _total there
    } else {
      out += comment.rest;
    }
    out += "\n";
  });
  return out + "# EOF\n";
}

ServerResponse MetricsPage(const ServerRequest& request, std::string text) {
  const auto accept = request.headers.find("Accept");
  const bool is_open =
      accept != request.headers.end() && accept->second.find("application/openmetrics-text") != std::string::npos;
  ServerResponse response;
  response.content_type = is_open ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                  : "text/plain; version=0.0.4; charset=utf-8";
  response.body = is_open ? AsOpenMetrics(text) : std::move(text);
  return response;
}

}  // namespace paceline::net
