/* Streams, events, and a clock that counts launches. */
#include "device.h"

#define MOST_STREAMS 4096
enum { FIRST = 3 }; /* 0 is the default stream, 1 and 2 its two special handles */

static Stream streams[MOST_STREAMS];
static int n_streams = FIRST;

/* An event is complete when as many launches as `lag` came after it, or at a synchronization. */
static long now, settled;

typedef struct { u64 magic; long at; int recorded; u64 capture; } Event;
#define EVENT_MAGIC 0x746e6576652d7376ull

void work(u64 stream) {
  __atomic_add_fetch(&now, 1, __ATOMIC_RELAXED);
  u64 capture = stream_capture(stream);
  if (capture) graph_node(capture);
}
void settle(void) { settled = now; }

Stream *stream_of(u64 handle) {
  if (handle < FIRST) return &streams[handle];
  u64 i = (handle - STREAM_BASE) / 0x100;
  return handle >= STREAM_BASE && handle % 0x100 == 0 && i < MOST_STREAMS && streams[i].used ? &streams[i] : NULL;
}

u64 stream_capture(u64 handle) {
  Stream *s = stream_of(handle);
  return s ? s->capture : 0;
}

static status create(u64 *handle, int priority) {
  start();
  if (!handle) return fail(INVALID_VALUE);
  LOCK();
  int i = FIRST;
  while (i < n_streams && streams[i].used) i++;
  if (i < MOST_STREAMS) {
    if (i == n_streams) n_streams++;
    streams[i] = (Stream){.device = current, .priority = priority, .used = 1};
    devices[current].active = 1;
  }
  UNLOCK();
  if (i == MOST_STREAMS) return fail(OUT_OF_MEMORY);
  *handle = STREAM_BASE + (u64)i * 0x100;
  return SUCCESS;
}

EXPORT status cudaStreamCreate(u64 *s) { return create(s, 0); }
EXPORT status cudaStreamCreateWithFlags(u64 *s, unsigned flags) { (void)flags; return create(s, 0); }
EXPORT status cudaStreamCreateWithPriority(u64 *s, unsigned flags, int priority) { (void)flags; return create(s, priority); }
EXPORT status cuStreamCreate(u64 *s, unsigned flags) { (void)flags; return create(s, 0); }
EXPORT status cuStreamCreateWithPriority(u64 *s, unsigned flags, int priority) { (void)flags; return create(s, priority); }

EXPORT status cudaStreamDestroy(u64 handle) {
  Stream *s = stream_of(handle);
  if (!s || handle < FIRST) return fail(INVALID_HANDLE);
  LOCK();
  s->used = 0;
  UNLOCK();
  return SUCCESS;
}
ALIAS(cuStreamDestroy_v2, cudaStreamDestroy)
ALIAS(cuStreamDestroy, cudaStreamDestroy)

EXPORT status cudaStreamGetPriority(u64 handle, int *priority) {
  Stream *s = stream_of(handle);
  if (s) *priority = s->priority;
  return s ? SUCCESS : fail(INVALID_HANDLE);
}
ALIAS(cuStreamGetPriority, cudaStreamGetPriority)
EXPORT status cudaStreamGetFlags(u64 handle, unsigned *flags) { *flags = handle >= FIRST; return SUCCESS; }
ALIAS(cuStreamGetFlags, cudaStreamGetFlags)
EXPORT status cudaStreamGetDevice(u64 handle, int *device) {
  Stream *s = stream_of(handle);
  if (s) *device = handle < FIRST ? current : s->device;
  return s ? SUCCESS : fail(INVALID_HANDLE);
}
EXPORT status cuStreamGetDevice(u64 handle, int *device) { return cudaStreamGetDevice(handle, device); }
EXPORT status cudaStreamGetId(u64 handle, u64 *id) {
  *id = handle < FIRST ? handle : (handle - STREAM_BASE) / 0x100;
  return SUCCESS;
}
ALIAS(cuStreamGetId, cudaStreamGetId)
EXPORT status cuStreamGetCtx(u64 handle, void **context) {
  int device = 0;
  status s = cudaStreamGetDevice(handle, &device);
  *context = (void *)(u64)(0x4000 + device);
  return s;
}

