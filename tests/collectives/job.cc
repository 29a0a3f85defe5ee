#include "tests/collectives/job.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/collectives/rendezvous.h"

namespace paceline::collectives {

Job::Job(const JobDescription& description) : has_ended_(description.ranks, false) {
  std::vector<UniqueFd> listeners;
  for (uint32_t rank = 0; rank < description.ranks; rank++) {
    listeners.push_back(Listen("127.0.0.1:0").value());
  }
  if (description.slow_link) {
    const std::string target = "127.0.0.1:" + std::to_string(PortOf(listeners[description.slow_link->second]));
    listeners.push_back(Listen("127.0.0.1:0").value());
    for (uint32_t rank = 0; rank < description.ranks; rank++) Start(description, rank, listeners);
    link_ = std::make_unique<SlowLink>(std::move(listeners.back()), target);
    return;
  }
  for (uint32_t rank = 0; rank < description.ranks; rank++) Start(description, rank, listeners);
}

void Job::Start(const JobDescription& description, uint32_t rank, const std::vector<UniqueFd>& listeners) {
  std::string addresses;
  for (uint32_t peer = 0; peer < description.ranks; peer++) {
    const bool is_slow = description.slow_link == std::pair(rank, peer);
    const UniqueFd& listener = is_slow ? listeners.back() : listeners[peer];
    addresses += (peer == 0 ? "127.0.0.1:" : ",127.0.0.1:") + std::to_string(PortOf(listener));
  }
  std::vector<std::string> arguments = {PACELINE_COLLECTIVES_WORKER, "rank=" + std::to_string(rank),
                                        "addresses=" + addresses, "listen-fd=3"};
  arguments.insert(arguments.end(), description.options.begin(), description.options.end());
  if (const auto own = description.of_rank.find(rank); own != description.of_rank.end()) {
    arguments.insert(arguments.end(), own->second.begin(), own->second.end());
  }
  std::vector<std::string> environment = {"RANK=" + std::to_string(rank), "PACELINE_RUN=" + description.run,
                                          "PACELINE_TRACE_DIR=" + description.trace_folder,
                                          "PACELINE_TRACE_BUDGET_PERMILLE=0"};
  std::vector<char*> argument_pointers, environment_pointers;
  for (std::string& argument : arguments) argument_pointers.push_back(argument.data());
  for (std::string& variable : environment) environment_pointers.push_back(variable.data());
  argument_pointers.push_back(nullptr);
  environment_pointers.push_back(nullptr);
  const int listener = listeners[rank].get();
  const pid_t pid = ::fork();
  if (pid == 0) {
    // dup2 onto itself would leave close-on-exec set.
    if (listener == 3 ? ::fcntl(3, F_SETFD, 0) != 0 : ::dup2(listener, 3) != 3) ::_exit(126);
    ::execve(argument_pointers[0], argument_pointers.data(), environment_pointers.data());
    ::_exit(127);
  }
  pids_.push_back(pid);
}

Job::~Job() {
  for (uint32_t rank = 0; rank < pids_.size(); rank++) {
    if (has_ended_[rank]) continue;
    ::kill(pids_[rank], SIGKILL);
    ::waitpid(pids_[rank], nullptr, 0);
  }
}

int Job::WaitFor(uint32_t rank) {
  int status = -1;
  if (!has_ended_[rank] && ::waitpid(pids_[rank], &status, 0) == pids_[rank]) has_ended_[rank] = true;
  return status;
}

bool Job::Wait() {
  bool is_good = true;
  for (uint32_t rank = 0; rank < pids_.size(); rank++) is_good = WaitFor(rank) == 0 && is_good;
  return is_good;
}

void Job::Signal(uint32_t rank, int signal) const { ::kill(pids_[rank], signal); }

pid_t Job::ProxyThreadOf(uint32_t rank) const {
  std::error_code error;
  const std::string tasks = "/proc/" + std::to_string(pids_[rank]) + "/task";
  for (const auto& entry : std::filesystem::directory_iterator(tasks, error)) {
    std::ifstream file(entry.path() / "comm");
    std::string name;
    if (std::getline(file, name) && name.rfind("NCCL Progress", 0) == 0) {
      return static_cast<pid_t>(std::strtol(entry.path().filename().c_str(), nullptr, 10));
    }
  }
  return 0;
}

}  // namespace paceline::collectives
