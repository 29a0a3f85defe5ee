// What `pacectl deps record|restore|explain-key` are told on the command line, and the key that follows from it. All
// three take the same arguments, so that a restore finds what a record left.
//
// Used by the deps commands. MakeRequest blocks for disk and interpreters.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/image_places.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/deps/recorder.h"

namespace CLI {
class App;
}

namespace paceline::cli {

struct DepsArguments {
  std::string command, store, image;
  std::vector<std::string> capture, inputs, environment, secrets, exclude, interpreters{"python3"};
  int64_t epoch = 0;
  bool keeps_times = false;
  deps::TrustFiles trust;  // is_required: a restore demands a good signature
  RegistryAccess registry;
};

// Adds the arguments that go into the key, and the store. `arguments` must outlive the command.
void AddKeyArguments(CLI::App& command, DepsArguments* arguments);
void AddStoreArguments(CLI::App& command, DepsArguments* arguments);

// A request with its key inputs, pinning and environment; `base` is still to be looked at. `variables` are those of
// this process. Capture directories come out absolute, without links and sorted. kInvalidArgument says what to change.
Result<deps::RecordRequest> MakeRequest(const DepsArguments& arguments, const std::string& ns,
                                        const std::map<std::string, std::string>& variables, const Clock& clock);

// Absolute, sorted, once each, without links, also when the last parts are not there yet. kInvalidArgument for one that
// is no directory or lies in another.
Result<std::vector<std::string>> ResolveRoots(const std::vector<std::string>& directories);

// Where recorders of a store meet: in a folder store itself, else on this machine.
std::string LeaseFolderOf(const std::string& store_url);

// "file:///FOLDER" or "/FOLDER" -> "/FOLDER"; "" for another store.
std::string StoreFolder(const std::string& store_url);

// This process's environment.
std::map<std::string, std::string> ProcessEnvironment();

}  // namespace paceline::cli
