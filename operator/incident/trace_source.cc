#include "operator/incident/trace_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "analysis/tables_json.h"
#include "lib/net/http_client.h"

namespace paceline::operator_ {
namespace {

constexpr size_t kMaxThreads = 32;
constexpr size_t kMaxAnswerBytes = 64 << 20;

class AgentTraceSource final : public TraceSource {
 public:
  explicit AgentTraceSource(const Clock& clock) : clock_(clock) {}

  analysis::Tables TablesOf(const kube::ObjectKey& run, const std::vector<TracedNode>& nodes, Deadline deadline,
                            std::stop_token stop) override {
    std::vector<Result<analysis::Tables>> answers(nodes.size(), UnavailableError("not asked"));
    std::atomic<size_t> next = 0;
    const auto work = [&] {
      for (size_t i = next++; i < nodes.size(); i = next++) answers[i] = Ask(run, nodes[i], deadline, stop);
    };
    {
      std::vector<std::jthread> threads;
      for (size_t i = 1; i < std::min(kMaxThreads, nodes.size()); ++i) threads.emplace_back(work);
      work();
    }
    analysis::Tables all;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (answers[i].ok()) {
        analysis::Append(*std::move(answers[i]), all);
      } else {
        all.missing.push_back(fmt::format("{}: {}", nodes[i].name, answers[i].status().message()));
      }
    }
    return all;
  }

 private:
  Result<analysis::Tables> Ask(const kube::ObjectKey& run, const TracedNode& node, Deadline deadline,
                               std::stop_token stop) const {
    if (node.address.empty()) return UnavailableError("its agent has told no address");
    net::HttpClientOptions options;
    options.base_url = "http://" + node.address;
    options.retry.max_attempts = 2;
    options.connect_timeout = std::chrono::seconds(1);
    options.max_body_bytes = kMaxAnswerBytes;
    options.user_agent = "paceline-operator";
    ASSIGN_OR_RETURN(const auto client, net::NewHttpClient(std::move(options), clock_));
    net::HttpRequest request;
    request.target = fmt::format("/v1/traces/{}/{}/tables", net::UrlEncode(run.ns), net::UrlEncode(run.name));
    ASSIGN_OR_RETURN(const net::HttpResponse response, client->Send(request, deadline, std::move(stop)));
    if (response.status != 200) return net::HttpStatusToStatus(response.status, "its agent");
    ASSIGN_OR_RETURN(analysis::Tables tables, analysis::ParseTables(response.body));
    // An agent speaks for its own node only.
    for (analysis::ProcessView& process : tables.processes) process.node = node.name;
    return tables;
  }

  const Clock& clock_;
};

}  // namespace

std::unique_ptr<TraceSource> NewAgentTraceSource(const Clock& clock) {
  return std::make_unique<AgentTraceSource>(clock);
}

}  // namespace paceline::operator_
