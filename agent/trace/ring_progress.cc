#include "agent/trace/ring_progress.h"

#include <algorithm>
#include <cstring>

#include "analysis/usual_duration.h"

namespace paceline::agent {

namespace {

using namespace std::chrono_literals;

constexpr uint32_t kColl = 2, kP2p = 4;
// Between the first and the last network operation of a call nothing may be open for a moment.
constexpr Duration kSettled = 100ms;
// A call that has no network operation by then will have none.
constexpr Duration kWithout = 2s;
constexpr size_t kRecordBody = 12;  // offset of what a record copies from its entry

EndedOperation Describe(const RingCall& call, const RingComm& comm, const analysis::RingTime& time,
                        const analysis::NameLookup& name) {
  EndedOperation ended;
  ended.comm = comm.comm_id;
  ended.comm_name = comm.name;
  ended.rank = comm.rank;
  ended.is_collective = call.kind == kColl;
  ended.index = call.index;
  ended.func = name(call.func);
  ended.bytes = call.count * analysis::DatatypeBytes(name(call.datatype));
  ended.duration = time.Since(call.start) - time.Since(call.last);
  return ended;
}

}  // namespace

std::vector<EndedOperation> RingProgress::TakeEnded(const ring::Tables& tables, const analysis::RingTime& time,
                                                    WallTime now, const analysis::NameLookup& name) {
  // Most calls in the table were given long ago; only the others are sorted.
  struct Waiting {
    uint64_t* next = nullptr;
    std::vector<const RingCall*> calls;
  };
  std::map<uint32_t, Waiting> waiting;
  for (const auto& comm : tables.comms) {
    if (!comm.is_torn) waiting[comm.index].next = &next_[{comm.index, comm.value.generation}];
  }
  for (const auto& entry : tables.calls) {
    const bool is_operation = entry.value.kind == kColl || entry.value.kind == kP2p;
    if (entry.is_torn || !is_operation) continue;
    const auto found = waiting.find(entry.value.comm);
    if (found != waiting.end() && entry.value.index >= *found->second.next) found->second.calls.push_back(&entry.value);
  }
  std::vector<EndedOperation> ended;
  for (const auto& comm : tables.comms) {
    if (comm.is_torn) continue;
    auto& [next, calls] = waiting[comm.index];
    std::sort(calls.begin(), calls.end(), [](const RingCall* a, const RingCall* b) { return a->index < b->index; });
    for (const RingCall* call : calls) {
      const Duration still = time.Since(call->last);
      const bool is_open = call->state == RING_OPEN || call->open_proxies > 0;
      if (is_open || still < kSettled || (call->proxies == 0 && still < kWithout)) break;
      *next = call->index + 1;
      if (call->proxies == 0) continue;
      ended.push_back(Describe(*call, comm.value, time, name));
      ended.back().world_rank = tables.header.world_rank;
      ended.back().start = now - time.Since(call->start);
    }
  }
  return ended;
}

std::vector<analysis::LinkUse> RingProgress::LinksOf(const ring::Records& records, const ring::Tables& tables,
                                                     const analysis::RingTime& time) {
  std::map<uint32_t, uint64_t> ids;
  for (const auto& comm : tables.comms) ids[comm.index] = comm.value.comm_id;
  std::vector<analysis::LinkUse> uses;
  for (const RingRecord& record : records.records) {
    if (record.type != RING_RECORD_PROXY) continue;
    RingProxy proxy{};
    std::memcpy(reinterpret_cast<char*>(&proxy) + kRecordBody, record.body, sizeof record.body);
    const auto id = ids.find(proxy.comm);
    if (proxy.is_send == 0 || id == ids.end() || (proxy.flags & RING_PROXY_FOREIGN) != 0) continue;
    const double network_ns = static_cast<double>(proxy.wait[2]) * time.ns_per_unit;
    // A damaged sum must not overflow: no operation takes a year.
    const Duration network(static_cast<int64_t>(std::min(network_ns, 3e16)));
    uses.push_back({id->second, proxy.rank, proxy.peer, proxy.bytes, network});
  }
  return uses;
}

}  // namespace paceline::agent
