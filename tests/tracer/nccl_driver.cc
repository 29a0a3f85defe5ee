#include "tests/tracer/nccl_driver.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace paceline::tracer {

namespace {

constexpr size_t kPage = 4096;
constexpr size_t kBytes[] = {
    0, kDescrBytesV1, kDescrBytesV2, kDescrBytesV3, kDescrBytesV4, kDescrBytesV5, kDescrBytesV5};

int g_mask;  // one for the process, as in NCCL
char g_log[4096];
size_t g_log_length;

void Log(int, unsigned long, const char*, int, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int count = std::vsnprintf(g_log + g_log_length, sizeof g_log - g_log_length, format, arguments);
  va_end(arguments);
  if (count > 0 && g_log_length + static_cast<size_t>(count) + 2 < sizeof g_log) {
    g_log_length += static_cast<size_t>(count);
    g_log[g_log_length++] = '\n';
    g_log[g_log_length] = 0;
  }
}

uint8_t NumberOf(const char* name, std::initializer_list<const char*> names) {
  uint8_t number = 0;
  for (const char* candidate : names) {
    if (name != nullptr && std::strcmp(candidate, name) == 0) return number;
    number++;
  }
  return 200;
}

uint8_t FuncNumber(const char* func) {
  return NumberOf(func, {"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce", "SendRecv", "Send", "Recv"});
}

uint8_t DatatypeNumber(const char* type) {
  return NumberOf(type, {"ncclInt8", "ncclUint8", "ncclInt32", "ncclUint32", "ncclInt64", "ncclUint64", "ncclFloat16",
                         "ncclFloat32"});
}

}  // namespace

