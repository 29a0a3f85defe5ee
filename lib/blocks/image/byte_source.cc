#include "lib/blocks/image/byte_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "lib/blocks/format/zstd_codec.h"
#include "lib/blocks/image/piece_pipe.h"

namespace paceline::blocks {
namespace {

constexpr size_t kPieceBytes = 1U << 20;
constexpr size_t kBytesAhead = 3 * kPieceBytes;

class FileSource final : public ByteSource {
 public:
  FileSource(UniqueFd file, std::string path, uint64_t offset, uint64_t size)
      : file_(std::move(file)), path_(std::move(path)), offset_(offset), left_(size) {}

  Result<size_t> Read(std::span<char> out) override {
    const size_t wanted = static_cast<size_t>(std::min<uint64_t>(out.size(), left_));
    if (wanted == 0) return size_t{0};
    ssize_t got;
    do {
      got = ::pread(file_.get(), out.data(), wanted, static_cast<off_t>(offset_));
    } while (got < 0 && errno == EINTR);
    if (got < 0) return ErrnoStatus(errno, "read " + path_);
    if (got == 0) return DataLossError(fmt::format("{} ends {} bytes early", path_, left_));
    offset_ += static_cast<uint64_t>(got);
    left_ -= static_cast<uint64_t>(got);
    return static_cast<size_t>(got);
  }

 private:
  UniqueFd file_;
  std::string path_;
  uint64_t offset_, left_;
};

class StringSource final : public ByteSource {
 public:
  explicit StringSource(std::string bytes) : bytes_(std::move(bytes)) {}

  Result<size_t> Read(std::span<char> out) override {
    const size_t size = std::min(out.size(), bytes_.size() - at_);
    std::memcpy(out.data(), bytes_.data() + at_, size);
    at_ += size;
    return size;
  }

 private:
  std::string bytes_;
  size_t at_ = 0;
};

// Gives back what was looked at, then the rest.
class PrefixedSource final : public ByteSource {
 public:
  PrefixedSource(std::string prefix, std::unique_ptr<ByteSource> below)
      : prefix_(std::move(prefix)), below_(std::move(below)) {}

  Result<size_t> Read(std::span<char> out) override {
    if (at_ == prefix_.size()) return below_->Read(out);
    const size_t size = std::min(out.size(), prefix_.size() - at_);
    std::memcpy(out.data(), prefix_.data() + at_, size);
    at_ += size;
    return size;
  }

 private:
  std::string prefix_;
  size_t at_ = 0;
  std::unique_ptr<ByteSource> below_;
};

class ZstdSource final : public ByteSource {
 public:
  explicit ZstdSource(std::unique_ptr<ByteSource> below) : below_(std::move(below)), buffer_(128U << 10, '\0') {}

  Result<size_t> Read(std::span<char> out) override {
    while (piece_.empty()) {
      ASSIGN_OR_RETURN(piece_, decoder_.Decode(&input_));
      if (!piece_.empty()) break;
      ASSIGN_OR_RETURN(const size_t got, below_->Read(buffer_));
      if (got == 0) {
        if (!decoder_.is_between_frames()) return DataLossError("zstd: the stream is cut short");
        return size_t{0};
      }
      input_ = std::string_view(buffer_.data(), got);
    }
    const size_t size = std::min(out.size(), piece_.size());
    std::memcpy(out.data(), piece_.data(), size);
    piece_.remove_prefix(size);
    return size;
  }

 private:
  std::unique_ptr<ByteSource> below_;
  std::string buffer_;
  ZstdStreamDecoder decoder_;
  std::string_view input_, piece_;
};

class TallySource final : public ByteSource {
 public:
  TallySource(std::unique_ptr<ByteSource> below, StreamTally* tally) : below_(std::move(below)), tally_(tally) {}

  Result<size_t> Read(std::span<char> out) override {
    ASSIGN_OR_RETURN(const size_t got, below_->Read(out));
    tally_->hash.Update({out.data(), got});
    tally_->bytes += got;
    return got;
  }

