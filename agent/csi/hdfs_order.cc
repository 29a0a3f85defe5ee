#include "agent/csi/hdfs_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "agent/csi/held_mounts.h"
#include "lib/api/quantity.h"

namespace paceline::agent {
namespace {

constexpr char kProgram[] = "paceline-hdfs-mount";
constexpr int64_t kSmallestMemory = 32 << 20;
constexpr size_t kMaxUriBytes = 2048;
constexpr size_t kMaxUserBytes = 64;

Status Wrong(std::string_view key, std::string_view value, std::string_view why) {
  return InvalidArgumentError(fmt::format("attribute {}: \"{}\" {}", key, value, why));
}

bool HasPrefix(std::string_view text, std::string_view start) { return text.substr(0, start.size()) == start; }

bool HasParentComponent(std::string_view path) {
  for (size_t start = 0; start <= path.size();) {
    const size_t end = std::min(path.find('/', start), path.size());
    if (path.substr(start, end - start) == "..") return true;
    start = end + 1;
  }
  return false;
}

Status CheckUri(const std::string& uri, const HdfsRules& rules) {
  constexpr std::string_view kHdfs = "hdfs://", kFile = "file://";
  if (uri.empty()) {
    return InvalidArgumentError("attribute uri is missing: hdfs://<name service or host:port>/<path>");
  }
  const bool is_plain = uri.size() <= kMaxUriBytes && std::all_of(uri.begin(), uri.end(), [](char c) {
                          return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
                        });
  if (!is_plain || HasParentComponent(uri)) {
    return Wrong("uri", uri, "must not contain \"..\" or control characters, nor be over 2048 bytes");
  }
  if (HasPrefix(uri, kHdfs)) return Status();
  if (!HasPrefix(uri, kFile)) return Wrong("uri", uri, "must be hdfs://<name service or host:port>/<path>");
  const std::string path = uri.substr(kFile.size());
  if (rules.file_root.empty()) return Wrong("uri", uri, "is a folder of the node; this agent allows none");
  if (path == rules.file_root || HasPrefix(path, rules.file_root + "/")) return Status();
  return Wrong("uri", uri, fmt::format("is not below {}, where this agent allows folders", rules.file_root));
}

Result<int64_t> Number(std::string_view key, const std::string& text, int64_t low, int64_t high) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= low && value <= high) return value;
  return Wrong(key, text, fmt::format("is not a number from {} to {}", low, high));
}

Result<int64_t> Bytes(std::string_view key, const std::string& text, int64_t low) {
  const Result<int64_t> bytes = api::ParseQuantity(text);
  if (!bytes.ok()) return InvalidArgumentError(fmt::format("attribute {}: {}", key, bytes.status().message()));
  if (*bytes < low) return Wrong(key, text, fmt::format("is less than {} bytes", low));
  return *bytes;
}

std::string SizeText(int64_t bytes) { return FormatByteSize({static_cast<uint64_t>(bytes)}); }

// The mount's flags for single attributes whose value is a number or a size.
struct PlainAttribute {
  std::string_view key;
  std::string_view flag;
  bool is_size;
  int64_t low, high;
};
constexpr PlainAttribute kPlainAttributes[] = {
    {"segmentSize", "--writes-segment-size", true, 64 << 10, 0},
    {"blockSize", "--writes-block-size", true, 1 << 20, 0},
    {"pipelines", "--writes-pipelines", false, 1, 64},
    {"replication", "--writes-replication", false, 1, 512},
    {"stripeFiles", "--writes-stripe-files", false, 1, 64},
    {"stripeUnit", "--writes-stripe-unit", true, 64 << 10, 0},
    {"uid", "--owners-uid", false, 0, 2147483647},
    {"gid", "--owners-gid", false, 0, 2147483647},
};

constexpr std::string_view kKnownAttributes =
    "uri, layout, segmentSize, blockSize, pipelines, replication, stripeFiles, stripeUnit, uid, gid, user, "
    "memoryLimit, "
    "createDirectory, prefetch, readOnly";

class OrderMaker {
 public:
  OrderMaker(const VolumeSpec& spec, const HdfsRules& rules) : spec_(spec), rules_(rules) {}

