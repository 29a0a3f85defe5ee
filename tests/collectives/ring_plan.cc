#include "tests/collectives/ring_plan.h"

#include <algorithm>

namespace paceline::collectives {

namespace {

// A part of the buffer that all ranks go through together: chunk i of it begins at offset + i * stride.
struct Loop {
  uint64_t offset, stride, count;
};

uint64_t ChunkAt(const RingPlace& place, uint32_t back) {
  return (place.rank + place.ranks - back % place.ranks) % place.ranks;
}

void PlanReduce(const RingPlace& place, const Loop& loop, Function function, std::vector<Move>& moves) {
  auto add = [&](uint32_t back, bool receives, bool sends, bool writes_output) {
    const uint64_t at = loop.offset + ChunkAt(place, back) * loop.stride;
    const uint64_t to = function == Function::kReduceScatter ? loop.offset : at;
    moves.push_back({receives, sends, true, writes_output, at, to, loop.count});
  };
  add(1, false, true, false);
  for (uint32_t back = 2; back < place.ranks; back++) add(back, true, true, false);
  add(0, true, function == Function::kAllReduce, true);
}

void PlanGather(const RingPlace& place, const Loop& loop, Function function, std::vector<Move>& moves) {
  auto add = [&](uint32_t back, bool receives, bool sends, bool uses_input) {
    const uint64_t to = loop.offset + ChunkAt(place, back) * loop.stride;
    moves.push_back({receives, sends, uses_input, true, loop.offset, to, loop.count});
  };
  if (function == Function::kAllGather) add(0, false, true, true);
  for (uint32_t back = 1; back + 1 < place.ranks; back++) add(back, true, true, false);
  add(place.ranks - 1, true, false, false);
}

}  // namespace

const char* FunctionName(Function function) {
  static const char* const kNames[] = {"AllReduce", "ReduceScatter", "AllGather", "Send", "Recv"};
  return kNames[static_cast<int>(function)];
}

std::vector<Move> PlanMoves(Function function, const RingPlace& place, uint64_t count, uint64_t chunk) {
  std::vector<Move> moves;
  const uint64_t begin = count * place.channel / place.channels;
  const uint64_t end = count * (place.channel + 1) / place.channels;
  if (function == Function::kSend || function == Function::kRecv) {
    const bool sends = function == Function::kSend;
    // A message without bytes is one step.
    for (uint64_t at = begin; at < end || moves.empty(); at += chunk) {
      moves.push_back({!sends, sends, sends, !sends, at, at, std::min(chunk, end - at)});
    }
    return moves;
  }
  if (place.ranks == 1) return moves;
  const bool is_whole = function == Function::kAllReduce;  // chunks of all ranks lie in one part of the buffer
  const uint64_t step = is_whole ? chunk * place.ranks : chunk;
  for (uint64_t at = begin; at < end; at += step) {
    const uint64_t span = std::min(step, end - at);
    const uint64_t part = is_whole ? (span + place.ranks - 1) / place.ranks : span;
    const Loop loop{at, is_whole ? part : count, part};
    if (function != Function::kAllGather) PlanReduce(place, loop, function, moves);
    if (function != Function::kReduceScatter) PlanGather(place, loop, function, moves);
    if (!is_whole) continue;
    // The last chunks of the last loop may be short or empty.
    for (size_t i = moves.size() - (2 * place.ranks - 1); i < moves.size(); i++) {
      const uint64_t limit = at + span;
      moves[i].input_offset = std::min(moves[i].input_offset, limit);
      moves[i].output_offset = std::min(moves[i].output_offset, limit);
      moves[i].count = std::min(part, limit - std::max(moves[i].input_offset, moves[i].output_offset));
    }
  }
  return moves;
}

}  // namespace paceline::collectives
