#include "cli/image_report.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "lib/base/json.h"
#include "lib/base/unique_fd.h"
#include "lib/base/utf8.h"

namespace paceline::cli {
namespace {

constexpr int kVersion = 1;
constexpr size_t kMaxReportBytes = 4096;  // of a termination message

}  // namespace

std::string ConversionReport(const blocks::ImageReport& report, double seconds) {
  uint64_t source_bytes = 0, stored_bytes = 0;
  size_t converted = 0;
  for (const blocks::LayerReport& layer : report.layers) {
    source_bytes += layer.source_bytes;
    stored_bytes += layer.converted.layer.index.size_bytes;
    for (const blocks::Descriptor& data : layer.converted.layer.data) stored_bytes += data.size_bytes;
    if (!layer.was_there) ++converted;
  }
  return DumpJson({{"version", kVersion},
                   {"image", report.manifest.digest.ToString()},
                   {"source", report.source.manifest.digest.ToString()},
                   {"platform", report.source.platform},
                   {"layers", report.layers.size()},
                   {"convertedLayers", converted},
                   {"sourceBytes", source_bytes},
                   {"storedBytes", stored_bytes},
                   {"seconds", seconds}});
}

std::string FailureReport(const Status& failure) {
  std::string text;
  // The second is short enough whatever JSON makes of its characters.
  for (const size_t message_bytes : {2048, 512}) {
    text = DumpJson(
        {{"version", kVersion},
         {"error",
          {{"code", StatusCodeName(failure.code())}, {"message", TruncateUtf8(failure.message(), message_bytes)}}}});
    if (text.size() <= kMaxReportBytes) break;
  }
  return text;
}

Status WriteReport(const std::string& path, const std::string& report) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file.is_valid()) return ErrnoStatus(errno, path);
  for (size_t done = 0; done < report.size();) {
    const ssize_t count = write(file.get(), report.data() + done, report.size() - done);
    if (count < 0 && errno != EINTR) return ErrnoStatus(errno, path);
    done += static_cast<size_t>(std::max<ssize_t>(count, 0));
  }
  return Status();
}

}  // namespace paceline::cli
