// Cuts the two streams of the API server, lists and watches, into objects while their bytes arrive, in either encoding;
// the first byte tells which one it is. Nothing is kept but the object that is not whole yet.
//
// Layout of the protobuf streams: docs/formats/kube-protobuf.md sections 2 and 3. Used by the reflector; not
// thread-safe. Safe on untrusted bytes: kDataLoss for a stream that makes no sense, kResourceExhausted for an object of
// more than 64 MiB.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "lib/base/status.h"
#include "lib/kube/reflector.h"

namespace paceline::kube {

// Bytes that are not a whole unit yet, from one piece to the next.
class PendingBytes {
 public:
  // Consumes units from the front of `bytes`: returns how many bytes that were, and sets `need` to how many the next
  // unit needs at least.
  using Take = std::function<Status(std::string_view bytes, size_t* consumed, size_t* need)>;

  Status Feed(std::string_view piece, const Take& take);
  bool empty() const { return bytes_.empty(); }

 private:
  std::string bytes_;
  size_t need_ = 0;
};

class ListSplitter {
 public:
  // One object of the list, without an envelope. A failure ends the list.
  using Consumer = std::function<Status(std::string_view item, Encoding encoding)>;

  explicit ListSplitter(Consumer consumer);

  Status Feed(std::string_view piece);
  // Call after the last piece: kDataLoss when the list was cut short.
  Status Finish() const;

  const std::string& resource_version() const { return resource_version_; }
  const std::string& continue_token() const { return continue_token_; }

 private:
  enum class Part { kMagic, kEnvelope, kList };

  Status TakeProtobuf(std::string_view bytes, size_t* consumed, size_t* need);
  Status TakeField(std::string_view bytes, size_t* consumed, size_t* need);
  Status ReadListMeta(std::string_view message);
  Status FeedJson(std::string_view piece);
  Status CloseJsonObject(std::string_view piece, size_t end);
  size_t SkipJsonString(std::string_view piece, size_t at);

  const Consumer consumer_;
  bool has_started_ = false;
  bool is_protobuf_ = false;
  std::string resource_version_;
  std::string continue_token_;

  PendingBytes pending_;
  Part part_ = Part::kMagic;
  uint64_t list_bytes_left_ = 0;
  bool has_seen_list_ = false;

  // JSON: where we stand between brackets.
  int depth_ = 0;
  bool is_in_string_ = false;
  bool is_after_backslash_ = false;
  bool is_keeping_ = false;  // inside an item or the list's metadata
  size_t kept_from_ = 0;     // where it begins in the current piece
  std::string kept_;         // its beginning, from earlier pieces
  std::string last_string_;  // at depth 1: the latest key
  std::string array_key_;    // the key of the array that we are in
};

struct WatchFrame {
  std::string_view type;    // "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"
  std::string_view object;  // without an envelope
  Encoding encoding = Encoding::kProtobuf;
};

class WatchSplitter {
 public:
  // One event. A failure ends the watch.
  using Consumer = std::function<Status(const WatchFrame& frame)>;

  explicit WatchSplitter(Consumer consumer);

  Status Feed(std::string_view piece);

 private:
  Status TakeProtobuf(std::string_view bytes, size_t* consumed, size_t* need);
  Status FeedJson(std::string_view piece);
  Status ReadProtobufEvent(std::string_view message);
  Status ReadJsonEvent(std::string_view line);

  const Consumer consumer_;
  bool has_started_ = false;
  bool is_protobuf_ = false;
  PendingBytes pending_;
  std::string line_;  // JSON: the beginning of the event that is not whole yet
};

}  // namespace paceline::kube
