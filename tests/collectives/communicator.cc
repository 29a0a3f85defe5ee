#include "tests/collectives/communicator.h"

#include <algorithm>
#include <chrono>

namespace paceline::collectives {

namespace {

constexpr uint64_t kCommIdBase = 0x5ace11e000000000;

bool IsP2p(Function function) { return function == Function::kSend || function == Function::kRecv; }

[[noreturn]] void HangForever() {
  while (true) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace

Communicator::Communicator(const CommDescription& description, const RankSettings& settings, tracer::NcclDriver& driver)
    : description_(description), settings_(settings), driver_(driver) {
  place_ = PlaceOf(settings.rank);
  std::vector<uint32_t> nodes;
  for (const uint32_t member : description.members) nodes.push_back(member / settings.ranks_per_node);
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  context_ = driver_.Init(kCommIdBase + description.index, description.name.c_str(),
                          static_cast<int>(description.members.size()), static_cast<int>(place_),
                          static_cast<int>(nodes.size()));
}

Result<std::unique_ptr<Communicator>> Communicator::Create(const CommDescription& description,
                                                           const RankSettings& settings, Rendezvous& rendezvous,
                                                           tracer::NcclDriver& driver) {
  std::unique_ptr<Communicator> comm(new Communicator(description, settings, driver));
  RETURN_IF_ERROR(comm->ConnectAll(rendezvous).Annotate("communicator " + description.name));
  return comm;
}

uint32_t Communicator::PlaceOf(uint32_t world_rank) const {
  const auto found = std::find(description_.members.begin(), description_.members.end(), world_rank);
  return static_cast<uint32_t>(found - description_.members.begin());
}

bool Communicator::IsLocal(uint32_t peer) const {
  return peer / settings_.ranks_per_node == settings_.rank / settings_.ranks_per_node;
}

Status Communicator::ConnectAll(Rendezvous& rendezvous) {
  const size_t ranks = description_.members.size();
  const uint32_t next = description_.members[(place_ + 1) % ranks];
  const uint32_t previous = description_.members[(place_ + ranks - 1) % ranks];
  if (ranks == 1) return Status();
  const uint32_t bytes = settings_.slice_bytes;
  ring_.resize(settings_.channels);
  for (uint32_t channel = 0; channel < settings_.channels; channel++) {
    ASSIGN_OR_RETURN(UniqueFd fd, rendezvous.Connect(next, {description_.index, channel, settings_.rank, 0}));
    ring_[channel].send = std::make_unique<SendEdge>(std::move(fd), bytes);
  }
  for (const uint32_t peer : description_.members) {
    if (peer == settings_.rank) continue;
    ASSIGN_OR_RETURN(UniqueFd fd, rendezvous.Connect(peer, {description_.index, 0, settings_.rank, 1}));
    peers_[peer].send = std::make_unique<SendEdge>(std::move(fd), bytes);
  }
  for (uint32_t channel = 0; channel < settings_.channels; channel++) {
    ASSIGN_OR_RETURN(UniqueFd fd, rendezvous.Accept({description_.index, channel, previous, 0}));
    ring_[channel].receive = std::make_unique<ReceiveEdge>(std::move(fd), bytes);
  }
  for (auto& [peer, pair] : peers_) {
    ASSIGN_OR_RETURN(UniqueFd fd, rendezvous.Accept({description_.index, 0, peer, 1}));
    pair.receive = std::make_unique<ReceiveEdge>(std::move(fd), bytes);
  }
  return Status();
}

void Communicator::Finalize() { driver_.Finalize(context_); }

void* Communicator::StartCall(const Work& work, void* api, void* group) {
  if ((driver_.mask() & (IsP2p(work.function) ? kEventP2p : kEventColl)) == 0) return nullptr;
  tracer::CollDescription call;
  call.func = FunctionName(work.function);
  // AllGather is counted in bytes by then.
  const bool is_bytes = work.function == Function::kAllGather;
  call.datatype = is_bytes ? "ncclInt8" : "ncclFloat32";
  call.count = is_bytes ? work.count * sizeof(float) : work.count;
  call.rank = static_cast<int>(place_);
  call.channels = static_cast<int>(settings_.channels);
  call.parent = settings_.version >= 5 ? api : group;
  call.parent_group = group;
  if (IsP2p(work.function)) return driver_.P2p(context_, call, static_cast<int>(PlaceOf(work.peer)));
  call.sequence = sequence_[work.function]++;
  return driver_.Coll(context_, call);
}

void Communicator::AddOrder(const Block& block, bool is_send, uint32_t channel, uint32_t peer,
                            std::vector<ProxyOrder>& orders) const {
  int steps = 0;
  for (const Move& move : block.moves) steps += (is_send ? move.sends : move.receives) ? 1 : 0;
  if (steps == 0) return;
  ProxyOrder order;
  order.send = is_send ? block.send : nullptr;
  order.receive = is_send ? nullptr : block.receive;
  order.context = context_;
  order.description.channel = static_cast<int>(channel);
  order.description.peer = static_cast<int>(PlaceOf(peer));
  order.description.steps = steps;
  order.description.rank = static_cast<int>(place_);
  order.description.is_send = is_send;
  orders.push_back(order);
}

void Communicator::AddBlocks(const Work& work, void* call, Kernel& kernel, std::vector<ProxyOrder>& orders) {
  const auto ranks = static_cast<uint32_t>(description_.members.size());
  const size_t first_order = orders.size();
  const bool is_p2p = IsP2p(work.function);
  const uint32_t channels = is_p2p ? 1 : static_cast<uint32_t>(ring_.size());
  for (uint32_t channel = 0; channel < channels; channel++) {
    Block block;
    block.moves =
        PlanMoves(work.function, {place_, ranks, channel, channels}, work.count, settings_.slice_bytes / sizeof(float));
    block.input = work.input;
    block.output = work.output;
    Pair& pair = is_p2p ? peers_.at(work.peer) : ring_[channel];
    const uint32_t next = is_p2p ? work.peer : description_.members[(place_ + 1) % ranks];
    const uint32_t previous = is_p2p ? work.peer : description_.members[(place_ + ranks - 1) % ranks];
    if (work.function != Function::kRecv) block.send = pair.send.get();
    if (work.function != Function::kSend) block.receive = pair.receive.get();
    block.drives_send = block.send != nullptr && IsLocal(next);
    block.drives_receive = block.receive != nullptr && IsLocal(previous);
    if (block.receive != nullptr && !block.drives_receive) AddOrder(block, false, channel, previous, orders);
    if (block.send != nullptr && !block.drives_send) AddOrder(block, true, channel, next, orders);
    kernel.blocks.push_back(std::move(block));
  }
  for (size_t i = first_order; i < orders.size(); i++) orders[i].description.parent = call;
}

void Communicator::Launch(const std::vector<Work>& works, LaunchFault fault, GpuThread& gpu, ProxyThread& proxy) {
  void* group_api = nullptr;
  std::vector<void*> apis(works.size());
  const bool has_api = settings_.version >= 5 && (driver_.mask() & kEventGroupApi) != 0;
  if (has_api) {
    group_api = driver_.Other(context_, kEventGroupApi);
    driver_.Record(group_api, kStateGroupStartApiStop);
  }
  for (size_t i = 0; i < works.size() && has_api; i++) {
    const uint32_t type = IsP2p(works[i].function) ? kEventP2pApi : kEventCollApi;
    apis[i] = driver_.Other(context_, type, group_api, FunctionName(works[i].function));
    if (fault == LaunchFault::kHangInCall) HangForever();
    driver_.Stop(apis[i]);
  }
  if (fault == LaunchFault::kHangInCall) HangForever();
  Kernel kernel;
  kernel.is_stuck = fault == LaunchFault::kKernelStuck;
  void* launch = nullptr;
  if (has_api) {
    driver_.Record(group_api, kStateGroupEndApiStart);
    launch = driver_.Other(context_, kEventKernelLaunch, group_api);
    driver_.Stop(launch);
  }
  void* group = driver_.Other(context_, kEventGroup);
  std::vector<ProxyOrder> orders;
  std::vector<void*> calls;
  for (size_t i = 0; i < works.size(); i++) {
    calls.push_back(StartCall(works[i], apis[i], group));
    AddBlocks(works[i], calls.back(), kernel, orders);
  }
  gpu.Launch(std::move(kernel));
  proxy.Append(std::move(orders));
  for (void* call : calls) {
    if (call != nullptr) driver_.Stop(call);
  }
  driver_.Stop(group);
  if (has_api) driver_.Stop(group_api);
}

}  // namespace paceline::collectives
