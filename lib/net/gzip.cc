#include "lib/net/gzip.h"

#include <zlib.h>

#include <string>

#include "lib/base/check.h"

namespace paceline::net {

namespace {
constexpr size_t kPieceBytes = 64 * 1024;
}

struct GzipDecoder::State {
  z_stream stream = {};
  bool at_member_end = true;  // nothing read of a member yet: an empty body is a legal end
  bool has_member = false;
  std::string piece = std::string(kPieceBytes, '\0');
};

GzipDecoder::GzipDecoder() : state_(std::make_unique<State>()) {
  constexpr int kGzipOnly = 16;
  CHECK(inflateInit2(&state_->stream, MAX_WBITS + kGzipOnly) == Z_OK);
}

GzipDecoder::~GzipDecoder() { inflateEnd(&state_->stream); }

Status GzipDecoder::Feed(std::string_view input, const BodyConsumer& consumer) {
  z_stream& stream = state_->stream;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
  stream.avail_in = static_cast<uInt>(input.size());
  bool output_was_full = false;
  while (stream.avail_in > 0 || output_was_full) {
    if (state_->at_member_end && stream.avail_in > 0) {
      if (state_->has_member && inflateReset(&stream) != Z_OK) return DataLossError("gzip: cannot start a new member");
      state_->at_member_end = false;
      state_->has_member = true;
    }
    stream.next_out = reinterpret_cast<Bytef*>(state_->piece.data());
    stream.avail_out = kPieceBytes;
    const int result = inflate(&stream, Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      return DataLossError(std::string("gzip: ") + (stream.msg != nullptr ? stream.msg : "broken stream"));
    }
    const size_t produced = kPieceBytes - stream.avail_out;
    if (produced > 0) RETURN_IF_ERROR(consumer(std::string_view(state_->piece.data(), produced)));
    state_->at_member_end = result == Z_STREAM_END;
    output_was_full = stream.avail_out == 0 && !state_->at_member_end;
  }
  return Status();
}

Status GzipDecoder::Finish() const {
  if (state_->at_member_end) return Status();
  return DataLossError("gzip: the stream is cut short");
}

}  // namespace paceline::net
