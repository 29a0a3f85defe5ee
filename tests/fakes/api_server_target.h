// The parsed URL of a request to the fake API server. Private to it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/fakes/api_server.h"

namespace paceline::fakes {

struct ApiServer::Target {
  std::string path;
  const kube::Resource* resource = nullptr;  // null: not an object's path, or not served
  bool is_core_event = false;                // core/v1 events are a view of events.k8s.io
  kube::ObjectKey key;
  std::string subresource;
  std::map<std::string, std::string> query;

  std::string Query(const std::string& name) const {
    auto it = query.find(name);
    return it == query.end() ? "" : it->second;
  }
  bool Flag(const std::string& name) const {
    const std::string value = Query(name);
    return value == "1" || value == "true";
  }
};

// An object as `target` shows it.
Json Present(bool as_core_event, const Json& stored);
// And back, for writes.
Json Absorb(bool as_core_event, const Json& given);

net::HttpResponse ToResponse(const Reply& reply);

}  // namespace paceline::fakes