EXPORT status cudaStreamSynchronize(u64 handle) {
  start();
  if (!stream_of(handle)) return fail(INVALID_HANDLE);
  settle();
  return SUCCESS;
}
ALIAS(cuStreamSynchronize, cudaStreamSynchronize)
EXPORT status cudaStreamQuery(u64 handle) {
  if (!stream_of(handle)) return fail(INVALID_HANDLE);
  __atomic_add_fetch(&now, 1, __ATOMIC_RELAXED);
  return SUCCESS;
}
ALIAS(cuStreamQuery, cudaStreamQuery)

EXPORT status cudaStreamWaitEvent(u64 handle, Event *e, unsigned flags) {
  (void)flags;
  Stream *s = stream_of(handle);
  if (!s || (e && e->magic != EVENT_MAGIC)) return fail(INVALID_HANDLE);
  if (e && e->capture) s->capture = e->capture; /* the stream joins the capture */
  return SUCCESS;
}
ALIAS(cuStreamWaitEvent, cudaStreamWaitEvent)
EXPORT status cudaStreamAddCallback(u64 handle, void (*call)(u64, status, void *), void *with, unsigned flags) {
  (void)flags;
  call(handle, SUCCESS, with);
  return SUCCESS;
}
ALIAS(cuStreamAddCallback, cudaStreamAddCallback)
EXPORT status cudaLaunchHostFunc(u64 handle, void (*call)(void *), void *with) {
  if (!stream_capture(handle)) call(with);
  return SUCCESS;
}
ALIAS(cuLaunchHostFunc, cudaLaunchHostFunc)

/* ---- events ---- */
EXPORT status cudaEventCreateWithFlags(Event **e, unsigned flags) {
  (void)flags;
  start();
  if (!e) return fail(INVALID_VALUE);
  *e = calloc(1, sizeof **e);
  if (!*e) return fail(OUT_OF_MEMORY);
  (*e)->magic = EVENT_MAGIC;
  return SUCCESS;
}
ALIAS(cuEventCreate, cudaEventCreateWithFlags)
EXPORT status cudaEventCreate(Event **e) { return cudaEventCreateWithFlags(e, 0); }
EXPORT status cudaEventDestroy(Event *e) {
  if (!e || e->magic != EVENT_MAGIC) return fail(INVALID_HANDLE);
  e->magic = 0;
  free(e);
  return SUCCESS;
}
ALIAS(cuEventDestroy_v2, cudaEventDestroy)
EXPORT status cudaEventRecord(Event *e, u64 handle) {
  if (!e || e->magic != EVENT_MAGIC || !stream_of(handle)) return fail(INVALID_HANDLE);
  e->at = now;
  e->recorded = 1;
  e->capture = stream_capture(handle);
  return SUCCESS;
}
ALIAS(cuEventRecord, cudaEventRecord)
EXPORT status cudaEventRecordWithFlags(Event *e, u64 handle, unsigned flags) { (void)flags; return cudaEventRecord(e, handle); }
EXPORT status cudaEventQuery(Event *e) {
  if (!e || e->magic != EVENT_MAGIC) return fail(INVALID_HANDLE);
  if (!gpu.lag || !e->recorded || e->at <= settled) return SUCCESS;
  __atomic_add_fetch(&now, 1, __ATOMIC_RELAXED); /* asking makes time pass, so that who waits in a loop comes to its end */
  return now - e->at > gpu.lag ? SUCCESS : fail(NOT_READY);
}
ALIAS(cuEventQuery, cudaEventQuery)
EXPORT status cudaEventSynchronize(Event *e) {
  if (!e || e->magic != EVENT_MAGIC) return fail(INVALID_HANDLE);
  if (e->recorded && e->at > settled) settled = e->at;
  return SUCCESS;
}
ALIAS(cuEventSynchronize, cudaEventSynchronize)
EXPORT status cudaEventElapsedTime(float *ms, Event *from, Event *to) {
  if (!from || !to || from->magic != EVENT_MAGIC || to->magic != EVENT_MAGIC) return fail(INVALID_HANDLE);
  float t = (float)(to->at - from->at) * 0.01f;
  *ms = t > 0.01f ? t : 0.01f;
  return SUCCESS;
}
ALIAS(cudaEventElapsedTime_v2, cudaEventElapsedTime)
ALIAS(cuEventElapsedTime, cudaEventElapsedTime)
ALIAS(cuEventElapsedTime_v2, cudaEventElapsedTime)

void leave_capture(u64 capture) {
  LOCK();
  for (int i = 0; i < n_streams; i++)
    if (streams[i].capture == capture) streams[i].capture = 0;
  UNLOCK();
}
