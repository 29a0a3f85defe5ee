// A connection as the protocol code sees it: plain TCP, or TCP under the protection that a SASL handshake agreed on.
// Internal to lib/hdfs. One thread may read while another one writes; Shutdown may come from any thread at any time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace paceline::hdfs {

class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // At least one byte, at most `size`; 0 at the end of the stream. kUnavailable for a reset, kDeadlineExceeded.
  virtual Result<size_t> ReadSome(char* out, size_t size, Deadline deadline) = 0;

  // All bytes of `head`, then all of `body`. kUnavailable for a reset, kDeadlineExceeded.
  virtual Status Write(std::string_view head, std::string_view body, Deadline deadline) = 0;
  Status Write(std::string_view bytes, Deadline deadline) { return Write(bytes, {}, deadline); }

  // Ends both directions: a blocked read or write in another thread fails at once.
  virtual void Shutdown() = 0;

  // Whether an idle stream can carry another request: open, and nothing unasked has come in. Does not block.
  virtual bool IsIdleAndOpen() = 0;

  // Exactly `size` bytes. kUnavailable when the stream ends before.
  Status ReadFull(char* out, size_t size, Deadline deadline);
};

// Reads messages out of a stream with few calls: small reads are served from a buffer, large ones go past it. Borrows
// the stream. Used by one thread at a time.
class BufferedReader {
 public:
  explicit BufferedReader(ByteStream& stream, size_t buffer_bytes = 8192)
      : stream_(stream), buffer_(buffer_bytes, '\0') {}

  Status ReadFull(char* out, size_t size, Deadline deadline);
  // A varint length of at most `max_bytes`, and as many bytes. kDataLoss when it is longer.
  Status ReadDelimited(std::string* message, size_t max_bytes, Deadline deadline);
  // Until at least one byte can be read without waiting; kDeadlineExceeded leaves everything as it was.
  Status AwaitBytes(Deadline deadline) { return has_buffered() ? Status() : Fill(deadline); }
  bool has_buffered() const { return begin_ < end_; }

 private:
  Status Fill(Deadline deadline);

  ByteStream& stream_;
  std::string buffer_;
  size_t begin_ = 0, end_ = 0;
};

// Resolves and connects, no later than `deadline`. kUnavailable, naming host and port.
Result<std::unique_ptr<ByteStream>> ConnectTcp(const std::string& host, uint16_t port, const Clock& clock,
                                               Deadline deadline);

}  // namespace paceline::hdfs
