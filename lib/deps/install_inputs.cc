#include "lib/deps/install_inputs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>

#include "lib/base/filesystem.h"
#include "lib/base/unique_fd.h"

namespace paceline::deps {
namespace {

constexpr size_t kMaxRequirementsBytes = 8U << 20;
constexpr int kMaxIncludes = 16;
constexpr size_t kMaxInputs = 4096;
constexpr uint64_t kMaxInputBytes = uint64_t{4} << 30;
constexpr size_t kReadBytes = 1U << 20;

std::string Join(const std::string& directory, const std::string& path) {
  return std::filesystem::path(path.starts_with('/') ? path : directory + "/" + path).lexically_normal().string();
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

bool IsRequirements(const std::string& path) { return path.ends_with(".txt") || path.ends_with(".in"); }

bool LooksLikePath(std::string_view text) {
  const bool is_archive = text.ends_with(".whl") || text.ends_with(".tar.gz") || text.ends_with(".zip");
  return text == "." || text.starts_with("./") || text.starts_with("../") || text.starts_with("/") ||
         text.starts_with("file:") || (is_archive && text.find("://") == std::string_view::npos);
}

std::string LocalPath(std::string_view text) {
  if (text.starts_with("file://")) text.remove_prefix(7);
  if (text.starts_with("file:")) text.remove_prefix(5);
  const size_t extras = text.find_first_of("[#");
  return std::string(text.substr(0, extras));
}

bool IsPinnedPackage(std::string_view line) {
  const std::string_view spec = line.substr(0, line.find(';'));
  if (spec.find("===") != std::string_view::npos) return true;
  if (const size_t at = spec.find("@ "); at != std::string_view::npos) {
    return spec.find("#sha256=", at) != std::string_view::npos || spec.find("file:", at) != std::string_view::npos;
  }
  const size_t equals = spec.find("==");
  return equals != std::string_view::npos && spec.find('*', equals) == std::string_view::npos;
}

std::vector<std::string> Words(std::string_view command) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : command) {
    const bool is_break = c == ' ' || c == '\t' || c == '\n' || c == ';' || c == '&' || c == '|';
    if (!is_break && c != '\'' && c != '"') word += c;
    if (is_break && !word.empty()) words.push_back(std::exchange(word, ""));
    if (c == ';' || c == '&' || c == '|' || c == '\n') words.emplace_back(";");
  }
  if (!word.empty()) words.push_back(word);
  return words;
}

class InputReader {
 public:
  explicit InputReader(std::string directory) : directory_(std::move(directory)) {}

  Status Take(const std::string& path, int depth) {
    const std::string full = Join(directory_, path);
    if (digests_.contains(full)) return Status();
    if (depth > kMaxIncludes) return InvalidArgumentError(full + " is included through too many files");
    if (digests_.size() == kMaxInputs) return InvalidArgumentError("more input files than can be followed");
    ASSIGN_OR_RETURN(digests_[full], DigestOfInput(full));
    struct stat info;
    const bool is_file = ::stat(full.c_str(), &info) == 0 && S_ISREG(info.st_mode);
    return is_file && IsRequirements(full) ? Follow(full, depth) : Status();
  }

  InstallInputs Finish() {
    InstallInputs found;
    for (const auto& [path, digest] : digests_) found.inputs.push_back({path, digest});
    found.pinning = pinning_;
    return found;
  }

 private:
  Status Follow(const std::string& path, int depth) {
    ASSIGN_OR_RETURN(std::string text, RealFileSystem().ReadFile(path, kMaxRequirementsBytes));
    for (size_t at = 0; (at = text.find("\\\n", at)) != std::string::npos;) text.replace(at, 2, " ");
    size_t start = 0;
    while (start < text.size()) {
      const size_t end = std::min(text.find('\n', start), text.size());
      const Requirement line = ParseRequirement(std::string_view(text).substr(start, end - start));
      start = end + 1;
      const bool has_path = line.kind == Requirement::Kind::kInclude || line.kind == Requirement::Kind::kLocalPath;
      // Paths in a requirements file count from the file; pip counts those of projects from its own directory, so both
      // are looked for.
      if (has_path) RETURN_IF_ERROR(TakeIncluded(path, line.text, depth));
      if (!line.is_pinned && pinning_.is_pinned) {
        pinning_ = {false, fmt::format("{} names {} without a version", path, line.text.substr(0, 100))};
      }
    }
    return Status();
  }

  Status TakeIncluded(const std::string& from, const std::string& path, int depth) {
    if (path.find("://") != std::string::npos) {
      return InvalidArgumentError(from + " includes " + path + ", which cannot be looked at; use a file instead");
    }
    const std::string beside = Join(FolderOf(from), path);
    struct stat info;
    const bool is_beside = ::stat(beside.c_str(), &info) == 0;
    return Take(is_beside ? beside : Join(directory_, path), depth + 1);
  }

  const std::string directory_;
  std::map<std::string, blocks::Digest> digests_;
  Pinning pinning_;
};

Result<blocks::Digest> DigestOfFile(const std::string& path, uint64_t* budget) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_valid()) return ErrnoStatus(errno, "input " + path);
  blocks::Sha256 hash;
  std::string buffer(kReadBytes, '\0');
  for (;;) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "input " + path);
    if (got == 0) return hash.Finish();
    if (static_cast<uint64_t>(got) > *budget) return InvalidArgumentError("input " + path + " is larger than 4 GiB");
    *budget -= static_cast<uint64_t>(got);
    hash.Update(std::string_view(buffer).substr(0, static_cast<size_t>(got)));
  }
}

