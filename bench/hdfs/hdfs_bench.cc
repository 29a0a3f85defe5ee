// Writes and reads files through lib/hdfs and says how fast, with the bytes checked: "write", "read", "readers"
// (several of one file), "random" and "small" (many files), each one JSON line. bench/hdfs/run drives it.
#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "lib/base/units.h"
#include "lib/hdfs/open.h"

namespace paceline::hdfs {
namespace {

constexpr size_t kCallBytes = 1 << 20;
constexpr Duration kLimit = std::chrono::minutes(10);

// Eight bytes at each multiple of eight that say where they are.
void Fill(uint64_t offset, std::span<std::byte> out) {
  for (size_t i = 0; i + 8 <= out.size(); i += 8) {
    const uint64_t word = (offset + i) * 0x9e3779b97f4a7c15;
    std::memcpy(out.data() + i, &word, 8);
  }
}

bool Fits(uint64_t offset, std::span<const std::byte> bytes) {
  for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    if (word != (offset + i) * 0x9e3779b97f4a7c15) return false;
  }
  return true;
}

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

long PeakKilobytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

class Bench {
 public:
  Bench(FileSystem& fs, const Clock& clock, std::string path, uint64_t bytes)
      : fs_(fs), clock_(clock), path_(std::move(path)), bytes_(bytes) {}

  Status Write() {
    const Deadline deadline = Deadline::After(clock_, kLimit);
    ASSIGN_OR_RETURN(std::unique_ptr<Writer> writer, fs_.Create(path_, {}, deadline));
    std::vector<std::byte> buffer(kCallBytes);
    for (uint64_t at = 0; at < bytes_; at += kCallBytes) {
      Fill(at, buffer);
      RETURN_IF_ERROR(writer->Write(std::span(buffer).first(std::min<uint64_t>(kCallBytes, bytes_ - at)), deadline));
    }
    return writer->Close(deadline);
  }

  Status Readers(int readers) {
    std::vector<Status> results(static_cast<size_t>(readers));
    std::vector<std::jthread> threads;
    for (Status& result : results) {
      threads.emplace_back([&] {
        Bench own(fs_, clock_, path_, bytes_);
        result = own.Read();
      });
    }
    threads.clear();
    for (const Status& result : results) RETURN_IF_ERROR(result);
    return Status();
  }

  Status Read() {
    const Deadline deadline = Deadline::After(clock_, kLimit);
    ASSIGN_OR_RETURN(std::unique_ptr<Reader> reader, fs_.Open(path_, deadline));
    if (reader->length_bytes() != bytes_) return DataLossError("the file has another length");
    std::vector<std::byte> buffer(kCallBytes);
    Duration longest{};
    for (uint64_t at = 0; at < bytes_; at += kCallBytes) {
      const TimePoint start = clock_.Now();
      ASSIGN_OR_RETURN(const size_t got, reader->Read(at, buffer, deadline));
      longest = std::max(longest, clock_.Now() - start);
      if (got != std::min<uint64_t>(kCallBytes, bytes_ - at) || !Fits(at, std::span(buffer).first(got))) {
        return DataLossError(fmt::format("wrong bytes at {}", at));
      }
    }
    longest_seconds_ = ToSeconds(longest);
    return Status();
  }

  // 4 KiB at places all over the file, by eight threads.
  Status Random(int reads) {
    const Deadline deadline = Deadline::After(clock_, kLimit);
    ASSIGN_OR_RETURN(std::unique_ptr<Reader> reader, fs_.Open(path_, deadline));
    std::vector<Status> failures(8);
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < failures.size(); ++t) {
      threads.emplace_back([&, t] {
        std::vector<std::byte> buffer(4096);
        uint64_t state = t + 1;
        for (int i = 0; i < reads / static_cast<int>(failures.size()) && failures[t].ok(); ++i) {
          state = state * 6364136223846793005 + 1442695040888963407;
          const uint64_t at = (state >> 16) % (bytes_ / 4096) * 4096;
          const Result<size_t> got = reader->Read(at, buffer, deadline);
          if (!got.ok())
            failures[t] = got.status();
          else if (!Fits(at, std::span(buffer).first(*got)))
            failures[t] = DataLossError("wrong bytes");
        }
      });
    }
    threads.clear();
    for (const Status& failure : failures) RETURN_IF_ERROR(failure);
    return Status();
  }