  Result<MountOrder> Make() {
    const auto uri = spec_.attributes.find("uri");
    RETURN_IF_ERROR(CheckUri(uri == spec_.attributes.end() ? "" : uri->second, rules_));
    order_.name = HdfsMountName(spec_.volume_id);
    order_.owner = spec_.volume_id;
    order_.program = kProgram;
    Flag("--uri", uri->second);
    Flag("--directory", "{mountPoint}");
    Flag("--control-socket", "{control}");
    // Every user of the pod may use its volume; what the mount's HDFS user may do says HDFS.
    order_.arguments.push_back("--access-kernel-checks=false");
    memory_bytes_ = static_cast<int64_t>(rules_.memory_limit.bytes);
    bool is_read_only = spec_.is_read_only;
    for (const auto& [key, value] : spec_.attributes) RETURN_IF_ERROR(Take(key, value, &is_read_only));
    Flag("--reads-budget", SizeText(memory_bytes_ / 2));
    Flag("--writes-budget", SizeText(memory_bytes_ / 2));
    if (is_read_only && creates_directory_) {
      return Wrong("createDirectory", "true", "does not go with a volume that is only read");
    }
    if (is_read_only) order_.arguments.push_back("--read-only");
    if (creates_directory_) order_.arguments.push_back("--create-directory");
    RETURN_IF_ERROR(TakeSecrets());
    return std::move(order_);
  }

 private:
  void Flag(std::string_view name, std::string value) {
    order_.arguments.emplace_back(name);
    order_.arguments.push_back(std::move(value));
  }

  Status Take(const std::string& key, const std::string& value, bool* is_read_only) {
    if (key == "uri") return Status();
    if (key == "layout") {
      if (value != "plain" && value != "single" && value != "striped") {
        return Wrong(key, value, "is none of plain, striped, single");
      }
      Flag("--writes-layout", value);
    } else if (key == "user") {
      if (value.empty() || value.size() > kMaxUserBytes) return Wrong(key, value, "must have 1 to 64 bytes");
      Flag("--hadoop-user", value);
    } else if (key == "memoryLimit") {
      ASSIGN_OR_RETURN(memory_bytes_, Bytes(key, value, kSmallestMemory));
    } else if (key == "readOnly" || key == "createDirectory") {
      if (value != "true" && value != "false") return Wrong(key, value, "is neither true nor false");
      bool& is_set = key == "readOnly" ? *is_read_only : creates_directory_;
      is_set = is_set || value == "true";
    } else if (key == "prefetch") {
      if (value.empty() || value.size() > kMaxUriBytes || HasParentComponent(value)) {
        return Wrong(key, value, "must be paths below the directory, separated by commas, without \"..\"");
      }
      Flag("--prefetch-paths", value);
    } else {
      return TakePlain(key, value);
    }
    return Status();
  }

  Status TakePlain(const std::string& key, const std::string& value) {
    for (const PlainAttribute& known : kPlainAttributes) {
      if (key != known.key) continue;
      ASSIGN_OR_RETURN(const int64_t number,
                       known.is_size ? Bytes(key, value, known.low) : Number(key, value, known.low, known.high));
      Flag(known.flag, known.is_size ? SizeText(number) : std::to_string(number));
      return Status();
    }
    return InvalidArgumentError(
        fmt::format("unknown attribute \"{}\": an hdfs volume has type, {}", key, kKnownAttributes));
  }

  Status TakeSecrets() {
    if (spec_.secrets.empty()) return Status();
    order_.files.emplace();
    bool has_config = false;
    for (const auto& [key, value] : spec_.secrets) {
      if (key == "core-site.xml" || key == "hdfs-site.xml") {
        has_config = true;
      } else if (key == "krb5.conf") {
        order_.environment["KRB5_CONFIG"] = "{files}/krb5.conf";
      } else if (key == "keytab") {
        order_.environment["KRB5_CLIENT_KTNAME"] = "FILE:{files}/keytab";
        order_.environment["KRB5CCNAME"] = "FILE:{files}/tickets";
      } else if (key == "token") {
        order_.environment["HADOOP_TOKEN_FILE_LOCATION"] = "{files}/token";
      } else {
        return InvalidArgumentError(
            fmt::format("unknown key \"{}\" in the volume's Secret: there are core-site.xml, hdfs-site.xml, krb5.conf, "
                        "keytab, token",
                        key));
      }
      (*order_.files)[key] = value;
    }
    if (has_config) Flag("--hadoop-config-dir", "{files}");
    return Status();
  }

  const VolumeSpec& spec_;
  const HdfsRules& rules_;
  MountOrder order_;
  int64_t memory_bytes_ = 0;
  bool creates_directory_ = false;
};

}  // namespace

std::string HdfsMountName(const std::string& volume_id) { return HeldMountName("hdfs", volume_id); }

Result<MountOrder> MakeHdfsOrder(const VolumeSpec& spec, const HdfsRules& rules) {
  return OrderMaker(spec, rules).Make();
}

}  // namespace paceline::agent
