// A process of its own for each test of the plugin, which has one ring per process and never lets go of it.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "lib/ring/reader.h"
#include "tests/ring/ring_folder.h"
#include "tests/tracer/nccl_driver.h"

namespace paceline::tracer {

// Runs `body` in a child whose rings lie in `folder`; its failed expectations are the caller's.
template <typename Body>
void InProcess(const ring::RingFolder& folder, Body body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("PACELINE_TRACE_DIR", folder.path().c_str(), 1);
    body();
    std::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "failed or crashed in its process";
}

// The ring of a folder with one process.
class RingView {
 public:
  explicit RingView(const std::string& path) : reader_(ring::RingReader::Open(path, error_)) { Refresh(); }

  void Refresh() {
    ASSERT_NE(reader_, nullptr) << error_;
    ASSERT_TRUE(reader_->ReadTables(tables, error_)) << error_;
    ring::Records batch;
    ASSERT_TRUE(reader_->ReadRecords(1000000, batch, error_)) << error_;
    EXPECT_EQ(batch.damaged, 0u);
    lost += batch.lost;
    records.insert(records.end(), batch.records.begin(), batch.records.end());
  }

  size_t CountRecords(uint32_t type) const {
    size_t count = 0;
    for (const RingRecord& record : records) count += record.type == type ? 1 : 0;
    return count;
  }

  ring::RingReader& reader() { return *reader_; }
  ring::Tables tables;
  std::vector<RingRecord> records;
  uint64_t lost = 0;

 private:
  std::string error_;
  std::unique_ptr<ring::RingReader> reader_;
};

}  // namespace paceline::tracer
