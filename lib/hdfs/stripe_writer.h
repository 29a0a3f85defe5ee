// Writes the stripes of one set, each through a writer and a thread of its own. Internal to lib/hdfs; used by
// StripedWriter. Used by one thread at a time.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/mutex.h"
#include "lib/hdfs/file_system.h"
#include "lib/hdfs/stripe_manifest.h"

namespace paceline::hdfs {

// One stripe: takes orders, and carries them out one after the other in its thread.
class StripeLane {
 public:
  enum class Order { kWrite, kFlush, kSync, kClose };

  StripeLane(std::unique_ptr<Writer> writer, const Clock& clock);
  // Abandons what was not closed.
  ~StripeLane();

  // Waits while too much is queued. A failure of an earlier order comes here or from Await, and then always.
  Status Ask(Order order, std::string data, Deadline deadline);
  // Until all orders are carried out.
  Status Await(Deadline deadline);

 private:
  struct Job {
    Order order;
    std::string data;
  };
  void Run(std::stop_token stop);
  Status Do(const Job& job);

  const std::unique_ptr<Writer> writer_;
  const Clock& clock_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Job> jobs_ GUARDED_BY(mutex_);  // the first one is being carried out
  Status failure_ GUARDED_BY(mutex_);
  std::jthread thread_;
};

class StripeWriter {
 public:
  // `folder_path` is made here, with `folder_mode`. Failures are those of Mkdirs and Create.
  static Result<std::unique_ptr<StripeWriter>> Open(FileSystem& fs, const Clock& clock, std::string folder_path,
                                                    StripeSet set, FileMode folder_mode, const CreateOptions& options,
                                                    Deadline deadline);
  // Removes everything unless Close was reached and Keep called.
  ~StripeWriter();

  Status Write(std::string_view data, Deadline deadline);
  // kFlush, kSync or kClose on all stripes.
  Status All(StripeLane::Order order, Deadline deadline);
  // The folder stays: a manifest names it now.
  void Keep() { is_kept_ = true; }

  // With its length so far.
  const StripeSet& set() const { return set_; }

 private:
  StripeWriter(FileSystem& fs, const Clock& clock, std::string folder_path, StripeSet set)
      : fs_(fs), clock_(clock), folder_path_(std::move(folder_path)), set_(std::move(set)) {}

  FileSystem& fs_;
  const Clock& clock_;
  const std::string folder_path_;
  StripeSet set_;
  std::vector<std::unique_ptr<StripeLane>> lanes_;
  std::string filling_;  // the unit that is not full yet
  bool is_kept_ = false;
};

}  // namespace paceline::hdfs
