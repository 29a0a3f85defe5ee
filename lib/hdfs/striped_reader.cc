#include "lib/hdfs/striped_reader.h"

#include <fmt/format.h>

#include <algorithm>

namespace paceline::hdfs {
Result<std::unique_ptr<Reader>> StripedReader::Open(FileSystem& plain, const std::string& directory,
                                                    const StripeManifest& manifest, Deadline deadline) {
  auto reader = std::make_unique<StripedReader>();
  for (const StripeSet& layout : manifest.sets) {
    Set set{.layout = layout, .start = reader->length_, .stripes = {}};
    const std::vector<ByteRange> spans = SpanStripes(layout, {0, layout.length_bytes});
    for (uint32_t i = 0; i < layout.files; ++i) {
      const std::string path = fmt::format("{}/{}/{}", directory, layout.folder, StripeName(i));
      Result<std::unique_ptr<Reader>> stripe = plain.Open(path, deadline);
      if (stripe.status().code() == StatusCode::kNotFound) return DataLossError("stripe " + path + " is not there");
      if (!stripe.ok()) return stripe.status();
      if ((*stripe)->length_bytes() < spans[i].length) {
        return DataLossError(
            fmt::format("stripe {} has {} of {} bytes", path, (*stripe)->length_bytes(), spans[i].length));
      }
      set.stripes.push_back(*std::move(stripe));
    }
    reader->length_ += layout.length_bytes;
    reader->sets_.push_back(std::move(set));
  }
  return std::unique_ptr<Reader>(std::move(reader));
}

Result<size_t> StripedReader::Read(uint64_t offset, std::span<std::byte> out, Deadline deadline) {
  if (offset >= length_) return 0;
  const uint64_t end = offset + std::min<uint64_t>(out.size(), length_ - offset);
  const uint64_t begin = offset;
  uint64_t ahead;
  {
    MutexLock lock(mutex_);
    ahead = window_.OnRead(offset, end - offset);
  }
  if (ahead > 0) Prefetch({offset, end - offset + ahead});
  for (const Set& set : sets_) {
    const uint64_t set_end = set.start + set.layout.length_bytes;
    if (offset >= set_end || end <= set.start) continue;
    const ByteRange here{offset - set.start, std::min(end, set_end) - offset};
    const std::vector<StripePiece> pieces = PlanStripes(set.layout, here);
    // All stripes at once; the reads then wait for one after the other.
    if (pieces.size() > 1) {
      for (const StripePiece& piece : pieces) set.stripes[piece.stripe]->Prefetch(piece.in_stripe);
    }
    for (const StripePiece& piece : pieces) {
      const std::span<std::byte> place = out.subspan(set.start + piece.in_set - begin, piece.in_stripe.length);
      ASSIGN_OR_RETURN(const size_t got, set.stripes[piece.stripe]->Read(piece.in_stripe.offset, place, deadline));
      if (got != place.size()) return DataLossError("a stripe of " + set.layout.folder + " ends too early");
    }
    offset += here.length;
  }
  return offset - begin;
}

void StripedReader::Prefetch(ByteRange range) {
  for (const Set& set : sets_) {
    const uint64_t begin = std::max(range.offset, set.start);
    const uint64_t end = std::min(range.offset + range.length, set.start + set.layout.length_bytes);
    if (begin >= end) continue;
    const std::vector<ByteRange> spans = SpanStripes(set.layout, {begin - set.start, end - begin});
    for (size_t i = 0; i < spans.size(); ++i) {
      if (spans[i].length > 0) set.stripes[i]->Prefetch(spans[i]);
    }
  }
}

}  // namespace paceline::hdfs
