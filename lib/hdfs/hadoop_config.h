// Hadoop's configuration as its users know it: core-site.xml and hdfs-site.xml of HADOOP_CONF_DIR, with ${} expansion.
//
// A later file wins over an earlier one, except over a property that the earlier one marks final. Values are expanded
// when asked for: ${key}, ${env.NAME}, ${env.NAME:-default} and ${env.NAME-default}. A HadoopConfig is a value, safe to
// read from several threads.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace paceline::hdfs {

class HadoopConfig {
 public:
  // Adds the properties of one XML text. `name` is for messages. kInvalidArgument with the line when it is not
  // well-formed or not a <configuration>; nothing is added then. Entities of a DTD are refused.
  Status AddXml(std::string_view name, std::string_view xml);

  // Stronger than every file: command lines and tests.
  void Set(const std::string& key, std::string value);

  // Expanded; nothing when the key is not there. A reference that cannot be resolved stays as it is written, as in
  // Hadoop; so does one that leads back to itself.
  std::optional<std::string> Get(const std::string& key) const;
  std::string GetOr(const std::string& key, std::string_view fallback) const;
  // kInvalidArgument names the key when the value is no number, no truth value, ...
  Result<int64_t> GetInt(const std::string& key, int64_t fallback) const;
  Result<bool> GetBool(const std::string& key, bool fallback) const;
  // Split at commas, blanks trimmed, empty ones dropped.
  std::vector<std::string> GetList(const std::string& key) const;

  // For ${env.NAME}; the default knows no variables.
  void SetEnvironment(std::function<std::optional<std::string>(const std::string&)> env) { env_ = std::move(env); }

 private:
  struct Property {
    std::string value;
    bool is_final = false;
  };
  std::string Expand(std::string_view text, std::vector<std::string>& open) const;
  std::optional<std::string> Resolve(const std::string& reference, std::vector<std::string>& open) const;

  std::map<std::string, Property> properties_;
  std::function<std::optional<std::string>(const std::string&)> env_;
};

// Reads core-site.xml and hdfs-site.xml in `directory`, or, when that is empty, in HADOOP_CONF_DIR, or in
// $HADOOP_HOME/etc/hadoop, or in /etc/hadoop/conf. Absent files are fine unless `directory` was given; then kNotFound
// when neither is there. Environment for ${env.X} is the process's.
Result<HadoopConfig> LoadHadoopConfig(const std::string& directory);

// HADOOP_USER_NAME, else the name of the process's effective user.
std::string DefaultHadoopUser();
// HADOOP_TOKEN_FILE_LOCATION, or empty.
std::string DefaultTokenFile();

// The NameNodes behind an authority: "host:port" gives itself, "host" port 8020, a nameservice the addresses of
// dfs.ha.namenodes.<ns> in order. kInvalidArgument names the key that is missing. An empty authority means the one of
// fs.defaultFS.
struct NameNodeAddress {
  std::string id;  // "nn1", or empty
  std::string host;
  uint16_t port = 0;
  friend bool operator==(const NameNodeAddress&, const NameNodeAddress&) = default;
};
struct NameService {
  std::string name;  // the nameservice of an HA pair; empty for one NameNode
  std::vector<NameNodeAddress> namenodes;
};
Result<NameService> ResolveNameService(const HadoopConfig& config, const std::string& authority);

// dfs.blocksize as Hadoop writes it: a number with an optional k, m, g, t. Nothing when it is not set or no size.
std::optional<uint64_t> ConfiguredBlockSize(const HadoopConfig& config);

// "host:port" with IPv6 literals in brackets. kInvalidArgument.
Result<NameNodeAddress> ParseHostPort(std::string_view text, uint16_t default_port);

}  // namespace paceline::hdfs
