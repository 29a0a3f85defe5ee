#include "tests/fakes/child_program.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>

namespace paceline::fakes {

ChildProgram StartProgram(std::vector<std::string> words, const std::function<void()>& before_exec) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    // As the first process of a container has them: whoever runs the tests in the background may ignore some.
    for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE}) signal(number, SIG_DFL);
    if (before_exec) before_exec();
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    execv(pointers[0], pointers.data());
    _exit(98);
  }
  close(ends[1]);
  return {pid, UniqueFd(ends[0])};
}

std::string ReadUntil(const ChildProgram& program, const std::string& text) {
  std::string seen;
  char letter;
  while (seen.find(text) == std::string::npos && read(program.out.get(), &letter, 1) == 1) seen += letter;
  return seen;
}

ChildResult Finish(const ChildProgram& program) {
  ChildResult result;
  char buffer[4096];
  for (ssize_t got; (got = read(program.out.get(), buffer, sizeof buffer)) > 0;) {
    result.out.append(buffer, static_cast<size_t>(got));
  }
  int status = 0;
  waitpid(program.pid, &status, 0);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace paceline::fakes
