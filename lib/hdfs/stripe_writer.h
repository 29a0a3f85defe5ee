// Writes the stripes of one set, each through a writer and a thread of its own. Internal to lib/hdfs; used by
// StripedWriter. Used by one thread at a time.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/mutex.h"
#include "lib/hdfs/byte_budget.h"
#include "lib/hdfs/file_system.h"
#include "lib/hdfs/stripe_manifest.h"

namespace paceline::hdfs {

// One stripe: takes orders, and carries them out one after the other in its thread.
class StripeLane {
 public:
  enum class Order { kWrite, kFlush, kSync, kClose };

  StripeLane(std::unique_ptr<Writer> writer, ByteBudget& budget, const Clock& clock);
  // Abandons what was not closed. Waits for the order that is being carried out.
  ~StripeLane();

  // Counts memory for an order to write: waits for it, unless this lane has nothing under way that could give some
  // back.
  Status TakeMemory(uint64_t bytes, Deadline deadline);
  // Waits while too much is queued. `counted_bytes` of memory were counted for it, which the lane gives back. A failure
  // of an earlier order comes here or from Await, and then always.
  Status Ask(Order order, std::string data, uint64_t counted_bytes, Deadline deadline);
  // Until all orders are carried out.
  Status Await(Deadline deadline);

 private:
  struct Job {
    Order order;
    std::string data;
    uint64_t counted_bytes = 0;
  };
  void Run(std::stop_token stop);
  Status Do(const Job& job);

  const std::unique_ptr<Writer> writer_;
  ByteBudget& budget_;
  const Clock& clock_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Job> jobs_ GUARDED_BY(mutex_);  // the first one is being carried out
  Status failure_ GUARDED_BY(mutex_);
  std::jthread thread_;
};

class StripeWriter {
 public:
  // The folder is made here. Failures are those of Mkdirs and Create.
  struct Place {
    FileSystem& fs;
    ByteBudget& budget;
    const Clock& clock;
    std::string folder;
    FileMode folder_mode = 0;
  };
  static Result<std::unique_ptr<StripeWriter>> Open(Place place, StripeSet set, const CreateOptions& options,
                                                    Deadline deadline);
  // Removes everything unless Close was reached and Keep called. Stops the writers of all stripes at once, so that it
  // takes a few seconds at most, however hung the DataNodes.
  ~StripeWriter();

  Status Write(std::string_view data, Deadline deadline);
  // kFlush, kSync or kClose on all stripes.
  Status All(StripeLane::Order order, Deadline deadline);
  // The folder stays: a manifest names it now.
  void Keep() { is_kept_ = true; }

  // With its length so far.
  const StripeSet& set() const { return set_; }

 private:
  StripeWriter(Place place, StripeSet set, const std::stop_token& stop)
      : place_(std::move(place)), set_(std::move(set)), on_stop_(stop, [this] { stop_.request_stop(); }) {}

  // Hands the unit that is being filled to its lane.
  Status SendUnit(Deadline deadline);
  StripeLane& Lane() { return *lanes_[set_.length_bytes / set_.unit_bytes % set_.files]; }

  const Place place_;
  StripeSet set_;
  std::stop_source stop_;
  std::vector<std::unique_ptr<StripeLane>> lanes_;
  std::string filling_;  // the unit that is not full yet
  uint64_t filling_counted_ = 0;
  bool is_kept_ = false;
  std::stop_callback<std::function<void()>> on_stop_;  // the last member: it ends before the others
};

}  // namespace paceline::hdfs
