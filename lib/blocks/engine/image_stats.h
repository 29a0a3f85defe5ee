// What an image's reads cost and where their bytes came from, counted per mounted image. Thread-safe: plain counters.
#pragma once

#include <atomic>
#include <cstdint>

namespace paceline::blocks {

struct ImageStats {
  uint64_t reads = 0;         // calls of ImageReader::Read
  uint64_t read_bytes = 0;    // given to readers
  uint64_t chunk_hits = 0;    // chunks of reads that were in memory or on disk
  uint64_t chunk_misses = 0;  // chunks of reads that somebody had to fetch
  uint64_t failed_reads = 0;
  uint64_t memory_bytes = 0;  // contents of chunks used by reads, by where they were found
  uint64_t disk_bytes = 0;
  uint64_t peer_bytes = 0;    // contents that came from peers
  uint64_t origin_bytes = 0;  // bytes on the wire from the origin, gaps included
  uint64_t origin_requests = 0;
  uint64_t prefetched_bytes = 0;  // of origin_bytes: those that no reader waited for
  uint64_t damaged_chunks = 0;    // from peers and origin
  uint64_t lost_chunks = 0;       // that the origin has no right bytes of: fetching them again did not help
};

// The running counters behind it.
struct ImageCounters {
  std::atomic<uint64_t> reads{0}, read_bytes{0}, chunk_hits{0}, chunk_misses{0}, failed_reads{0}, memory_bytes{0},
      disk_bytes{0}, peer_bytes{0}, origin_bytes{0}, origin_requests{0}, prefetched_bytes{0}, damaged_chunks{0},
      lost_chunks{0};

  ImageStats Read() const {
    return {reads,      read_bytes,   chunk_hits,      chunk_misses,     failed_reads,   memory_bytes, disk_bytes,
            peer_bytes, origin_bytes, origin_requests, prefetched_bytes, damaged_chunks, lost_chunks};
  }
};

}  // namespace paceline::blocks
