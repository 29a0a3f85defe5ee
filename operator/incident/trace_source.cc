#include "operator/incident/trace_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "analysis/pace_json.h"
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
    auto answers =
        AskAll<analysis::Tables>(nodes.size(), [&](size_t i) { return TablesOfNode(run, nodes[i], deadline, stop); });
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

  PaceAnswers PacesOf(const kube::ObjectKey& run, const std::vector<PaceQuestion>& questions, Deadline deadline,
                      std::stop_token stop) override {
    const auto answers = AskAll<std::vector<analysis::RankPace>>(
        questions.size(), [&](size_t i) { return PacesOfNode(run, questions[i], deadline, stop); });
    PaceAnswers all;
    for (size_t i = 0; i < questions.size(); ++i) {
      if (answers[i].ok()) {
        all.ranks.insert(all.ranks.end(), answers[i]->begin(), answers[i]->end());
      } else if (answers[i].status().code() != StatusCode::kNotFound) {
        all.missing.push_back(fmt::format("{}: {}", questions[i].node.name, answers[i].status().message()));
      }
    }
    return all;
  }

 private:
  // Asks up to kMaxThreads agents at a time; answers are in order.
  template <typename Answer, typename AskOne>
  static std::vector<Result<Answer>> AskAll(size_t count, const AskOne& ask) {
    std::vector<Result<Answer>> answers(count, UnavailableError("not asked"));
    std::atomic<size_t> next = 0;
    const auto work = [&] {
      for (size_t i = next++; i < count; i = next++) answers[i] = ask(i);
    };
    std::vector<std::jthread> threads;
    for (size_t i = 1; i < std::min(kMaxThreads, count); ++i) threads.emplace_back(work);
    work();
    threads.clear();
    return answers;
  }

  Result<std::string> Ask(const kube::ObjectKey& run, const TracedNode& node, std::string_view what, Deadline deadline,
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
    request.target = fmt::format("/v1/traces/{}/{}/{}", net::UrlEncode(run.ns), net::UrlEncode(run.name), what);
    ASSIGN_OR_RETURN(net::HttpResponse response, client->Send(request, deadline, std::move(stop)));
    if (response.status != 200) return net::HttpStatusToStatus(response.status, "its agent");
    return std::move(response.body);
  }

  Result<analysis::Tables> TablesOfNode(const kube::ObjectKey& run, const TracedNode& node, Deadline deadline,
                                        std::stop_token stop) const {
    ASSIGN_OR_RETURN(const std::string body, Ask(run, node, "tables", deadline, std::move(stop)));
    ASSIGN_OR_RETURN(analysis::Tables tables, analysis::ParseTables(body));
    // An agent speaks for its own node only.
    for (analysis::ProcessView& process : tables.processes) process.node = node.name;
    return tables;
  }

  Result<std::vector<analysis::RankPace>> PacesOfNode(const kube::ObjectKey& run, const PaceQuestion& question,
                                                      Deadline deadline, std::stop_token stop) const {
    const std::string what = fmt::format("pace?since={}", question.since.time_since_epoch().count());
    ASSIGN_OR_RETURN(const std::string body, Ask(run, question.node, what, deadline, std::move(stop)));
    ASSIGN_OR_RETURN(std::vector<analysis::RankPace> ranks, analysis::ParsePaces(body));
    for (analysis::RankPace& rank : ranks) rank.node = question.node.name;
    return ranks;
  }

  const Clock& clock_;
};

}  // namespace

std::unique_ptr<TraceSource> NewAgentTraceSource(const Clock& clock) {
  return std::make_unique<AgentTraceSource>(clock);
}

}  // namespace paceline::operator_
