#include "cli/fs_bench.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/fs_tables.h"
#include "lib/base/mutex.h"
#include "lib/hdfs/part_names.h"

namespace paceline::cli {
namespace {

constexpr size_t kCallBytes = 4 << 20;
constexpr Duration kRemoveLimit = std::chrono::seconds(30);

// Each word says where in which file it stands, so that a piece in a wrong place shows.
uint64_t WordAt(uint64_t file, uint64_t offset) { return (offset + (file << 48)) * 0x9e3779b97f4a7c15; }

void Fill(uint64_t file, uint64_t offset, std::span<std::byte> out) {
  for (size_t i = 0; i < out.size(); i += 8) {
    const uint64_t word = WordAt(file, offset + i);
    std::memcpy(out.data() + i, &word, std::min<size_t>(8, out.size() - i));
  }
}

bool Fits(uint64_t file, uint64_t offset, std::span<const std::byte> bytes) {
  for (size_t i = 0; i < bytes.size(); i += 8) {
    const uint64_t word = WordAt(file, offset + i);
    if (std::memcmp(bytes.data() + i, &word, std::min<size_t>(8, bytes.size() - i)) != 0) return false;
  }
  return true;
}

Duration CpuTime() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto span = [](const timeval& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
  };
  return span(usage.ru_utime) + span(usage.ru_stime);
}

// One operation over all files: its time, its bytes and its first failure.
class Measurement {
 public:
  Measurement(std::string operation, int files, uint64_t expected_bytes, const Clock& clock,
              const ProgressSink& progress)
      : clock_(clock), progress_(progress), expected_bytes_(expected_bytes) {
    result_.operation = std::move(operation);
    result_.files = files;
  }

  // `work` is given the number of its file.
  Result<BenchResult> Run(const std::function<Status(int file)>& work) {
    const TimePoint start = clock_.Now();
    const Duration cpu = CpuTime();
    std::vector<Status> failures(static_cast<size_t>(result_.files));
    {
      std::vector<std::jthread> threads;
      for (int file = 1; file < result_.files; ++file) {
        threads.emplace_back([&, file] { failures[static_cast<size_t>(file)] = work(file); });
      }
      failures[0] = work(0);
    }
    for (const Status& failure : failures) RETURN_IF_ERROR(failure);
    MutexLock lock(mutex_);
    result_.took = clock_.Now() - start;
    result_.cpu = CpuTime() - cpu;
    return result_;
  }

  void Moved(uint64_t bytes, TimePoint since) EXCLUDES(mutex_) {
    const Duration took = clock_.Now() - since;
    MutexLock lock(mutex_);
    result_.bytes += bytes;
    result_.longest_call = std::max(result_.longest_call, took);
    if (progress_) progress_(result_.bytes, expected_bytes_);
  }

 private:
  const Clock& clock_;
  const ProgressSink& progress_;
  const uint64_t expected_bytes_;
  Mutex mutex_;
  BenchResult result_;  // guarded by mutex_ while Run's threads are at work
};

class DirectoryBench {
 public:
  DirectoryBench(hdfs::FileSystem& fs, const std::string& directory, const BenchOptions& options, const Clock& clock)
      : fs_(fs), options_(options), clock_(clock) {
    const std::string stem =
        fmt::format("{}/paceline-bench-{:016x}", directory == "/" ? "" : directory, hdfs::MakeWriterId(clock).random);
    for (int file = 0; file < options.files; ++file) paths_.push_back(fmt::format("{}-{}", stem, file));
  }

  Result<std::vector<BenchResult>> Run(const ProgressSink& progress) {
    const uint64_t total = options_.file_bytes * paths_.size();
    Measurement writing("write", options_.files, total, clock_, progress);
    ASSIGN_OR_RETURN(const BenchResult written, writing.Run([&](int file) { return Write(file, writing); }));
    Measurement reading("read", options_.files, total, clock_, progress);
    ASSIGN_OR_RETURN(const BenchResult read, reading.Run([&](int file) { return Read(file, reading); }));
    return std::vector<BenchResult>{written, read};
  }

  void RemoveFiles() {
    for (const std::string& path : paths_) {
      // Those that a failure left unwritten are not there.
      fs_.Remove(path, hdfs::RemoveMode::kFileOrEmptyDirectory, Deadline::After(clock_, kRemoveLimit)).IgnoreError();
    }
  }

 private:
  Deadline Soon() const { return Deadline::After(clock_, options_.call_limit); }

