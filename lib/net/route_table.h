// Finds the handler for a request's method and path. Routes are written as HttpServer::Start describes. Immutable, so
// thread-safe; pure.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "lib/net/http_server.h"

namespace paceline::net {

class RouteTable {
 public:
  struct Match {
    const Handler* handler = nullptr;  // null: 404, or 405 when `allowed_methods` says what would do
    std::string allowed_methods;       // "GET, HEAD"
  };

  // kInvalidArgument for a key that is no "[METHOD ]/path" or a null handler.
  static Result<RouteTable> Make(std::map<std::string, Handler> routes);

  // `path` is decoded. The returned pointer lives as long as the table.
  Match Find(std::string_view method, std::string_view path) const;

 private:
  // Methods of one path or prefix; "" stands for every method.
  using Methods = std::map<std::string, Handler, std::less<>>;
  std::map<std::string, Methods, std::less<>> paths_;
};

}  // namespace paceline::net
