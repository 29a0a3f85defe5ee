// Writes a file that becomes a striped one when it is large enough, and an ordinary one when not. Internal to lib/hdfs;
// made by StripedFileSystem. Used by one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lib/hdfs/stripe_writer.h"
#include "lib/hdfs/striped_file_system.h"

namespace paceline::hdfs {

// The mode of the folder of a file with `mode`: an x for each r, and all for the owner, who removes it.
FileMode StripeFolderMode(FileMode mode);

class StripedWriter final : public Writer {
 public:
  struct Target {
    FileSystem& plain;
    ByteBudget& budget;
    const Clock& clock;
    std::string path;
    CreateOptions options;
    StripeRules rules;
    StripeManifest before;  // of a file that is appended to; empty for a new one
    // Called after the file has got its name: what the name stood for before can go.
    std::function<void(Deadline)> on_replaced;
  };

  // `file` gets either the bytes or the manifest.
  StripedWriter(Target target, std::unique_ptr<Writer> file)
      : target_(std::move(target)), file_(std::move(file)), position_(target_.before.length_bytes()) {}
  ~StripedWriter() override { Abandon(); }

  Status Write(std::span<const std::byte> data, Deadline deadline) override;
  Status Flush(Deadline deadline) override { return FlushAs(StripeLane::Order::kFlush, deadline); }
  Status Sync(Deadline deadline) override { return FlushAs(StripeLane::Order::kSync, deadline); }
  Status Close(Deadline deadline) override;
  void Abandon() override;
  uint64_t position_bytes() const override { return position_; }

 private:
  Status Usable() const;
  Status Fail(Status status) { return failure_ = std::move(status); }
  Status FlushAs(StripeLane::Order order, Deadline deadline);
  Status OpenStripes(uint32_t files, Deadline deadline);
  // The held bytes go into the file, which is an ordinary one.
  Status WriteHeld(Deadline deadline);
  void DropHeld();
  Status Take(std::string_view data, Deadline deadline);
  Status Finish(Deadline deadline);

  const Target target_;
  const std::unique_ptr<Writer> file_;
  std::unique_ptr<StripeWriter> stripes_;
  bool is_ordinary_ = false;  // the bytes go into file_
  std::string held_;          // while neither is decided
  uint64_t position_;
  bool is_closed_ = false;
  Status failure_;
};

}  // namespace paceline::hdfs
