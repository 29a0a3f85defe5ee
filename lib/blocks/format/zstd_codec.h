// zstd for chunks, metadata and layers: the one wrapper of the library in lib/blocks.
//
// Each object keeps a context and belongs to one thread at a time. Nothing here blocks.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace paceline::blocks {

class ZstdDecoder {
 public:
  ZstdDecoder();
  ~ZstdDecoder();
  ZstdDecoder(const ZstdDecoder&) = delete;
  ZstdDecoder& operator=(const ZstdDecoder&) = delete;

  // Fills `out` from one frame. kDataLoss when the frame is damaged or holds more or less than that.
  Status DecodeFrame(std::string_view frame, std::span<char> out);

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// Any number of frames one after the other, of any size. Windows of more than 128 MiB are refused.
class ZstdStreamDecoder {
 public:
  ZstdStreamDecoder();
  ~ZstdStreamDecoder();
  ZstdStreamDecoder(const ZstdStreamDecoder&) = delete;
  ZstdStreamDecoder& operator=(const ZstdStreamDecoder&) = delete;

  // The next piece (at most 128 KiB), valid until the next call; takes what it needs from the front of `input`. Empty
  // when all of `input` is used and more is needed, or the end is reached. kDataLoss for a damaged stream.
  Result<std::string_view> Decode(std::string_view* input);
  // Whether the stream may end here.
  bool is_between_frames() const { return is_between_frames_; }

 private:
  struct Context;
  std::unique_ptr<Context> context_;
  std::string piece_;
  bool is_between_frames_ = true;
  bool has_more_ = false;  // output that did not fit the last piece
};

class ZstdEncoder {
 public:
  explicit ZstdEncoder(int level);
  ~ZstdEncoder();
  ZstdEncoder(const ZstdEncoder&) = delete;
  ZstdEncoder& operator=(const ZstdEncoder&) = delete;

  // One frame with the content size in it, appended to `out`. The same input gives the same bytes.
  void AppendFrame(std::string_view content, std::string* out);

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace paceline::blocks
