#include "tests/analysis/ring_model.h"

#include <algorithm>

namespace paceline::analysis {

namespace {

constexpr uint64_t kSlots = 8;
constexpr uint64_t kElements = 3000;
constexpr uint64_t kOperations = 7;  // launched before

}  // namespace

RingModel::RingModel(uint32_t ranks, uint32_t channels, collectives::Function function, const RingFault& fault)
    : ranks_(ranks), channels_(channels), function_(function), fault_(fault), places_(ranks) {
  for (uint32_t rank = 0; rank < ranks; rank++) {
    for (uint32_t channel = 0; channel < channels; channel++) {
      Place place;
      place.moves = PlanMoves(function, {rank, ranks, channel, channels}, kElements, 64);
      for (const collectives::Move& move : place.moves) {
        place.send.steps += move.sends ? 1 : 0;
        place.receive.steps += move.receives ? 1 : 0;
      }
      places_[rank].push_back(std::move(place));
    }
  }
  for (bool is_any = true; is_any;) {
    is_any = false;
    for (uint32_t rank = 0; rank < ranks; rank++) {
      for (uint32_t channel = 0; channel < channels; channel++) is_any = Advance(rank, channel) || is_any;
    }
  }
}

bool RingModel::MoveKernel(uint32_t rank, Place& place) {
  if (Is(Fault::kKernelNotStarted, rank) || (Is(Fault::kKernelStuck, rank) && place.next >= fault_.at)) return false;
  if (place.next == place.moves.size()) return false;
  const collectives::Move& move = place.moves[place.next];
  if (move.receives && place.receive.moved == place.receive.done) return false;
  if (move.sends && place.send.posted == place.send.ready) return false;
  place.next++;
  place.receive.done += move.receives ? 1 : 0;
  place.send.ready += move.sends ? 1 : 0;
  return true;
}

bool RingModel::Advance(uint32_t rank, uint32_t channel) {
  if (!HasLaunched(rank)) return false;
  Place& place = places_[rank][channel];
  Counters& send = place.send;
  Counters& receive = place.receive;
  const uint32_t next_rank = (rank + 1) % ranks_;
  Counters& there = places_[next_rank][channel].receive;
  bool is_any = MoveKernel(rank, place);
  auto raise = [&](uint64_t& counter, bool can) {
    if (!can) return;
    counter++;
    is_any = true;
  };
  raise(send.posted, send.posted < std::min(send.steps, send.done + kSlots));
  raise(receive.posted, receive.posted < std::min(receive.steps, receive.done + kSlots) &&
                            !(Is(Fault::kPostsNothing, rank) && receive.posted >= fault_.at));
  raise(send.moved, send.moved < send.ready && HasLaunched(next_rank) && there.posted > send.moved);
  if (send.done < send.moved && !(Is(Fault::kLinkFrozen, rank) && send.done >= fault_.at)) {
    send.done++;
    if (!Is(Fault::kLinkLoses, rank) || send.done <= fault_.at) there.ready++;
    is_any = true;
  }
  raise(receive.moved, receive.moved < receive.ready && !(Is(Fault::kFlushStuck, rank) && receive.moved >= fault_.at));
  return is_any;
}

ProcessView RingModel::ProcessOf(uint32_t rank, Duration still) const {
  ProcessView process;
  process.node = "node-" + std::to_string(rank);
  process.host = "pod-" + std::to_string(rank);
  process.world_rank = static_cast<int32_t>(rank);
  process.state = ProcessState::kRunning;
  process.abi = 6;
  CommView comm{1,    "dp", static_cast<int32_t>(rank), static_cast<int32_t>(ranks_), static_cast<int32_t>(ranks_),
                true, 0};
  comm.operations = kOperations + (HasLaunched(rank) ? 1 : 0);
  process.comms.push_back(comm);
  CallView call;
  call.kind = CallKind::kColl;
  call.comm = 0;
  call.func = collectives::FunctionName(function_);
  call.algo = "RING";
  call.datatype = "ncclFloat32";
  call.count = kElements;
  call.age = call.still = still;
  call.index = call.sequence = kOperations - 1;
  process.calls.push_back(call);
  if (Is(Fault::kInTheCall, rank)) {
    call.kind = CallKind::kCollApi;
    call.is_open = true;
    process.calls.push_back(call);
  }
  if (!HasLaunched(rank)) return process;
  call.index = call.sequence = kOperations;
  for (uint32_t channel = 0; channel < channels_; channel++) {
    const Place& place = places_[rank][channel];
    for (const bool is_send : {true, false}) {
      const Counters& counters = is_send ? place.send : place.receive;
      call.proxies++;
      if (counters.done == counters.steps) continue;
      call.open_proxies++;
      ProxyView proxy;
      proxy.comm = 0;
      proxy.call = 1;
      proxy.channel = static_cast<int32_t>(channel);
      proxy.is_send = is_send;
      proxy.rank = static_cast<int32_t>(rank);
      proxy.peer = static_cast<int32_t>((rank + (is_send ? 1 : ranks_ - 1)) % ranks_);
      proxy.steps = counters.steps;
      proxy.started = proxy.posted = counters.posted;
      proxy.ready = counters.ready;
      proxy.moved = counters.moved;
      proxy.done = counters.done;
      proxy.age = proxy.still = still;
      process.proxies.push_back(proxy);
    }
  }
  process.calls.push_back(call);
  return process;
}

Tables RingModel::Snapshot(Duration still) const {
  Tables tables;
  for (uint32_t rank = 0; rank < ranks_; rank++) tables.processes.push_back(ProcessOf(rank, still));
  return tables;
}

}  // namespace paceline::analysis
