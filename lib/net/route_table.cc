#include "lib/net/route_table.h"

#include <fmt/format.h>

namespace paceline::net {

Result<RouteTable> RouteTable::Make(std::map<std::string, Handler> routes) {
  RouteTable table;
  for (auto& route : routes) {
    const std::string& key = route.first;
    Handler& handler = route.second;
    const size_t blank = key.find(' ');
    const std::string method = blank == std::string::npos ? "" : key.substr(0, blank);
    const std::string path = blank == std::string::npos ? key : key.substr(blank + 1);
    if (path.empty() || path.front() != '/' || handler == nullptr || blank == 0) {
      return InvalidArgumentError(fmt::format("route \"{}\" is not \"[METHOD ]/path\" with a handler", key));
    }
    table.paths_[path].emplace(method, std::move(handler));
  }
  return table;
}

RouteTable::Match RouteTable::Find(std::string_view method, std::string_view path) const {
  auto found = paths_.find(path);
  // The longest prefix that ends in '/': cut the path back one segment at a time.
  for (size_t end = path.rfind('/'); found == paths_.end() && end != std::string_view::npos;) {
    found = paths_.find(path.substr(0, end + 1));
    end = end == 0 ? std::string_view::npos : path.rfind('/', end - 1);
  }
  if (found == paths_.end()) return {};
  const Methods& methods = found->second;
  auto entry = methods.find(method);
  if (entry == methods.end() && method == "HEAD") entry = methods.find("GET");
  if (entry == methods.end()) entry = methods.find("");
  if (entry != methods.end()) return {&entry->second, ""};
  Match match;
  for (const auto& [name, handler] : methods) {
    match.allowed_methods += (match.allowed_methods.empty() ? "" : ", ") + name + (name == "GET" ? ", HEAD" : "");
  }
  return match;
}

}  // namespace paceline::net
