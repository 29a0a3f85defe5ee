#include "tests/collectives/trainer.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace paceline::collectives {

namespace {

// Small whole numbers, so that sums are exact in any order.
float ValueOf(uint32_t rank, uint64_t number, uint64_t place) {
  return static_cast<float>((rank * 31 + number * 7 + place) % 97);
}

int64_t ProcessorTimeUs() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return (int64_t{usage.ru_utime.tv_sec} + usage.ru_stime.tv_sec) * 1'000'000 + usage.ru_utime.tv_usec +
         usage.ru_stime.tv_usec;
}

void Burn(uint64_t microseconds) {
  const int64_t end = ProcessorTimeUs() + static_cast<int64_t>(microseconds);
  while (ProcessorTimeUs() < end) {
  }
}

}  // namespace

Trainer::Trainer(TrainerOptions options)
    : options_(std::move(options)),
      driver_(options_.settings.version, options_.plugin),
      proxy_(options_.settings.version, options_.plugin) {}

Result<std::unique_ptr<Trainer>> Trainer::Create(TrainerOptions options, UniqueFd listener) {
  std::unique_ptr<Trainer> trainer(new Trainer(std::move(options)));
  const TrainerOptions& given = trainer->options_;
  Rendezvous rendezvous(std::move(listener), given.addresses);
  for (const CommDescription& comm : given.comms) {
    const auto& members = comm.members;
    if (std::find(members.begin(), members.end(), given.settings.rank) == members.end()) continue;
    ASSIGN_OR_RETURN(auto created, Communicator::Create(comm, given.settings, rendezvous, trainer->driver_));
    trainer->comms_.push_back(std::move(created));
  }
  return trainer;
}

Communicator* Trainer::Find(const std::string& name) const {
  for (const auto& comm : comms_) {
    if (comm->description().name == name) return comm.get();
  }
  return nullptr;
}

bool Trainer::TakesPart(const Item& item) const {
  const uint32_t rank = options_.settings.rank;
  if (Find(item.comm) == nullptr) return false;
  return item.kind != Item::Kind::kPass || item.from == rank || item.to == rank;
}

void Trainer::Launch(std::unique_ptr<Pending> pending) {
  const Faults& faults = options_.faults;
  const uint64_t operation = operation_++;
  while (faults.hang_at && operation >= *faults.hang_at) std::this_thread::sleep_for(std::chrono::hours(1));
  const Item& item = pending->item;
  Communicator* comm = Find(item.comm);
  const std::vector<uint32_t>& members = comm->description().members;
  const size_t ranks = members.size();
  const bool is_short = faults.mismatch_at == operation;
  Work work{item.function, is_short ? item.count / 2 : item.count, 0, pending->input.data(), pending->output.data()};
  std::vector<Work> works;
  if (item.kind == Item::Kind::kCollective) works.push_back(work);
  if (item.kind == Item::Kind::kExchange || item.from == options_.settings.rank) {
    work.function = Function::kSend;
    work.peer = item.kind == Item::Kind::kExchange ? members[(comm->place() + 1) % ranks] : item.to;
    if (item.kind != Item::Kind::kCollective) works.push_back(work);
  }
  if (item.kind == Item::Kind::kExchange || item.to == options_.settings.rank) {
    work.function = Function::kRecv;
    work.peer = item.kind == Item::Kind::kExchange ? members[(comm->place() + ranks - 1) % ranks] : item.from;
    if (item.kind != Item::Kind::kCollective) works.push_back(work);
  }
  LaunchFault fault = LaunchFault::kNone;
  if (faults.hang_in_call_at == operation) fault = LaunchFault::kHangInCall;
  if (faults.kernel_stuck_at == operation) fault = LaunchFault::kKernelStuck;
  comm->Launch(works, fault, gpu_, proxy_);
  pending_.push_back(std::move(pending));
}

void Trainer::LaunchOrHold(std::unique_ptr<Pending> pending) {
  if (options_.faults.swap_at == operation_ && held_ == nullptr) {
    held_ = std::move(pending);
    return;
  }
  Launch(std::move(pending));
  if (held_ != nullptr) Launch(std::move(held_));
}

Status Trainer::Check(const Pending& pending) const {
  const Item& item = pending.item;
  const Communicator* comm = Find(item.comm);
  const std::vector<uint32_t>& members = comm->description().members;
  const size_t ranks = members.size();
  if (item.kind == Item::Kind::kPass && item.to != options_.settings.rank) return Status();
  const uint32_t previous = members[(comm->place() + ranks - 1) % ranks];
  for (uint64_t i = 0; i < pending.output.size(); i++) {
    float wanted = 0;
    if (item.kind != Item::Kind::kCollective) {
      wanted = ValueOf(item.kind == Item::Kind::kPass ? item.from : previous, pending.number, i);
    } else if (item.function == Function::kAllGather) {
      wanted = ValueOf(members[i / item.count], pending.number, i % item.count);
    } else {
      const uint64_t place = item.function == Function::kReduceScatter ? comm->place() * item.count + i : i;
      for (const uint32_t member : members) wanted += ValueOf(member, pending.number, place);
    }
    if (pending.output[i] == wanted) continue;
    return DataLossError("item " + std::to_string(pending.number) + " on " + item.comm + ": element " +
                         std::to_string(i) + " is " + std::to_string(pending.output[i]) + ", not " +
                         std::to_string(wanted));
  }
  return Status();
}

Status Trainer::Synchronize() {
  if (held_ != nullptr) Launch(std::move(held_));
  gpu_.Synchronize({});
  for (const auto& pending : pending_) {
    if (options_.checks_results) RETURN_IF_ERROR(Check(*pending));
  }
  pending_.clear();
  return Status();
}

Status Trainer::DoItem(const Item& item, uint64_t number) {
  if (item.kind == Item::Kind::kSync) return Synchronize();
  if (item.kind == Item::Kind::kBurn) {
    Burn(item.count);
    return Status();
  }
  if (item.kind == Item::Kind::kCompute) {
    const Faults& faults = options_.faults;
    const uint64_t extra_us = operation_ >= faults.extra_compute_from ? faults.extra_compute_us : 0;
    std::this_thread::sleep_for(std::chrono::microseconds(item.count + extra_us));
    return Status();
  }
  if (!TakesPart(item)) return Status();
  const size_t ranks = Find(item.comm)->description().members.size();
  const bool is_collective = item.kind == Item::Kind::kCollective;
  const bool is_scatter = is_collective && item.function == Function::kReduceScatter;
  const bool is_gather = is_collective && item.function == Function::kAllGather;
  auto pending = std::make_unique<Pending>();
  pending->item = item;
  pending->number = number;
  pending->input.resize(is_scatter ? item.count * ranks : item.count);
  pending->output.resize(is_gather ? item.count * ranks : item.count);
  for (uint64_t i = 0; i < pending->input.size(); i++) {
    pending->input[i] = ValueOf(options_.settings.rank, number, i);
  }
  LaunchOrHold(std::move(pending));
  return Status();
}

Status Trainer::Run() {
  for (uint64_t iteration = 0; iteration < options_.iterations; iteration++) {
    for (size_t i = 0; i < options_.items.size(); i++) {
      RETURN_IF_ERROR(DoItem(options_.items[i], iteration * options_.items.size() + i));
    }
    RETURN_IF_ERROR(Synchronize());
  }
  proxy_.Drain();
  for (const auto& comm : comms_) comm->Finalize();
  return Status();
}

}  // namespace paceline::collectives
