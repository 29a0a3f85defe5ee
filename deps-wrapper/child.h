// Children of the wrapper: runs one at a time in a process group of its own, passes signals on to it, reaps whatever
// else ends meanwhile (the wrapper may be process 1 of its container), and ends it at a limit.
//
// Used by main() alone; one thread. Signals are blocked from Begin to End and taken with sigtimedwait, so none is lost.
#pragma once

#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

namespace paceline::deps_wrapper {

struct ChildEnd {
  int code = 0;           // exit code, or 128 and the signal's number
  bool was_late = false;  // it was ended at the limit
  bool cannot_run = false;
  std::string problem;  // why it could not be run
};

class Signals {
 public:
  // Blocks the signals that are passed on.
  Signals();
  // Puts masks and handlers back to what they were, for a program that is started next.
  void Restore() const;

  // Runs `words` (a null pointer at the end) until it ends. `limit_ms` 0: no limit. `environment` null: our own.
  ChildEnd Run(char* const* words, int64_t limit_ms, char* const* environment = nullptr);
  // Waits at most so long for a signal that ends programs; true when one came.
  bool AwaitEnd(int64_t wait_ms);

  // A signal that ends programs came, from outside: 0 when none did.
  int ending() const { return ending_; }

 private:
  // Handles one signal that was taken; true when the child with this id has ended.
  bool Handle(int signal, pid_t child, int* status);

  sigset_t taken_ = {}, before_ = {};
  int ending_ = 0;
};

// Runs a command: its words, or with /bin/sh when it takes a shell.
ChildEnd RunCommand(Signals& signals, const std::string& command, int limit_seconds,
                    char* const* environment = nullptr);

}  // namespace paceline::deps_wrapper
