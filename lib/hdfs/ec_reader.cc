#include "lib/hdfs/ec_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "lib/hdfs/ec_decode.h"
#include "lib/hdfs/posix_error.h"
#include "lib/hdfs/stripe_manifest.h"

namespace paceline::hdfs {
namespace {

using namespace std::chrono_literals;

// So long a unit is waited for before its bytes are computed from others: longer than a slow disk takes.
constexpr Duration kUnitPatience = 4s;
constexpr Duration kLostMemory = 30s;
constexpr uint32_t kMaxUnits = 64;

StripeSet LayoutOf(const EcPolicy& policy, uint64_t length) {
  return {.files = policy.data_units, .unit_bytes = policy.cell_bytes, .length_bytes = length, .folder = {}};
}

}  // namespace

Result<std::unique_ptr<Reader>> EcReader::Open(FetchPool& pool, const std::string& path, EcPolicy policy,
                                               const std::vector<LocatedBlock>& groups) {
  const uint32_t all = policy.data_units + policy.parity_units;
  if (policy.data_units == 0 || policy.cell_bytes == 0 || policy.data_units > kMaxUnits || all > kMaxUnits) {
    return PosixError(EOPNOTSUPP, fmt::format("open {}: is erasure coded by policy {}, which this client does not know",
                                              path, policy.name));
  }
  std::unique_ptr<EcReader> reader(new EcReader(pool, path, std::move(policy)));
  std::vector<uint64_t> ends(all, 0);
  for (const LocatedBlock& block : groups) {
    reader->groups_.push_back({.start = reader->length_, .length = block.block.length_bytes, .unit_starts = ends});
    for (uint32_t i = 0; i < all; ++i) ends[i] += EcUnitLength(reader->policy_, block.block.length_bytes, i);
    reader->length_ += block.block.length_bytes;
  }
  for (uint32_t i = 0; i < all; ++i) {
    auto select = [policy = reader->policy_, i](std::span<const LocatedBlock> fresh) {
      return EcUnitBlocks(policy, fresh, i);
    };
    auto blocks = std::make_shared<FileBlocks>(path, select(groups), pool.clock(), select);
    reader->units_.push_back({.blocks = blocks, .reader = std::make_unique<HdfsReader>(pool, blocks, ends[i])});
  }
  return std::unique_ptr<Reader>(std::move(reader));
}

Result<size_t> EcReader::Read(uint64_t offset, std::span<std::byte> out, Deadline deadline) {
  if (offset >= length_) return 0;
  const uint64_t end = offset + std::min<uint64_t>(out.size(), length_ - offset);
  uint64_t ahead;
  {
    MutexLock lock(mutex_);
    ahead = window_.OnRead(offset, end - offset);
  }
  if (ahead > 0 || end - offset > policy_.cell_bytes) Prefetch({offset, end - offset + ahead});
  for (const Group& group : groups_) {
    const uint64_t from = std::max(offset, group.start), to = std::min(end, group.start + group.length);
    if (from >= to) continue;
    for (const StripePiece& piece : PlanStripes(LayoutOf(policy_, group.length), {from - group.start, to - from})) {
      const auto place = out.subspan(group.start + piece.in_set - offset, piece.in_stripe.length);
      RETURN_IF_ERROR(ReadCell(group, piece.stripe, piece.in_stripe.offset, place, deadline));
    }
  }
  return end - offset;
}

Status EcReader::ReadCell(const Group& group, uint32_t unit, uint64_t offset, std::span<std::byte> out,
                          Deadline deadline) {
  Status direct;
  const bool is_lost = IsLost(group, unit);
  if (!is_lost) {
    direct = ReadUnit(group, unit, offset, out, deadline.Min(Deadline::After(pool_.clock(), kUnitPatience)));
    if (direct.ok() || direct.code() == StatusCode::kNotFound) return direct;
    MarkLost(unit);
  }
  const Status computed = Compute(group, unit, offset, out, deadline);
  if (computed.ok() || deadline.Expired(pool_.clock())) return computed;
  if (IsGone(group, unit)) return computed;
  // Nothing else is left: the unit may come back while there is time.
  return ReadUnit(group, unit, offset, out, deadline).ok() ? Status() : computed;
}

Status EcReader::ReadUnit(const Group& group, uint32_t unit, uint64_t offset, std::span<std::byte> out,
                          Deadline deadline) {
  ASSIGN_OR_RETURN(const size_t got, units_[unit].reader->Read(group.unit_starts[unit] + offset, out, deadline));
  return got == out.size() ? Status() : DataLossError(fmt::format("read {}: a unit ends too early", path_));
}

Status EcReader::Compute(const Group& group, uint32_t lost, uint64_t offset, std::span<std::byte> out,
                         Deadline deadline) {
  std::vector<uint32_t> available;
  std::vector<std::vector<std::byte>> contents;
  Status last;
  std::vector<uint32_t> order, doubtful;
  for (uint32_t unit = 0; unit < units_.size(); ++unit) {
    if (unit == lost) continue;
    const bool is_needed = EcUnitLength(policy_, group.length, unit) > offset;  // behind its end it is zeros
    if (is_needed && IsGone(group, unit)) continue;
    (is_needed && IsLost(group, unit) ? doubtful : order).push_back(unit);
  }
  // Those that failed a while ago only when there are not enough others: they may have been slow.
  order.insert(order.end(), doubtful.begin(), doubtful.end());
  for (size_t i = 0; i < order.size() && available.size() < policy_.data_units; ++i) {
    const uint64_t length = EcUnitLength(policy_, group.length, order[i]);
    std::vector<std::byte> bytes(out.size(), std::byte{0});
    if (length > offset) {
      const bool is_last_hope = order.size() - i <= policy_.data_units - available.size();
      const Deadline patience = Deadline::After(pool_.clock(), kUnitPatience);
      const auto there = std::span(bytes).first(std::min<uint64_t>(out.size(), length - offset));
      const Status read = ReadUnit(group, order[i], offset, there, is_last_hope ? deadline : deadline.Min(patience));
      if (!read.ok()) {
        MarkLost(order[i]);
        last = read;
        continue;
      }
    }
    available.push_back(order[i]);
    contents.push_back(std::move(bytes));
  }
  if (available.size() < policy_.data_units) {
    return DataLossError(fmt::format("read {}: policy {} needs {} units of a group, and {} can be read{}{}", path_,
                                     policy_.name, policy_.data_units, available.size(), last.ok() ? "" : ": ",
                                     last.message()));
  }
  return EcCompute(policy_, available, contents, lost, out);
}

bool EcReader::IsGone(const Group& group, uint32_t unit) const {
  const auto blocks = units_[unit].blocks->blocks();
  const LocatedBlock* block = FindBlock(*blocks, group.unit_starts[unit]);
  return block != nullptr && block->nodes.empty();
}

bool EcReader::IsLost(const Group& group, uint32_t unit) {
  if (IsGone(group, unit)) return true;
  MutexLock lock(mutex_);
  return units_[unit].lost_until > pool_.clock().Now();
}

void EcReader::MarkLost(uint32_t unit) {
  MutexLock lock(mutex_);
  units_[unit].lost_until = pool_.clock().Now() + kLostMemory;
}

void EcReader::Prefetch(ByteRange range) {
  const uint64_t end = std::min(range.offset + range.length, length_);
  for (const Group& group : groups_) {
    const uint64_t from = std::max(range.offset, group.start), to = std::min(end, group.start + group.length);
    if (from >= to) continue;
    const std::vector<ByteRange> spans = SpanStripes(LayoutOf(policy_, group.length), {from - group.start, to - from});
    uint32_t parity = policy_.data_units;
    for (uint32_t i = 0; i < spans.size(); ++i) {
      if (spans[i].length == 0) continue;
      uint32_t unit = i;
      // In the place of a lost unit one that helps to compute it.
      if (IsLost(group, i)) unit = parity < units_.size() ? parity++ : i;
      units_[unit].reader->Prefetch({group.unit_starts[unit] + spans[i].offset, spans[i].length});
    }
  }
}

}  // namespace paceline::hdfs
