// What the process's environment says: the only place of this library that reads it.
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>

#include "lib/base/filesystem.h"
#include "lib/hdfs/hadoop_config.h"

namespace paceline::hdfs {
namespace {

constexpr size_t kMaxConfigBytes = 16 << 20;

std::optional<std::string> Environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::string ConfigDirectory() {
  if (const auto directory = Environment("HADOOP_CONF_DIR"); directory && !directory->empty()) return *directory;
  if (const auto home = Environment("HADOOP_HOME"); home && !home->empty()) return *home + "/etc/hadoop";
  return "/etc/hadoop/conf";
}

}  // namespace

Result<HadoopConfig> LoadHadoopConfig(const std::string& directory) {
  const std::string from = directory.empty() ? ConfigDirectory() : directory;
  HadoopConfig config;
  config.SetEnvironment(Environment);
  const RealFileSystem files;
  int found = 0;
  for (const char* name : {"core-site.xml", "hdfs-site.xml"}) {
    const std::string path = fmt::format("{}/{}", from, name);
    Result<std::string> text = files.ReadFile(path, kMaxConfigBytes);
    if (!text.ok() && text.status().code() == StatusCode::kNotFound) continue;
    if (!text.ok()) return text.status();
    RETURN_IF_ERROR(config.AddXml(path, *text));
    ++found;
  }
  if (found == 0 && !directory.empty()) {
    return NotFoundError(fmt::format("{}: neither core-site.xml nor hdfs-site.xml is there", directory));
  }
  return config;
}

std::string DefaultHadoopUser() {
  if (const auto user = Environment("HADOOP_USER_NAME"); user && !user->empty()) return *user;
  passwd entry;
  passwd* found = nullptr;
  char text[4096];
  if (getpwuid_r(geteuid(), &entry, text, sizeof text, &found) == 0 && found != nullptr) return found->pw_name;
  return std::to_string(geteuid());
}

std::string DefaultTokenFile() { return Environment("HADOOP_TOKEN_FILE_LOCATION").value_or(""); }

}  // namespace paceline::hdfs
