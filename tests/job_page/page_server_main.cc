// job-page-server: the operator's job page over made-up data, for tests in a browser.
//   job-page-server WORKERS      prints the port, serves 127.0.0.1 without TLS until its standard input ends
#include <cstdio>
#include <cstdlib>

#include "lib/net/http_server.h"
#include "operator/page/job_page.h"
#include "operator/page/rank_heat.h"
#include "tests/job_page/page_data.h"
#include "tests/job_page/review_transport.h"

int main(int argc, char** argv) {
  using namespace paceline;
  const RealClock clock;
  const auto log = Logger::Discard();
  operator_::ReviewTransport reviews;
  operator_::PageAccess access(reviews, clock);
  operator_::PageData data;
  const int workers = argc > 1 ? std::atoi(argv[1]) : 4;
  operator_::Fill(data, workers);
  const auto ranks = [&](const kube::ObjectKey& run, Deadline) {
    const WallTime now = clock.WallNow();
    const operator_::RunPaces paces = run.name == "llama-0" ? operator_::PacesOf(workers, now) : operator_::RunPaces();
    return DumpJson(operator_::RankHeat(paces, now, {}));
  };
  net::ServerOptions options;
  options.address = "127.0.0.1";
  const auto server = net::HttpServer::Start(
      options, operator_::JobPageRoutes({data.runs, data.incidents, data.nodes, access, ranks}), nullptr, clock, *log);
  if (!server.ok()) {
    std::fprintf(stderr, "job-page-server: %s\n", server.status().ToString().c_str());
    return 1;
  }
  std::printf("%d\n", (*server)->port());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}
