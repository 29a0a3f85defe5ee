#include "analysis/rings/ring_view.h"

#include <algorithm>
#include <map>
#include <vector>

namespace paceline::analysis {

namespace {

// NCCL's event types, docs/formats/trace-ring.md.
CallKind KindOf(uint32_t type) {
  switch (type) {
    case 2: return CallKind::kColl;
    case 4: return CallKind::kP2p;
    case 256: return CallKind::kGroupApi;
    case 512: return CallKind::kCollApi;
    case 1024: return CallKind::kP2pApi;
    case 2048: return CallKind::kKernelLaunch;
    case 4096: return CallKind::kCeColl;
    default: return CallKind::kOther;
  }
}

bool IsOperation(const RingCall& call) { return call.kind == 2 || call.kind == 4; }

// Places in the view by index in the ring.
using Places = std::map<uint32_t, int32_t>;

int32_t PlaceOf(const Places& places, uint32_t index) {
  const auto found = places.find(index);
  return found == places.end() ? -1 : found->second;
}

CallView ViewOfCall(const RingCall& call, const RingTime& time, const NameLookup& name, int32_t comm) {
  CallView view;
  view.kind = KindOf(call.kind);
  view.comm = comm;
  view.index = call.index;
  view.sequence = call.sequence;
  view.func = name(call.func);
  view.datatype = name(call.datatype);
  view.algo = name(call.algo);
  view.proto = name(call.proto);
  view.count = call.count;
  view.peer = call.peer;
  view.is_open = call.state == RING_OPEN;
  view.open_proxies = call.open_proxies;
  view.proxies = call.proxies;
  view.age = time.Since(call.start);
  view.still = time.Since(call.last);
  return view;
}

ProxyView ViewOfProxy(const RingProxy& proxy, const RingTime& time) {
  ProxyView view;
  view.channel = proxy.channel;
  view.is_send = proxy.is_send != 0;
  view.rank = proxy.rank;
  view.peer = proxy.peer;
  view.steps = proxy.steps;
  view.started = proxy.started;
  view.posted = proxy.posted;
  view.ready = proxy.ready;
  view.moved = proxy.moved;
  view.done = proxy.done;
  view.bytes = proxy.bytes;
  view.age = time.Since(proxy.start);
  view.still = time.Since(proxy.last);
  return view;
}

// Calls to show: what goes on, and the last operations of each communicator.
std::vector<const ring::Entry<RingCall>*> ChooseCalls(const ring::Tables& tables, size_t kept) {
  std::map<uint32_t, std::vector<const ring::Entry<RingCall>*>> ended;
  std::vector<const ring::Entry<RingCall>*> chosen;
  for (const auto& entry : tables.calls) {
    if (entry.is_torn) continue;
    if (entry.value.state == RING_OPEN || entry.value.open_proxies > 0) {
      chosen.push_back(&entry);
    } else if (IsOperation(entry.value)) {
      ended[entry.value.comm].push_back(&entry);
    }
  }
  for (auto& [comm, entries] : ended) {
    const size_t count = std::min(kept, entries.size());
    const auto middle = entries.begin() + static_cast<std::ptrdiff_t>(count);
    std::partial_sort(entries.begin(), middle, entries.end(),
                      [](const auto* a, const auto* b) { return a->value.index > b->value.index; });
    chosen.insert(chosen.end(), entries.begin(), middle);
  }
  return chosen;
}

}  // namespace

Duration RingTime::Since(uint64_t time) const {
  if (time >= now) return Duration::zero();
  return Duration(static_cast<int64_t>(static_cast<double>(now - time) * ns_per_unit));
}

uint64_t ReadTicks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return 0;
#endif
}

RingTime RingTimeOf(const RingHeader& header, uint64_t ticks, TimePoint monotonic) {
  const auto now_ns = static_cast<uint64_t>(std::max<int64_t>(monotonic.time_since_epoch().count(), 0));
  if (header.clock != RING_CLOCK_TSC) return {now_ns, 1};
  const bool is_sound = ticks > header.epoch_time && now_ns > header.epoch_monotonic_ns;
  const double rate = is_sound ? static_cast<double>(now_ns - header.epoch_monotonic_ns) /
                                     static_cast<double>(ticks - header.epoch_time)
                               : 1;
  return {ticks, rate};
}

ProcessState EndStateOf(const ring::Tables& tables) {
  const bool has_open = std::any_of(tables.comms.begin(), tables.comms.end(),
                                    [](const auto& entry) { return entry.value.state == RING_OPEN; });
  return tables.header.off_reason == RING_FINISHED || !has_open ? ProcessState::kFinished : ProcessState::kDead;
}

ProcessView ViewOf(const ring::Tables& tables, const RingTime& time, const NameLookup& name, size_t kept_calls) {
  ProcessView view;
  view.host = tables.header.host;
  view.run = tables.header.run;
  view.world_rank = tables.header.world_rank;
  view.abi = tables.header.abi_version;
  view.has_steps = tables.header.off_reason == RING_ON;
  for (const uint64_t drops : tables.header.drops) view.drops += drops;
  Places comms, calls;
  for (const auto& entry : tables.comms) {
    if (entry.is_torn) continue;
    const RingComm& comm = entry.value;
    comms[entry.index] = static_cast<int32_t>(view.comms.size());
    view.comms.push_back(
        {comm.comm_id, comm.name, comm.rank, comm.nranks, comm.nnodes, comm.state == RING_OPEN, comm.operations});
  }
  for (const auto* entry : ChooseCalls(tables, kept_calls)) {
    calls[entry->index] = static_cast<int32_t>(view.calls.size());
    view.calls.push_back(ViewOfCall(entry->value, time, name, PlaceOf(comms, entry->value.comm)));
  }
  for (const auto& entry : tables.proxies) {
    const RingProxy& proxy = entry.value;
    if (entry.is_torn || proxy.state != RING_OPEN || (proxy.flags & RING_PROXY_FOREIGN) != 0) continue;
    ProxyView seen = ViewOfProxy(proxy, time);
    seen.comm = PlaceOf(comms, proxy.comm);
    seen.call = PlaceOf(calls, proxy.call & 0xffffff);
    view.proxies.push_back(seen);
  }
  return view;
}

}  // namespace paceline::analysis