  Status Write(int file, Measurement& measurement) {
    const hdfs::CreateOptions create{
        .mode = hdfs::CreateMode::kFailIfExists, .replication = options_.replication, .length = options_.file_bytes};
    ASSIGN_OR_RETURN(const std::unique_ptr<hdfs::Writer> writer,
                     fs_.Create(paths_[static_cast<size_t>(file)], create, Soon()));
    std::vector<std::byte> buffer(kCallBytes);
    for (uint64_t at = 0; at < options_.file_bytes;) {
      const std::span<std::byte> piece = std::span(buffer).first(std::min(kCallBytes, options_.file_bytes - at));
      Fill(static_cast<uint64_t>(file), at, piece);
      const TimePoint start = clock_.Now();
      RETURN_IF_ERROR(writer->Write(piece, Soon()));
      measurement.Moved(piece.size(), start);
      at += piece.size();
    }
    const TimePoint start = clock_.Now();
    RETURN_IF_ERROR(writer->Close(Soon()));
    measurement.Moved(0, start);
    return Status();
  }

  Status Read(int file, Measurement& measurement) {
    const std::string& path = paths_[static_cast<size_t>(file)];
    ASSIGN_OR_RETURN(const std::unique_ptr<hdfs::Reader> reader, fs_.Open(path, Soon()));
    if (reader->length_bytes() != options_.file_bytes) return DataLossError(path + ": has another length than written");
    std::vector<std::byte> buffer(kCallBytes);
    for (uint64_t at = 0; at < options_.file_bytes;) {
      const TimePoint start = clock_.Now();
      ASSIGN_OR_RETURN(const size_t got, reader->Read(at, buffer, Soon()));
      measurement.Moved(got, start);
      if (got == 0 || !Fits(static_cast<uint64_t>(file), at, std::span(buffer).first(got))) {
        return DataLossError(fmt::format("{}: other bytes at {} than were written", path, at));
      }
      at += got;
    }
    return Status();
  }

  hdfs::FileSystem& fs_;
  const BenchOptions& options_;
  const Clock& clock_;
  std::vector<std::string> paths_;
};

double BytesPerSecond(const BenchResult& result) {
  return static_cast<double>(result.bytes) / std::max(1e-6, ToSeconds(result.took));
}

}  // namespace

Result<std::vector<BenchResult>> BenchDirectory(hdfs::FileSystem& fs, const std::string& directory,
                                                const BenchOptions& options, const Clock& clock,
                                                const ProgressSink& progress) {
  DirectoryBench bench(fs, directory, options, clock);
  Result<std::vector<BenchResult>> results = bench.Run(progress);
  if (!options.keeps_files) bench.RemoveFiles();
  return results;
}

Result<BenchResult> BenchFile(hdfs::FileSystem& fs, const std::string& path, const BenchOptions& options,
                              const Clock& clock, const ProgressSink& progress) {
  const auto soon = [&] { return Deadline::After(clock, options.call_limit); };
  ASSIGN_OR_RETURN(const std::unique_ptr<hdfs::Reader> reader, fs.Open(path, soon()));
  const uint64_t length = reader->length_bytes();
  Measurement reading("read", 1, length, clock, progress);
  return reading.Run([&](int) -> Status {
    std::vector<std::byte> buffer(kCallBytes);
    for (uint64_t at = 0; at < length;) {
      const TimePoint start = clock.Now();
      ASSIGN_OR_RETURN(const size_t got, reader->Read(at, buffer, soon()));
      if (got == 0) return DataLossError(path + ": shorter than it was when it was opened");
      reading.Moved(got, start);
      at += got;
    }
    return Status();
  });
}

Table BenchTable(const std::vector<BenchResult>& results) {
  Table table{.headers = {"OPERATION", "FILES", "SIZE", "TIME", "RATE", "MBIT/S", "CPU TIME", "LONGEST CALL"},
              .rows = {}};
  for (const BenchResult& result : results) {
    const double rate = BytesPerSecond(result);
    table.rows.push_back({result.operation, std::to_string(result.files), SizeText(result.bytes),
                          FormatSeconds(ToSeconds(result.took)), SizeText(static_cast<uint64_t>(rate)) + "/s",
                          fmt::format("{:.0f}", rate * 8e-6), FormatSeconds(ToSeconds(result.cpu)),
                          FormatSeconds(ToSeconds(result.longest_call))});
  }
  return table;
}

nlohmann::json BenchValue(const BenchResult& result) {
  return {{"operation", result.operation},
          {"files", result.files},
          {"bytes", result.bytes},
          {"seconds", ToSeconds(result.took)},
          {"bytesPerSecond", BytesPerSecond(result)},
          {"cpuSeconds", ToSeconds(result.cpu)},
          {"longestCallSeconds", ToSeconds(result.longest_call)}};
}

}  // namespace paceline::cli
