#include "fuse-hdfs/control_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <sstream>
#include <thread>

#include "lib/base/local_socket.h"
#include "lib/base/unique_fd.h"

namespace paceline::fuse_hdfs {
namespace {

constexpr size_t kMaxLineBytes = 4096;
constexpr size_t kMaxAnswerBytes = 64 << 20;
constexpr Duration kClientLimit = std::chrono::seconds(5);

class SocketServer final : public ControlServer {
 public:
  SocketServer(std::string path, UniqueFd listener, const Clock& clock, ControlHandler handler)
      : path_(std::move(path)),
        listener_(std::move(listener)),
        end_(eventfd(0, EFD_CLOEXEC)),
        clock_(clock),
        handler_(std::move(handler)),
        thread_([this] { Serve(); }) {}

  ~SocketServer() override {
    const uint64_t one = 1;
    // An eventfd takes a 1 unless it is full, and then it is readable all the same.
    [[maybe_unused]] const ssize_t written = write(end_.get(), &one, sizeof one);
    thread_.join();
    unlink(path_.c_str());
  }

 private:
  void Serve() {
    while (true) {
      pollfd wanted[] = {{.fd = listener_.get(), .events = POLLIN, .revents = 0},
                         {.fd = end_.get(), .events = POLLIN, .revents = 0}};
      if (poll(wanted, 2, -1) < 0 && errno != EINTR) return;
      if (wanted[1].revents != 0) return;
      if (wanted[0].revents == 0) continue;
      const Result<UniqueFd> client = AcceptLocal(listener_.get());
      if (client.ok()) Answer(client->get());
    }
  }

  void Answer(int client) {
    const Deadline deadline = Deadline::After(clock_, kClientLimit);
    Result<std::string> line = ReceiveLine(client, kMaxLineBytes, clock_, deadline);
    if (!line.ok()) return;
    std::istringstream text(*line);
    std::vector<std::string> words;
    for (std::string word; text >> word;) words.push_back(word);
    if (words.empty()) return;
    const std::string answer = handler_(words);
    // A command may take long; a client that has gone meanwhile misses nothing of ours.
    SendText(client, answer, clock_, Deadline::After(clock_, kClientLimit)).IgnoreError();
  }

  const std::string path_;
  const UniqueFd listener_, end_;
  const Clock& clock_;
  const ControlHandler handler_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<ControlServer>> ControlServer::Start(const std::string& path, const Clock& clock,
                                                            ControlHandler handler) {
  ASSIGN_OR_RETURN(UniqueFd listener, ListenLocal(path));
  return std::unique_ptr<ControlServer>(new SocketServer(path, std::move(listener), clock, std::move(handler)));
}

Result<std::string> AskControlServer(const std::string& path, const std::string& line, const Clock& clock,
                                     Deadline deadline) {
  Result<std::string> answer = AskLocal(path, line, kMaxAnswerBytes, clock, deadline);
  if (answer.status().code() == StatusCode::kUnavailable) return answer.status().Annotate("no mount serves this");
  return answer;
}

}  // namespace paceline::fuse_hdfs
