#include <fmt/format.h>

#include "lib/hdfs/open.h"

namespace paceline::hdfs {
namespace {

Result<std::string> NormalisePath(std::string_view uri, std::string_view path) {
  std::string out;
  while (!path.empty()) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    path = slash == std::string_view::npos ? "" : path.substr(slash + 1);
    if (part.empty() || part == ".") continue;
    if (part == "..") return InvalidArgumentError(fmt::format("\"{}\": \"..\" is not understood in a path", uri));
    out += '/';
    out += part;
  }
  return out.empty() ? "/" : out;
}

}  // namespace

Result<Location> ParseLocation(std::string_view uri) {
  Location location;
  std::string_view rest = uri;
  if (const size_t mark = uri.find("://"); mark != std::string_view::npos) {
    location.scheme = uri.substr(0, mark);
    rest = uri.substr(mark + 3);
    const size_t slash = rest.find('/');
    location.authority = rest.substr(0, slash);
    rest = slash == std::string_view::npos ? "/" : rest.substr(slash);
  } else {
    location.scheme = "hdfs";
  }
  if (location.scheme != "hdfs" && location.scheme != "file") {
    return InvalidArgumentError(fmt::format("\"{}\": only hdfs:// and file:/// are understood", uri));
  }
  if (location.scheme == "file" && !location.authority.empty()) {
    return InvalidArgumentError(fmt::format("\"{}\": write file:/// with three slashes; it names no host", uri));
  }
  if (!rest.starts_with('/')) return InvalidArgumentError(fmt::format("\"{}\": a path must be absolute", uri));
  ASSIGN_OR_RETURN(location.path, NormalisePath(uri, rest));
  return location;
}

}  // namespace paceline::hdfs