NcclDriver::NcclDriver(int version, const std::string& library)
    : version_(version), library_(::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)), mask_(&g_mask) {
  const std::string symbol = "ncclProfiler_v" + std::to_string(version);
  table_ = library_ == nullptr ? nullptr : static_cast<const ProfilerTable*>(::dlsym(library_, symbol.c_str()));
  page_ = static_cast<char*>(::mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (table_ == nullptr || page_ == MAP_FAILED || ::mprotect(page_ + kPage, kPage, PROT_NONE) != 0) {
    std::fprintf(stderr, "no plugin: %s\n", ::dlerror());
    std::abort();
  }
  descr_ = page_ + kPage - kBytes[version];
}

NcclDriver::~NcclDriver() {
  ::munmap(page_, 2 * kPage);
  ::dlclose(library_);
}

std::string NcclDriver::Logged() { return g_log; }

void* NcclDriver::Init(uint64_t comm_id, const char* name, int ranks, int rank, int nodes) {
  void* context = nullptr;
  if (version_ <= 3) {
    reinterpret_cast<ProfilerInitV1>(table_->init)(&context, mask_);
  } else if (version_ == 4) {
    reinterpret_cast<ProfilerInitV4>(table_->init)(&context, mask_, name, comm_id, nodes, ranks, rank, Log);
  } else {
    reinterpret_cast<ProfilerInitV5>(table_->init)(&context, comm_id, mask_, name, nodes, ranks, rank, Log);
  }
  return context;
}

template <typename T>
T* NcclDriver::Descr(uint32_t type, void* parent, int rank) {
  std::memset(descr_, 0xa5, kBytes[version_]);
  // Shorter than the whole descriptor, always: the struct is the part of one event type.
  auto* descr = reinterpret_cast<T*>(descr_);
  auto* head = reinterpret_cast<DescrHead*>(descr_);
  if (version_ >= 5) {
    head->type_word = type;
  } else {
    head->type_byte = static_cast<uint8_t>(type);
  }
  head->parent = parent;
  head->rank = rank;
  return descr;
}

void* NcclDriver::Start(void* context) {
  void* handle = nullptr;
  table_->start(context, &handle, descr_);
  return handle;
}

void* NcclDriver::Coll(void* context, const CollDescription& d) {
  if (version_ == 1) {
    auto* descr = Descr<DescrCollV1>(kEventColl, d.parent, d.rank);
    descr->name = d.comm_name;
    descr->comm_hash = d.comm_hash;
    descr->sequence = d.sequence;
    descr->func = FuncNumber(d.func);
    descr->count = d.count;
    descr->root = d.root;
    descr->datatype = DatatypeNumber(d.datatype);
    descr->channels = static_cast<uint8_t>(d.channels);
    descr->algo = NumberOf(d.algo, {"TREE", "RING"});
    descr->proto = NumberOf(d.proto, {"LL", "LL128", "SIMPLE"});
    return Start(context);
  }
  auto fill = [&](auto* descr) {
    descr->sequence = d.sequence;
    descr->func = d.func;
    descr->count = d.count;
    descr->root = d.root;
    descr->datatype = d.datatype;
    descr->channels = static_cast<uint8_t>(d.channels);
    descr->algo = d.algo;
    descr->proto = d.proto;
  };
  auto identify = [&](auto* descr) {
    descr->name = d.comm_name;
    descr->comm_hash = d.comm_hash;
    fill(descr);
  };
  if (version_ == 2) identify(Descr<DescrCollV2>(kEventColl, d.parent, d.rank));
  if (version_ == 3) identify(Descr<DescrCollV3>(kEventColl, d.parent, d.rank));
  if (version_ >= 4) fill(Descr<DescrCollV4>(kEventColl, d.parent, d.rank));
  if (version_ >= 5) reinterpret_cast<DescrCollV5*>(descr_)->parent_group = d.parent_group;
  return Start(context);
}

void* NcclDriver::P2p(void* context, const CollDescription& d, int peer) {
  if (version_ == 1) {
    auto* descr = Descr<DescrP2pV1>(kEventP2p, d.parent, d.rank);
    descr->name = d.comm_name;
    descr->comm_hash = d.comm_hash;
    descr->func = FuncNumber(d.func);
    descr->datatype = DatatypeNumber(d.datatype);
    descr->count = d.count;
    descr->peer = peer;
  } else if (version_ <= 3) {
    auto* descr = Descr<DescrP2pV2>(kEventP2p, d.parent, d.rank);
    descr->name = d.comm_name;
    descr->comm_hash = d.comm_hash;
    descr->func = d.func;
    descr->datatype = d.datatype;
    descr->count = d.count;
    descr->peer = peer;
  } else {
    auto* descr = Descr<DescrP2pV4>(kEventP2p, d.parent, d.rank);
    descr->func = d.func;
    descr->datatype = d.datatype;
    descr->count = d.count;
    descr->peer = peer;
    descr->channels = static_cast<uint8_t>(d.channels);
    if (version_ >= 5) reinterpret_cast<DescrP2pV5*>(descr_)->parent_group = d.parent_group;
  }
  return Start(context);
}

void* NcclDriver::Other(void* context, uint32_t type, void* parent, const char* func) {
  if (type == kEventCollApi) {
    auto* descr = Descr<DescrCollApi>(type, parent, 0);
    descr->func = func;
    descr->count = 1000;
    descr->datatype = "ncclFloat32";
    descr->root = 0;
    descr->is_captured = 0;
  } else if (type == kEventP2pApi) {
    auto* descr = Descr<DescrP2pApi>(type, parent, 0);
    descr->func = func;
    descr->count = 1000;
    descr->datatype = "ncclFloat32";
    descr->is_captured = 0;
  } else if (type == kEventGroupApi) {
    Descr<DescrGroupApi>(type, parent, 0)->is_captured = 0;
  } else {
    Descr<DescrHead>(type, parent, 0);
  }
  return Start(context);
}

void* NcclDriver::ProxyOp(void* context, const ProxyDescription& d) {
  auto* descr = Descr<DescrProxyOp>(kEventProxyOp, d.parent, d.rank);
  descr->pid = d.pid != 0 ? d.pid : ::getpid();
  descr->channel = static_cast<uint8_t>(d.channel);
  descr->peer = d.peer;
  descr->steps = d.steps;
  descr->chunk_bytes = 1 << 22;
  descr->is_send = d.is_send ? 1 : 0;
  return Start(context);
}

void* NcclDriver::KernelCh(void* context, void* parent, int channel, uint64_t timer) {
  auto* descr = Descr<DescrKernelCh>(kEventKernelCh, parent, 0);
  descr->channel = static_cast<uint8_t>(channel);
  if (version_ >= 4) descr->timer = timer;
  return Start(context);
}

void* NcclDriver::Step(void* context, void* operation, int step) {
  Descr<DescrProxyStep>(kEventProxyStep, operation, 0)->step = step;
  return Start(context);
}

void NcclDriver::Record(void* handle, int state, uint64_t bytes) const {
  StateArgs args{};
  args.trans_bytes = bytes;
  table_->record(handle, state, version_ >= 4 ? &args : nullptr);
}

void NcclDriver::RecordOperation(void* handle, int state, int steps, uint64_t bytes) const {
  StateArgs args{};
  args.trans_bytes = bytes;
  args.steps = steps;
  table_->record(handle, state, &args);
}

void NcclDriver::WholeStep(void* context, void* operation, bool is_send, int step, uint64_t bytes) {
  void* handle = Step(context, operation, step);
  if (is_send) {
    Record(handle, kStateStepSendGpuWait);
    if (version_ >= 4) Record(handle, kStateStepSendPeerWait);
    Record(handle, kStateStepSendWait, bytes);
  } else {
    Step(context, operation, step);
    Record(handle, kStateStepRecvWait);
    Record(handle, kStateStepRecvFlushWait, bytes);
    Record(handle, kStateStepRecvGpuWait);
  }
  Stop(handle);
}

void NcclDriver::AllReduce(void* context, uint64_t sequence, int channels, int steps, uint64_t step_bytes) {
  void *group_api = nullptr, *coll_api = nullptr;
  if (version_ >= 5) {
    group_api = Other(context, kEventGroupApi);
    Record(group_api, kStateGroupStartApiStop);
    coll_api = Other(context, kEventCollApi, group_api);
    Stop(coll_api);
    Record(group_api, kStateGroupEndApiStart);
    Stop(Other(context, kEventKernelLaunch, group_api));
  }
  void* group = Other(context, kEventGroup);
  CollDescription coll;
  coll.sequence = sequence;
  coll.channels = channels;
  coll.parent = version_ >= 5 ? coll_api : group;
  coll.parent_group = group;
  void* call = Coll(context, coll);
  Stop(call);
  Stop(group);
  if (group_api != nullptr) Stop(group_api);
  for (int channel = 0; channel < channels; channel++) {
    for (const bool is_send : {true, false}) {
      ProxyDescription d;
      d.parent = call;
      d.channel = channel;
      d.is_send = is_send;
      d.steps = steps;
      void* operation = ProxyOp(context, d);
      if (version_ >= 4) Record(operation, kStateOpInProgress);
      for (int step = 0; step < steps; step++) {
        WholeStep(context, operation, is_send, step, step_bytes);
        if (version_ <= 3) {
          RecordOperation(operation, is_send ? kStateOpSendTransmitted : kStateOpRecvReceived, step + 1, step_bytes);
          RecordOperation(operation, is_send ? kStateOpSendDone : kStateOpRecvDone, step + 1, step_bytes);
        }
      }
      Stop(operation);
    }
  }
}

}  // namespace paceline::tracer
