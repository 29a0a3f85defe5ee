// Hadoop's credentials file (HADOOP_TOKEN_FILE_LOCATION): delegation tokens by service. The formats are in
// docs/formats/hdfs-protocol.md. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/hdfs/block.h"

namespace paceline::hdfs {

// kDataLoss when the bytes are no such file.
Result<std::vector<SecurityToken>> ParseTokenFile(std::string_view bytes);

// The HDFS delegation token for one of `services` ("ha-hdfs:ns", "10.0.0.1:8020"), in that order of preference.
std::optional<SecurityToken> FindDelegationToken(const std::vector<SecurityToken>& tokens,
                                                 const std::vector<std::string>& services);

}  // namespace paceline::hdfs