  Status Small(int files) {
    const Deadline deadline = Deadline::After(clock_, kLimit);
    RETURN_IF_ERROR(fs_.Mkdirs(path_, 0755, MkdirsMode::kMakeParents, deadline));
    std::vector<Status> failures(8);
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < failures.size(); ++t) {
      threads.emplace_back([&, t] {
        std::vector<std::byte> buffer(bytes_);
        Fill(0, buffer);
        for (int i = static_cast<int>(t); i < files && failures[t].ok(); i += static_cast<int>(failures.size())) {
          Result<std::unique_ptr<Writer>> writer = fs_.Create(fmt::format("{}/f{}", path_, i), {}, deadline);
          if (!writer.ok()) failures[t] = writer.status();
          if (failures[t].ok()) failures[t] = (*writer)->Write(buffer, deadline);
          if (failures[t].ok()) failures[t] = (*writer)->Close(deadline);
        }
      });
    }
    threads.clear();
    for (const Status& failure : failures) RETURN_IF_ERROR(failure);
    return Status();
  }

  double longest_seconds() const { return longest_seconds_; }

 private:
  FileSystem& fs_;
  const Clock& clock_;
  const std::string path_;
  const uint64_t bytes_;
  double longest_seconds_ = 0;
};

Status Run(int argc, char** argv) {
  if (argc < 4)
    return InvalidArgumentError("usage: hdfs-bench write|read|readers|random|small URI SIZE [COUNT] [LAYOUT]");
  const std::string what = argv[1];
  ASSIGN_OR_RETURN(const Location location, ParseLocation(argv[2]));
  ASSIGN_OR_RETURN(const ByteSize size, ParseByteSize(argv[3]));
  const int count = argc > 4 ? std::atoi(argv[4]) : 1000;
  RealClock clock;
  FileSystemOptions options;
  ASSIGN_OR_RETURN(options.config, LoadHadoopConfig(""));
  if (argc > 5) {
    ASSIGN_OR_RETURN(options.layout, ParseWriteLayout(argv[5]));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<FileSystem> fs, OpenFileSystem(location, options, clock));
  Bench bench(*fs, clock, location.path, size.bytes);
  const TimePoint start = clock.Now();
  const double cpu = CpuSeconds();
  Status status = InvalidArgumentError(what + ": write, read, readers, random or small");
  uint64_t moved = size.bytes;
  if (what == "write") status = bench.Write();
  if (what == "read") status = bench.Read();
  if (what == "readers") status = bench.Readers(count), moved = size.bytes * static_cast<uint64_t>(count);
  if (what == "random") status = bench.Random(count), moved = 4096ull * static_cast<uint64_t>(count);
  if (what == "small") status = bench.Small(count), moved = size.bytes * static_cast<uint64_t>(count);
  RETURN_IF_ERROR(status);
  const double seconds = ToSeconds(clock.Now() - start);
  fmt::print(
      "{{\"what\":\"{}\",\"bytes\":{},\"seconds\":{:.3f},\"mbit_per_second\":{:.0f},\"cpu_seconds\":{:.3f},"
      "\"peak_rss_kilobytes\":{},\"longest_call_seconds\":{:.3f}}}\n",
      what, moved, seconds, static_cast<double>(moved) * 8e-6 / seconds, CpuSeconds() - cpu, PeakKilobytes(),
      bench.longest_seconds());
  return Status();
}

}  // namespace
}  // namespace paceline::hdfs

int main(int argc, char** argv) {
  const paceline::Status status = paceline::hdfs::Run(argc, argv);
  if (status.ok()) return 0;
  fmt::print(stderr, "hdfs-bench: {}\n", status.ToString());
  return 1;
}