 private:
  std::unique_ptr<ByteSource> below_;
  StreamTally* tally_;
};

class ReadAheadSource final : public ByteSource {
 public:
  explicit ReadAheadSource(std::unique_ptr<ByteSource> below)
      : below_(std::move(below)), thread_([this](const std::stop_token& stop) { pipe_.Finish(Run(stop)); }) {}
  ~ReadAheadSource() override {
    thread_.request_stop();
    pipe_.Wake();
  }

  Result<size_t> Read(std::span<char> out) override { return pipe_.Read(out); }

 private:
  Status Run(const std::stop_token& stop) {
    for (;;) {
      std::string piece(kPieceBytes, '\0');
      size_t filled = 0;
      Status end;
      bool is_done = false;
      while (filled < piece.size() && !is_done) {
        Result<size_t> got = below_->Read(std::span(piece).subspan(filled));
        if (!got.ok()) end = got.status();
        is_done = !got.ok() || *got == 0;
        if (got.ok()) filled += *got;
      }
      piece.resize(filled);
      RETURN_IF_ERROR(pipe_.Put(std::move(piece), stop));
      if (is_done) return end;
    }
  }

  std::unique_ptr<ByteSource> below_;
  PiecePipe pipe_{kBytesAhead};
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace

std::unique_ptr<ByteSource> NewFileSource(UniqueFd file, std::string path, uint64_t offset_bytes, uint64_t size_bytes) {
  return std::make_unique<FileSource>(std::move(file), std::move(path), offset_bytes, size_bytes);
}

Result<std::unique_ptr<ByteSource>> OpenFileSource(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_valid()) return ErrnoStatus(errno, "open " + path);
  struct stat info;
  if (::fstat(file.get(), &info) != 0) return ErrnoStatus(errno, "stat " + path);
  if (!S_ISREG(info.st_mode)) return InvalidArgumentError(path + " is no regular file");
  return NewFileSource(std::move(file), path, 0, static_cast<uint64_t>(info.st_size));
}

std::unique_ptr<ByteSource> NewStringSource(std::string bytes) {
  return std::make_unique<StringSource>(std::move(bytes));
}

std::unique_ptr<ByteSource> NewZstdSource(std::unique_ptr<ByteSource> below) {
  return std::make_unique<ZstdSource>(std::move(below));
}

std::unique_ptr<ByteSource> NewReadAheadSource(std::unique_ptr<ByteSource> below) {
  return std::make_unique<ReadAheadSource>(std::move(below));
}

std::unique_ptr<ByteSource> NewTallySource(std::unique_ptr<ByteSource> below, StreamTally* tally) {
  return std::make_unique<TallySource>(std::move(below), tally);
}

Result<std::unique_ptr<ByteSource>> NewDecompressedSource(std::unique_ptr<ByteSource> below) {
  std::string start(4, '\0');
  size_t filled = 0;
  while (filled < start.size()) {
    ASSIGN_OR_RETURN(const size_t got, below->Read(std::span(start).subspan(filled)));
    if (got == 0) break;
    filled += got;
  }
  start.resize(filled);
  std::unique_ptr<ByteSource> whole = std::make_unique<PrefixedSource>(start, std::move(below));
  if (start.starts_with("\x1f\x8b")) return NewGzipSource(std::move(whole));
  // A zstd frame, or a skippable one, with which some tools begin.
  const bool is_skippable = start.size() == 4 && (start[0] & 0xf0) == 0x50 && start.substr(1) == "\x2a\x4d\x18";
  if (start == "\x28\xb5\x2f\xfd" || is_skippable) return NewZstdSource(std::move(whole));
  return whole;
}

Status ReadFull(ByteSource& source, std::span<char> out) {
  while (!out.empty()) {
    ASSIGN_OR_RETURN(const size_t got, source.Read(out));
    if (got == 0) return DataLossError("the stream is cut short");
    out = out.subspan(got);
  }
  return Status();
}

Result<std::string> ReadAll(ByteSource& source, size_t max_bytes) {
  std::string all;
  std::string piece(64U << 10, '\0');
  for (;;) {
    ASSIGN_OR_RETURN(const size_t got, source.Read(piece));
    if (got == 0) return all;
    if (all.size() + got > max_bytes) return ResourceExhaustedError(fmt::format("more than {} bytes", max_bytes));
    all.append(piece, 0, got);
  }
}

}  // namespace paceline::blocks
