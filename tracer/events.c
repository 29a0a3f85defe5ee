// From a callback of any version to the part that keeps that kind of event.
#include "tracer/tracer.h"

// Tells NCCL that the event is watched, where a missing handle would make it leave out the children.
static void* WatchedHandle(void) { return (void*)(uintptr_t)RingHandle(&g_tracer.ring, RING_HANDLE_OTHER, 0, 0); }

static void* StartOther(int version, uint32_t type, void* context, const void* descr) {
  switch (type) {
    case kEventColl:
    case kEventP2p:
    case kEventGroupApi:
    case kEventCollApi:
    case kEventP2pApi:
    case kEventKernelLaunch:
    case kEventCeColl: {
      PollMask();
      void* handle = StartCall(version, type, context, descr);
      return handle != NULL ? handle : WatchedHandle();
    }
    case kEventProxyOp: return StartProxy(context, descr);
    case kEventKernelCh: return StartKernel(version, context, descr);
    case kEventGroup: return WatchedHandle();
    default: return NULL;
  }
}

int StartEvent(void* context, void** handle, void* descr, int version) {
  *handle = NULL;
  const uint32_t type = TypeOf(version, descr);
  if (__atomic_load_n(&g_tracer.is_on, __ATOMIC_ACQUIRE) != 0) {
    *handle = type == kEventProxyStep ? StartStep(descr) : StartOther(version, type, context, descr);
  }
  if (g_forwards) ForwardStart(version, type, context, handle, descr);
  return 0;
}

int StopEvent(void* opaque) {
  const uint64_t handle = (uint64_t)(uintptr_t)opaque;
  if (handle == 0) return 0;
  if (g_forwards) ForwardStop(handle);
  if (__atomic_load_n(&g_tracer.is_on, __ATOMIC_ACQUIRE) == 0) return 0;
  if (IsHandle(handle, RING_HANDLE_STEP)) {
    StopStep(handle);
  } else if (IsHandle(handle, RING_HANDLE_PROXY)) {
    StopProxy(handle);
  } else if (IsHandle(handle, RING_HANDLE_CALL)) {
    StopCall(handle);
  } else if (IsHandle(handle, RING_HANDLE_KERNEL)) {
    StopKernel(handle);
  } else if (!IsHandle(handle, RING_HANDLE_OTHER)) {
    RingCountDrop(&g_tracer.ring, RING_DROP_STALE_HANDLE);
  }
  return 0;
}

int RecordEvent(void* opaque, int state, void* args) {
  const uint64_t handle = (uint64_t)(uintptr_t)opaque;
  if (handle == 0) return 0;
  if (g_forwards) ForwardRecord(handle, state, args);
  if (__atomic_load_n(&g_tracer.is_on, __ATOMIC_ACQUIRE) == 0) return 0;
  if (IsHandle(handle, RING_HANDLE_STEP)) {
    RecordStep(handle, state, args);
  } else if (IsHandle(handle, RING_HANDLE_PROXY)) {
    RecordProxy(handle, state, args);
  } else if (IsHandle(handle, RING_HANDLE_CALL)) {
    RecordCall(handle, state);
  } else if (IsHandle(handle, RING_HANDLE_KERNEL)) {
    RecordKernel(handle, state, args);
  } else if (!IsHandle(handle, RING_HANDLE_OTHER)) {
    RingCountDrop(&g_tracer.ring, RING_DROP_STALE_HANDLE);
  }
  return 0;
}
