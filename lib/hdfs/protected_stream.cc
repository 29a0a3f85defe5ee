// The two forms of a protected data connection: SASL's own wrapping, and AES in counter mode.
#include "lib/hdfs/protected_stream.h"

#include <algorithm>
#include <cstring>

#include "lib/hdfs/wire_bytes.h"

namespace paceline::hdfs {
namespace {

constexpr size_t kMaxWrappedBytes = 1 << 20;
constexpr size_t kPlainBytesPerFrame = 60 << 10;  // below the 64 KiB that both sides agreed on, with what wrapping adds

class SaslStream final : public ByteStream {
 public:
  SaslStream(std::unique_ptr<ByteStream> inner, std::unique_ptr<SaslProtection> protection)
      : inner_(std::move(inner)), protection_(std::move(protection)) {}

  Result<size_t> ReadSome(char* out, size_t size, Deadline deadline) override {
    while (at_ == plain_.size()) {
      RETURN_IF_ERROR(FillFrame(deadline));
      // A frame that ended early would be taken up here again: the bytes that came are kept.
      std::string wrapped;
      wrapped.swap(frame_);
      if (wrapped.empty()) return 0;
      ASSIGN_OR_RETURN(plain_, protection_->Unwrap(std::string_view(wrapped).substr(4)));
      at_ = 0;
    }
    const size_t take = std::min(size, plain_.size() - at_);
    std::memcpy(out, plain_.data() + at_, take);
    at_ += take;
    return take;
  }

  Status Write(std::string_view head, std::string_view body, Deadline deadline) override {
    std::string plain(head);
    plain.append(body);
    std::string frames;
    for (std::string_view rest = plain; !rest.empty();) {
      const std::string_view piece = rest.substr(0, kPlainBytesPerFrame);
      ASSIGN_OR_RETURN(const std::string wrapped, protection_->Wrap(piece));
      AppendBigEndian(wrapped.size(), 4, &frames);
      frames += wrapped;
      rest.remove_prefix(piece.size());
    }
    return inner_->Write(frames, {}, deadline);
  }

  void Shutdown() override { inner_->Shutdown(); }
  bool IsIdleAndOpen() override { return at_ == plain_.size() && frame_.empty() && inner_->IsIdleAndOpen(); }

 private:
  // One whole frame into frame_, or nothing at the end of the stream. What has come stays there when time runs out.
  Status FillFrame(Deadline deadline) {
    while (true) {
      size_t want = 4;
      if (frame_.size() >= 4) {
        const uint32_t size = LoadBigEndian32(frame_.data());
        if (size > kMaxWrappedBytes) return DataLossError("a protected frame that is far too long");
        want = 4 + size;
        if (frame_.size() == want) return Status();
      }
      const size_t have = frame_.size();
      frame_.resize(want);
      Result<size_t> got = inner_->ReadSome(frame_.data() + have, want - have, deadline);
      frame_.resize(have + (got.ok() ? *got : 0));
      if (!got.ok()) return got.status();
      if (*got == 0 && have == 0) return Status();
      if (*got == 0) return UnavailableError("the connection was closed in the middle of a frame");
    }
  }

  const std::unique_ptr<ByteStream> inner_;
  const std::unique_ptr<SaslProtection> protection_;
  std::string frame_, plain_;
  size_t at_ = 0;
};

class AesStream final : public ByteStream {
 public:
  AesStream(std::unique_ptr<ByteStream> inner, std::unique_ptr<StreamCipher> out, std::unique_ptr<StreamCipher> in)
      : inner_(std::move(inner)), out_(std::move(out)), in_(std::move(in)) {}

  Result<size_t> ReadSome(char* out, size_t size, Deadline deadline) override {
    ASSIGN_OR_RETURN(const size_t got, inner_->ReadSome(out, size, deadline));
    const std::string plain = in_->Apply({out, got});
    std::memcpy(out, plain.data(), got);
    return got;
  }

  Status Write(std::string_view head, std::string_view body, Deadline deadline) override {
    const std::string first = out_->Apply(head);
    return inner_->Write(first, body.empty() ? std::string() : out_->Apply(body), deadline);
  }

  void Shutdown() override { inner_->Shutdown(); }
  bool IsIdleAndOpen() override { return inner_->IsIdleAndOpen(); }

 private:
  const std::unique_ptr<ByteStream> inner_;
  const std::unique_ptr<StreamCipher> out_, in_;
};

}  // namespace

std::unique_ptr<ByteStream> MakeSaslStream(std::unique_ptr<ByteStream> inner,
                                           std::unique_ptr<SaslProtection> protection) {
  return std::make_unique<SaslStream>(std::move(inner), std::move(protection));
}

std::unique_ptr<ByteStream> MakeAesStream(std::unique_ptr<ByteStream> inner, std::unique_ptr<StreamCipher> out,
                                          std::unique_ptr<StreamCipher> in) {
  return std::make_unique<AesStream>(std::move(inner), std::move(out), std::move(in));
}

}  // namespace paceline::hdfs
