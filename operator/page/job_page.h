// The job page: a small read-only web page of the runs of the cluster, for people without Grafana at hand. Runs, the
// startup waterfall, heat maps of the workers in their startup and of the ranks while they train, incidents with their
// evidence, cordoned nodes with their reasons.
//
// The page itself holds no secret and is given to anybody; its data is read with a bearer token that the API server
// judges (access.h). Everything comes from the operator's watch caches, on every replica, but for the ranks that train
// (rank_heat.h). docs/job-page.md.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "lib/kube/cache.h"
#include "lib/net/http_server.h"
#include "operator/page/access.h"

namespace paceline::operator_ {

struct JobPageEnvironment {
  const kube::Store<kube::ObjectView>& runs;
  const kube::Store<kube::ObjectView>& incidents;
  const kube::Store<kube::NodeView>& nodes;
  PageAccess& access;
  // RankHeatSource::Heat, for the routes of runs that exist.
  std::function<std::string(const kube::ObjectKey& run, Deadline deadline)> rank_heat;
};

// Routes for net::HttpServer: "/", "/page.js", "/page.css", "/api/runs?namespace=", "/api/run?namespace=&name=",
// "/api/ranks?namespace=&name=", "/api/nodes". What is passed in must outlive the server.
std::map<std::string, net::Handler> JobPageRoutes(const JobPageEnvironment& environment);

// What the browser gets: page_html.cc, page_style.cc, page_script.cc.
std::string_view PageHtml();
std::string_view PageStyle();
std::string_view PageScript();

}  // namespace paceline::operator_
