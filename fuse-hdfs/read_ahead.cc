#include "fuse-hdfs/read_ahead.h"

#include <algorithm>

namespace paceline::fuse_hdfs {
namespace {

// The kernel's own read-ahead sends a file's requests slightly out of order.
constexpr uint64_t kSlackBytes = 4 << 20;

bool Continues(uint64_t next, hdfs::ByteRange range) {
  return range.offset + kSlackBytes >= next && range.offset <= next + kSlackBytes;
}

}  // namespace

// The stream that the read continues, or the one that was longest unused, started anew.
ReadAhead::Stream& ReadAhead::StreamAt(hdfs::ByteRange range) {
  Stream* oldest = &streams_[0];
  for (Stream& stream : streams_) {
    if (stream.distance > 0 && Continues(stream.next, range)) return stream;
    if (stream.last_use < oldest->last_use) oldest = &stream;
  }
  *oldest = Stream{.next = range.offset, .fetched = range.offset, .distance = rules_.first_bytes};
  return *oldest;
}

hdfs::ByteRange ReadAhead::Next(hdfs::ByteRange range, uint64_t file_bytes) {
  if (rules_.max_bytes == 0 || range.length == 0) return {};
  Stream& stream = StreamAt(range);
  stream.last_use = ++uses_;
  stream.next = std::max(stream.next, range.offset + range.length);
  // One read says nothing of the next one, unless it is the first of the file.
  if (stream.hits++ == 0 && range.offset != 0) return {};
  const uint64_t wanted = std::min(file_bytes, stream.next + stream.distance);
  // In pieces of half the distance: a call for every read would be many small ones.
  if (wanted <= stream.fetched || (wanted < file_bytes && wanted - stream.fetched < stream.distance / 2)) return {};
  const uint64_t from = std::max(stream.fetched, stream.next);
  stream.fetched = wanted;
  stream.distance = std::min(stream.distance * 2, rules_.max_bytes);
  return from < wanted ? hdfs::ByteRange{.offset = from, .length = wanted - from} : hdfs::ByteRange{};
}

}  // namespace paceline::fuse_hdfs
