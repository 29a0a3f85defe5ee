// Decoding of gzip bodies, piece by piece, so that a large compressed list never stands in memory as a whole. Used by
// the HTTP client when its caller asked for gzip. One stream per object; not thread-safe; does not block.
#pragma once

#include <memory>
#include <string_view>

#include "lib/net/http.h"

namespace paceline::net {

class GzipDecoder {
 public:
  GzipDecoder();
  ~GzipDecoder();
  GzipDecoder(const GzipDecoder&) = delete;
  GzipDecoder& operator=(const GzipDecoder&) = delete;

  // Decodes `input` and hands the output to `consumer` in pieces of at most 64 KiB. kDataLoss for bytes that are not
  // gzip or fail the checksum; a non-ok return of `consumer` is passed on.
  Status Feed(std::string_view input, const BodyConsumer& consumer);
  // Ok when the stream ended where a gzip member ends; kDataLoss when it was cut short.
  Status Finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace paceline::net
