#include "snapshotter/control_loop.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>

#include "lib/base/local_socket.h"
#include "lib/base/unique_fd.h"

namespace paceline::snapshotter {
namespace {

constexpr size_t kMaxLineBytes = 128 << 10;  // a list of peers is the longest
constexpr std::chrono::seconds kClientLimit{5};

}  // namespace

void RunControlLoop(int listener, const ControlHandler& handler, const Clock& clock, std::stop_token stop) {
  const UniqueFd end(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const std::stop_callback wake(stop, [&end] {
    // An eventfd takes a 1 unless it is full, and then it is readable all the same.
    [[maybe_unused]] const int result = eventfd_write(end.get(), 1);
  });
  while (!stop.stop_requested()) {
    pollfd wanted[] = {{.fd = listener, .events = POLLIN, .revents = 0},
                       {.fd = end.get(), .events = POLLIN, .revents = 0}};
    if (poll(wanted, 2, -1) < 0 && errno != EINTR) return;
    if (wanted[0].revents == 0) continue;
    const Result<UniqueFd> client = AcceptLocal(listener);
    if (!client.ok()) continue;
    const Result<std::string> line =
        ReceiveLine(client->get(), kMaxLineBytes, clock, Deadline::After(clock, kClientLimit));
    if (!line.ok()) continue;
    // A client that has gone meanwhile misses nothing of ours.
    SendText(client->get(), handler(*line), clock, Deadline::After(clock, kClientLimit)).IgnoreError();
  }
}

}  // namespace paceline::snapshotter
