// job-page-server: the operator's job page over made-up data, for tests in a browser.
//   job-page-server WORKERS      prints the port, serves 127.0.0.1 without TLS until its standard input ends
#include <cstdio>
#include <cstdlib>

#include "lib/net/http_server.h"
#include "operator/page/job_page.h"
#include "tests/job_page/page_data.h"
#include "tests/job_page/review_transport.h"

int main(int argc, char** argv) {
  using namespace paceline;
  const RealClock clock;
  const auto log = Logger::Discard();
  operator_::ReviewTransport reviews;
  operator_::PageAccess access(reviews, clock);
  operator_::PageData data;
  operator_::Fill(data, argc > 1 ? std::atoi(argv[1]) : 4);
  net::ServerOptions options;
  options.address = "127.0.0.1";
  const auto server = net::HttpServer::Start(
      options, operator_::JobPageRoutes({data.runs, data.incidents, data.nodes, access}), nullptr, clock, *log);
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
