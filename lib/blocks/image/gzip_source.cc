// gzip by ISA-L, which inflates at two to three times zlib's rate: the serial part of a conversion.
#include <isa-l/igzip_lib.h>

#include "lib/blocks/image/byte_source.h"

namespace paceline::blocks {
namespace {

class GzipSource final : public ByteSource {
 public:
  explicit GzipSource(std::unique_ptr<ByteSource> below) : below_(std::move(below)), input_(256U << 10, '\0') {
    isal_inflate_init(&state_);
    state_.crc_flag = ISAL_GZIP;
  }

  Result<size_t> Read(std::span<char> out) override {
    state_.next_out = reinterpret_cast<uint8_t*>(out.data());
    state_.avail_out = static_cast<uint32_t>(std::min<size_t>(out.size(), 1U << 30));
    const uint32_t room = state_.avail_out;
    while (state_.avail_out == room) {
      if (state_.avail_in == 0 && !is_at_end_) RETURN_IF_ERROR(Refill());
      if (state_.block_state == ISAL_BLOCK_FINISH) {
        if (state_.avail_in == 0) {
          if (is_at_end_) return size_t{0};
          continue;
        }
        isal_inflate_reset(&state_);  // the next member
      }
      const uint32_t input_before = state_.avail_in;
      const int result = isal_inflate(&state_);
      if (result < 0 || result > ISAL_END_INPUT) return Damaged(result);
      const bool stands_still = state_.avail_in == input_before && state_.avail_out == room;
      if (stands_still && is_at_end_ && state_.block_state != ISAL_BLOCK_FINISH) {
        return DataLossError("gzip: the stream is cut short");
      }
    }
    return room - state_.avail_out;
  }

 private:
  Status Refill() {
    ASSIGN_OR_RETURN(const size_t got, below_->Read(input_));
    is_at_end_ = got == 0;
    state_.next_in = reinterpret_cast<uint8_t*>(input_.data());
    state_.avail_in = static_cast<uint32_t>(got);
    return Status();
  }

  static Status Damaged(int code) {
    switch (code) {
      case ISAL_INCORRECT_CHECKSUM: return DataLossError("gzip: wrong checksum");
      case ISAL_INVALID_WRAPPER: return DataLossError("gzip: what follows is no gzip member");
      case ISAL_UNSUPPORTED_METHOD: return DataLossError("gzip: unknown method of compression");
      default: return DataLossError("gzip: damaged data");
    }
  }

  std::unique_ptr<ByteSource> below_;
  std::string input_;
  bool is_at_end_ = false;
  inflate_state state_;
};

}  // namespace

std::unique_ptr<ByteSource> NewGzipSource(std::unique_ptr<ByteSource> below) {
  return std::make_unique<GzipSource>(std::move(below));
}

}  // namespace paceline::blocks
