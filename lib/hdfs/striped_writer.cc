#include "lib/hdfs/striped_writer.h"

#include "lib/hdfs/part_names.h"

namespace paceline::hdfs {
FileMode StripeFolderMode(FileMode mode) { return (mode & 0777) | ((mode & 0444) >> 2) | 0700; }

Status StripedWriter::Usable() const {
  if (!failure_.ok()) return failure_;
  return is_closed_ ? InvalidArgumentError(target_.path + ": the writer is closed") : Status();
}

Status StripedWriter::OpenStripes(uint32_t files, Deadline deadline) {
  const size_t slash = target_.path.rfind('/');
  StripeSet set{.files = files,
                .unit_bytes = target_.rules.unit_bytes,
                .length_bytes = 0,
                .folder = StripeFolderName(target_.path.substr(slash + 1), MakeWriterId(target_.clock))};
  StripeWriter::Place place{.fs = target_.plain,
                            .budget = target_.budget,
                            .clock = target_.clock,
                            .folder = target_.path.substr(0, slash + 1) + set.folder,
                            .folder_mode = StripeFolderMode(target_.options.permission)};
  ASSIGN_OR_RETURN(stripes_, StripeWriter::Open(std::move(place), std::move(set), target_.options, deadline));
  const Status status = stripes_->Write(held_, deadline);
  DropHeld();
  return status;
}

Status StripedWriter::WriteHeld(Deadline deadline) {
  const Status status = file_->Write(std::as_bytes(std::span(held_)), deadline);
  DropHeld();
  return status;
}

void StripedWriter::DropHeld() {
  target_.budget.Give(held_.size());
  std::string().swap(held_);
}

Status StripedWriter::Take(std::string_view data, Deadline deadline) {
  // Here only because the name stands for a striped file until now.
  if (!target_.rules.writes_stripes && target_.before.sets.empty()) is_ordinary_ = true;
  if (is_ordinary_) return file_->Write(std::as_bytes(std::span(data)), deadline);
  if (stripes_ != nullptr) return stripes_->Write(data, deadline);
  // Without memory to spare the file becomes a striped one at once.
  if (held_.size() + data.size() <= target_.rules.files * target_.rules.unit_bytes &&
      target_.budget.Take(data.size(), target_.clock.Now())) {
    held_.append(data);
    return Status();
  }
  RETURN_IF_ERROR(OpenStripes(target_.rules.files, deadline));
  return stripes_->Write(data, deadline);
}

Status StripedWriter::Write(std::span<const std::byte> data, Deadline deadline) {
  RETURN_IF_ERROR(Usable());
  const Status status = Take({reinterpret_cast<const char*>(data.data()), data.size()}, deadline);
  if (!status.ok()) return Fail(status);
  position_ += data.size();
  return Status();
}

Status StripedWriter::FlushAs(StripeLane::Order order, Deadline deadline) {
  RETURN_IF_ERROR(Usable());
  Status status;
  if (stripes_ == nullptr && !is_ordinary_) {
    // Few bytes so far, and they must be safe now: an ordinary file, or, behind other sets, one stripe.
    if (target_.before.sets.empty()) {
      is_ordinary_ = true;
      status = WriteHeld(deadline);
    } else {
      status = OpenStripes(1, deadline);
    }
  }
  if (status.ok() && is_ordinary_) {
    status = order == StripeLane::Order::kSync ? file_->Sync(deadline) : file_->Flush(deadline);
  } else if (status.ok()) {
    status = stripes_->All(order, deadline);
  }
  return status.ok() ? status : Fail(status);
}

Status StripedWriter::Finish(Deadline deadline) {
  if (stripes_ == nullptr && !is_ordinary_) {
    if (target_.before.sets.empty()) {
      RETURN_IF_ERROR(WriteHeld(deadline));
    } else if (!held_.empty()) {
      RETURN_IF_ERROR(OpenStripes(1, deadline));
    }
  }
  StripeManifest manifest = target_.before;
  if (stripes_ != nullptr) {
    RETURN_IF_ERROR(stripes_->All(StripeLane::Order::kClose, deadline));
    manifest.sets.push_back(stripes_->set());
  }
  if (!manifest.sets.empty()) {
    ASSIGN_OR_RETURN(const std::string text, EncodeManifest(manifest));
    RETURN_IF_ERROR(file_->Write(std::as_bytes(std::span(text)), deadline));
    RETURN_IF_ERROR(file_->Sync(deadline));
  }
  return file_->Close(deadline);
}

Status StripedWriter::Close(Deadline deadline) {
  RETURN_IF_ERROR(Usable());
  const Status status = Finish(deadline);
  if (!status.ok()) {
    // A lost answer may be that of a manifest which has its name: then the stripes must stay.
    const bool is_unknown = status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kDeadlineExceeded;
    if (is_unknown && stripes_ != nullptr) stripes_->Keep();
    return Fail(status);
  }
  is_closed_ = true;
  if (stripes_ != nullptr) stripes_->Keep();
  if (target_.on_replaced) target_.on_replaced(deadline);
  return Status();
}

void StripedWriter::Abandon() {
  if (is_closed_) return;
  is_closed_ = true;
  file_->Abandon();
  stripes_.reset();
  DropHeld();
}

}  // namespace paceline::hdfs