Result<blocks::Digest> DigestOfDirectory(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::map<std::string, std::string> lines;
  uint64_t budget = kMaxInputBytes;
  for (fs::recursive_directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    if (lines.size() == kMaxInputs) return InvalidArgumentError("input " + path + " holds more than 4096 files");
    const std::string name = at->path().string().substr(path.size());
    const fs::file_type type = at->symlink_status(error).type();
    std::string what;
    if (type == fs::file_type::symlink) {
      what = "l" + std::string(1, '\0') + fs::read_symlink(at->path(), error).string();
    } else if (type == fs::file_type::regular) {
      ASSIGN_OR_RETURN(const blocks::Digest digest, DigestOfFile(at->path().string(), &budget));
      what = "f" + std::string(1, '\0') + digest.Hex();
    } else {
      what = "d" + std::string(1, '\0');
    }
    if (error) break;
    lines[name] = std::move(what);
  }
  if (error) return ErrnoStatus(error.value(), "input " + path);
  blocks::Sha256 hash;
  for (const auto& [name, what] : lines) hash.Update(name + std::string(1, '\0') + what + "\n");
  return hash.Finish();
}

// Of the words behind "install" up to the end of that command.
std::string FloatingWord(const std::vector<std::string>& words, size_t at) {
  constexpr std::string_view kTakesValue[] = {"-r",           "-c",           "--requirement",
                                              "--constraint", "-i",           "--index-url",
                                              "-f",           "--find-links", "--extra-index-url",
                                              "-t",           "--target",     "--prefix",
                                              "--python",     "-p",           "--root",
                                              "--cache-dir",  "--timeout",    "--retries"};
  for (; at < words.size() && words[at] != ";"; ++at) {
    const std::string& word = words[at];
    if (std::find(std::begin(kTakesValue), std::end(kTakesValue), word) != std::end(kTakesValue)) {
      ++at;
    } else if (word == "-U" || word == "--upgrade" ||
               (!word.starts_with('-') && !LooksLikePath(word) && !IsPinnedPackage(word))) {
      return word;
    }
  }
  return "";
}

}  // namespace

Requirement ParseRequirement(std::string_view line) {
  if (const size_t comment = line.find(" #"); comment != std::string_view::npos) line = line.substr(0, comment);
  line = Trim(line);
  Requirement found;
  if (line.empty() || line.starts_with('#')) return found;
  for (const std::string_view flag : {"-r", "--requirement", "-c", "--constraint", "-e", "--editable"}) {
    if (!line.starts_with(flag)) continue;
    std::string_view rest = line.substr(flag.size());
    const bool is_long = flag.starts_with("--");
    if (is_long && !rest.empty() && rest[0] != '=' && rest[0] != ' ') continue;
    if (rest.starts_with('=')) rest.remove_prefix(1);
    const bool is_project = flag.starts_with("-e") || flag.starts_with("--e");
    rest = Trim(rest);
    if (is_project && rest.find("://") != std::string_view::npos) {
      return {Requirement::Kind::kPackage, std::string(rest), false};
    }
    return {is_project ? Requirement::Kind::kLocalPath : Requirement::Kind::kInclude,
            is_project ? LocalPath(rest) : std::string(rest), true};
  }
  if (line.starts_with('-')) return {Requirement::Kind::kOption, std::string(line), true};
  const std::string_view first = line.substr(0, line.find_first_of(" ;"));
  if (LooksLikePath(first)) return {Requirement::Kind::kLocalPath, LocalPath(first), true};
  return {Requirement::Kind::kPackage, std::string(first), IsPinnedPackage(line)};
}

Pinning PinningOf(std::string_view command, const InstallInputs& inputs) {
  constexpr std::string_view kFloating[] = {"apt", "apt-get", "apk", "dnf", "yum", "microdnf", "curl", "wget", "git"};
  const std::vector<std::string> words = Words(command);
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string name = words[i].substr(words[i].rfind('/') + 1);
    if (std::find(std::begin(kFloating), std::end(kFloating), name) != std::end(kFloating)) {
      return {false, name + " fetches what is there at the moment"};
    }
    if (words[i] != "install") continue;
    const std::string floating = FloatingWord(words, i + 1);
    if (!floating.empty()) return {false, "the command installs " + floating + " without a version"};
  }
  if (!inputs.pinning.is_pinned) return inputs.pinning;
  if (inputs.inputs.empty()) return {false, "no inputs were named"};
  return {true, "every requirement names one version"};
}

Result<InstallInputs> ReadInputs(const std::vector<std::string>& paths, const std::string& directory) {
  InputReader reader(directory);
  for (const std::string& path : paths) RETURN_IF_ERROR(reader.Take(path, 0));
  return reader.Finish();
}

Result<blocks::Digest> DigestOfInput(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) {
    return InvalidArgumentError(ErrnoStatus(errno, "input " + path).message() + "; without it the key is not known");
  }
  if (S_ISDIR(info.st_mode)) return DigestOfDirectory(path);
  uint64_t budget = kMaxInputBytes;
  if (!S_ISREG(info.st_mode)) return InvalidArgumentError("input " + path + " is neither a file nor a directory");
  return DigestOfFile(path, &budget);
}

}  // namespace paceline::deps
