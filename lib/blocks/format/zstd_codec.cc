#include "lib/blocks/format/zstd_codec.h"

#include <zstd.h>

#include "lib/base/check.h"

namespace paceline::blocks {
namespace {

constexpr int kMaxWindowLog = 27;

Status DamagedFrame(const char* why) { return DataLossError(std::string("zstd: ") + why); }

}  // namespace

struct ZstdDecoder::Context {
  ZSTD_DCtx* zstd = ZSTD_createDCtx();
  ~Context() { ZSTD_freeDCtx(zstd); }
};

ZstdDecoder::ZstdDecoder() : context_(std::make_unique<Context>()) { CHECK(context_->zstd != nullptr); }
ZstdDecoder::~ZstdDecoder() = default;

Status ZstdDecoder::DecodeFrame(std::string_view frame, std::span<char> out) {
  const size_t frame_bytes = ZSTD_findFrameCompressedSize(frame.data(), frame.size());
  if (ZSTD_isError(frame_bytes)) return DamagedFrame(ZSTD_getErrorName(frame_bytes));
  if (frame_bytes != frame.size()) return DamagedFrame("more than one frame");
  const size_t unpacked = ZSTD_decompressDCtx(context_->zstd, out.data(), out.size(), frame.data(), frame.size());
  if (ZSTD_isError(unpacked)) return DamagedFrame(ZSTD_getErrorName(unpacked));
  return unpacked == out.size() ? Status() : DamagedFrame("less content than expected");
}

struct ZstdStreamDecoder::Context {
  ZSTD_DCtx* zstd = ZSTD_createDCtx();
  ~Context() { ZSTD_freeDCtx(zstd); }
};

ZstdStreamDecoder::ZstdStreamDecoder() : context_(std::make_unique<Context>()), piece_(ZSTD_DStreamOutSize(), '\0') {
  CHECK(context_->zstd != nullptr);
  CHECK(!ZSTD_isError(ZSTD_DCtx_setParameter(context_->zstd, ZSTD_d_windowLogMax, kMaxWindowLog)));
}
ZstdStreamDecoder::~ZstdStreamDecoder() = default;

Result<std::string_view> ZstdStreamDecoder::Decode(std::string_view* input) {
  ZSTD_inBuffer in{input->data(), input->size(), 0};
  ZSTD_outBuffer out{piece_.data(), piece_.size(), 0};
  while (out.pos == 0 && (in.pos < in.size || has_more_)) {
    const size_t rest = ZSTD_decompressStream(context_->zstd, &out, &in);
    if (ZSTD_isError(rest)) return DamagedFrame(ZSTD_getErrorName(rest));
    is_between_frames_ = rest == 0;
    has_more_ = rest != 0 && out.pos == out.size;
  }
  input->remove_prefix(in.pos);
  return std::string_view(piece_.data(), out.pos);
}

struct ZstdEncoder::Context {
  ZSTD_CCtx* zstd = ZSTD_createCCtx();
  ~Context() { ZSTD_freeCCtx(zstd); }
};

ZstdEncoder::ZstdEncoder(int level) : context_(std::make_unique<Context>()) {
  CHECK(context_->zstd != nullptr);
  CHECK(!ZSTD_isError(ZSTD_CCtx_setParameter(context_->zstd, ZSTD_c_compressionLevel, level)));
}
ZstdEncoder::~ZstdEncoder() = default;

void ZstdEncoder::AppendFrame(std::string_view content, std::string* out) {
  const size_t start = out->size();
  out->resize(start + ZSTD_compressBound(content.size()));
  const size_t packed =
      ZSTD_compress2(context_->zstd, out->data() + start, out->size() - start, content.data(), content.size());
  CHECK(!ZSTD_isError(packed));  // the buffer is as large as the worst case
  out->resize(start + packed);
}

}  // namespace paceline::blocks
