// What paceline-deps is told: on its command line, which the webhook writes, and by one variable of the pod. The only
// place of the program that reads them. Pure.
#pragma once

#include <string>
#include <vector>

namespace paceline::deps_wrapper {

struct Options {
  std::vector<std::string> sentinels;  // files that are there when the environment is
  std::string key;                     // that they must name; "" for any
  std::string restore, install;        // commands
  int wait_seconds = 0;                // for the sentinels
  int restore_limit_seconds = 600;
  int install_limit_seconds = 0;  // 0: none
  bool supervises = false;        // stays as the parent of the program
  std::string report;             // a file that gets one line of JSON
  bool marks = false;             // after an install the sentinels are written
  std::string answer;             // a file that is waited for after an install: the recorder has seen what there is
  int answer_seconds = 0;
  std::string started;            // a file that is made before the program is started
  std::vector<std::string> only;  // names of variables that the install sees; empty: all
  std::string stage_file;         // of docs/formats/stage-marker.md
  std::vector<char*> program;     // ends with a null pointer, as exec wants it
};

// "" when the arguments make sense, else what is wrong with them. `options.program` points into `argv`.
std::string ReadOptions(int argc, char** argv, char** environment, Options* options);

// The words of a command that needs no shell; empty for one that has something in it that only a shell understands.
std::vector<std::string> PlainWords(const std::string& command);

extern const char kUsage[];

}  // namespace paceline::deps_wrapper
