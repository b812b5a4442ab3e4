/* Asks the simulated GPU as a program would: check NAME runs one check, and the first thing that is wrong ends it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

typedef uint64_t u64;
#define MIB (1ull << 20)
#define WANT(x) do { if (!(x)) { printf("line %d: %s\n", __LINE__, #x); exit(1); } } while (0)
#define IS(x, y) do { u64 a_ = (u64)(x), b_ = (u64)(y); if (a_ != b_) { \
  printf("line %d: %s is %llu, not %llu\n", __LINE__, #x, (unsigned long long)a_, (unsigned long long)b_); exit(1); } } while (0)

int cudaMalloc(void **, size_t), cudaFree(void *), cudaMemGetInfo(size_t *, size_t *), cudaGetLastError(void),
    cudaGetDeviceCount(int *);
int cudaSetDevice(int), cudaMemcpy(void *, const void *, size_t, int), cudaMemset(void *, int, size_t), cudaHostAlloc(void **,
    size_t, unsigned);
int cudaFreeHost(void *), cudaDeviceGetPCIBusId(char *, int, int), cudaDeviceGetAttribute(int *, int, int),
    cudaPointerGetAttributes(void *, const void *);
int cudaStreamCreate(void **), cudaStreamDestroy(void *), cudaStreamSynchronize(void *), cudaStreamWaitEvent(void *, void *,
    unsigned);
int cudaEventCreate(void **), cudaEventRecord(void *, void *), cudaEventQuery(void *), cudaEventSynchronize(void *),
    cudaEventDestroy(void *);
int cudaStreamBeginCapture(void *, int), cudaStreamEndCapture(void *, void **), cudaStreamIsCapturing(void *, int *),
    cudaGraphGetNodes(void *, void **, size_t *);
int cudaGraphInstantiate(void **, void *, u64), cudaGraphLaunch(void *, void *), cudaMemsetAsync(void *, int, size_t, void *);
int cuMemAddressReserve(u64 *, size_t, size_t, u64, u64), cuMemAddressFree(u64, size_t), cuMemCreate(u64 *, size_t, const void *,
    u64), cuMemRelease(u64);
int cuMemMap(u64, size_t, size_t, u64, u64), cuMemUnmap(u64, size_t), cuMemGetAddressRange(u64 *, size_t *, u64);
int cuGetProcAddress_v2(const char *, void **, int, u64, int *), cudaGetDriverEntryPointByVersion(const char *, void **,
    unsigned, u64, int *);
int cufftCreate(int *), cufftDestroy(int), cublasCreate_v2(void **), cublasDestroy_v2(void *), cublasSetStream_v2(void *, void *), cublasGetStream_v2(void *, void **);
int cusolverDnSpotrf_bufferSize(void *, int, int, void *, int, int *), cudaGetDeviceProperties_v2(void *, int),
    cudnnCreateTensorDescriptor(void **);
int cudnnSetTensorNdDescriptor(void *, int, int, const int *, const int *), cudnnGetTensorNdDescriptor(void *, int, int *, int *,
    int *, int *);
int cudaImportExternalMemory(void **, const void *), nvmlInit_v2(void), nvmlDeviceGetCount_v2(unsigned *),
    nvmlDeviceGetHandleByIndex_v2(unsigned, void **);
int nvmlDeviceGetComputeRunningProcesses(void *, unsigned *, void *), nvmlDeviceGetMemoryInfo(void *, u64 *),
    vramscope_simulated(void);
u64 vramscope_simulated_used(int), vramscope_simulated_peak(int);
void vramscope_simulated_set_bool(int), vramscope_simulated_forget(u64, u64);
u64 vramscope_simulated_turn(u64);
int vramscope_simulated_known(u64, u64);
void **__cudaRegisterFatBinary(const void *), __cudaRegisterFunction(void **, const void *);
int cudaFuncGetAttributes(void *, const void *);
typedef struct { char bytes[128]; } Id;
int ncclCommInitRank(void **, int, Id, int), ncclAllGather(const void *, void *, size_t, int, void *, void *),
    ncclCommDestroy(void *), ncclCommSplit(void *, int, int, void **, void *), ncclCommCount(void *, int *), ncclCommUserRank(void *, int *);
void vramscope_simulated_group(int, int);
int ncclGroupStart(void), ncclGroupEnd(void), ncclBroadcast(const void *, void *, size_t, int, int, void *, void *);
int cudnnBackendCreateDescriptor(int, void **), cudnnBackendSetAttribute(void *, int, int, int64_t, const void *),
    cudnnBackendFinalize(void *);
int cudnnBackendGetAttribute(void *, int, int, int64_t, int64_t *, void *), cudnnBackendExecute(void *, void *, void *),
    cudnnBackendDestroyDescriptor(void *);
int cudnnCreateRNNDescriptor(void **), cudnnGetRNNWeightSpaceSize(void *, void *, size_t *);
int cudnnSetRNNDescriptor_v8(void *, int, int, int, int, int, int, int, int, int, int, int, int, void *, unsigned);
int cudnnGetRNNWeightParams(void *, void *, int, size_t, char *, int, void *, void **, void *, void **);

static size_t left(void) {
  size_t free_bytes = 0, total = 0;
  IS(cudaMemGetInfo(&free_bytes, &total), 0);
  IS(total, 1024 * MIB);
  return free_bytes;
}
static void *take(size_t bytes) {
  void *p = NULL;
  IS(cudaMalloc(&p, bytes), 0);
  return p;
}

/* The card of the tests has 1 GiB, of which the context takes 24 MiB. */
static void capacity(void) {
  IS(left(), 1000 * MIB);
  void *a = take(1000 * MIB), *b = NULL;
  IS(left(), 0);
  IS(cudaMalloc(&b, 1), 2);
  IS(b, 0);
  IS(cudaGetLastError(), 2);
  IS(cudaGetLastError(), 0);
  IS(cudaFree(a), 0);
  IS(left(), 1000 * MIB);
  IS(cudaMalloc(&b, 1000 * MIB + 1), 2);
  IS(vramscope_simulated_used(0), 0);
  IS(vramscope_simulated_peak(0), 1000 * MIB);
}

static void pages(void) {
  void *a = take(1), *b = take(513), *c = take(MIB - 1);
  IS((u64)b - (u64)a, 512);
  IS((u64)c - (u64)b, 1024);
  IS(vramscope_simulated_used(0), 2 * MIB);
  void *d = take(MIB); /* has pages of its own */
  IS(vramscope_simulated_used(0), 4 * MIB);
  cudaFree(a), cudaFree(b);
  IS(vramscope_simulated_used(0), 4 * MIB);
  cudaFree(c), cudaFree(d);
  IS(vramscope_simulated_used(0), 0);
  IS(take(0), 0);
}

static void fragmentation(void) {
  void *p[250];
  for (int i = 0; i < 250; i++) p[i] = take(4 * MIB);
  IS(left(), 0);
  for (int i = 0; i < 250; i += 2) cudaFree(p[i]);
  IS(take(4 * MIB), p[0]);       /* the lowest hole */
  WANT(take(8 * MIB) > p[249]);  /* fits no hole: addresses aren't what is scarce */
  IS(left(), 488 * MIB);
}

static void absurd(void) {
  void *p = &p, *stream;
  u64 at, handle;
  struct { int kind, types, where, device; char rest[16]; } properties = {1, 0, 1, 0, ""};
  IS(cudaMalloc(NULL, 1), 1);
  IS(cudaMalloc(&p, SIZE_MAX), 2);
  IS(cudaMalloc(&p, 1ull << 63), 2);
  IS(cudaFree((void *)0x1234), 1);
  p = take(4 * MIB);
  IS(cudaFree((char *)p + 512), 1);
  IS(cudaFree(p), 0);
  IS(cudaFree(p), 1);
  IS(cudaSetDevice(-1), 101);
  IS(cudaSetDevice(1), 101);
  IS(cudaMemset((void *)0x200000000000ull, 0, SIZE_MAX), 1);
  IS(cudaMemcpy((void *)0x200000000000ull, &at, SIZE_MAX, 1), 1);
  IS(cudaHostAlloc(&p, SIZE_MAX, 0), 2);
  IS(cudaFreeHost((void *)0x10), 1);
  IS(cudaStreamDestroy((void *)0x5a0000000300ull), 400);
  IS(cudaStreamSynchronize((void *)0x77), 400);
  IS(cudaStreamCreate(&stream), 0);
  IS(cudaStreamDestroy(stream), 0);
  IS(cudaStreamDestroy(stream), 400);
  IS(cuMemAddressReserve(&at, 0, 0, 0, 0), 1);
  IS(cuMemAddressReserve(&at, SIZE_MAX, 0, 0, 0), 1);
  IS(cuMemAddressReserve(&at, 1ull << 45, 0, 0, 0), 2);
  IS(cuMemAddressReserve(&at, 2 * MIB, 3, 0, 0), 1);
  IS(cuMemAddressReserve(&at, 4 * MIB, 0, 0, 0), 0);
  IS(cuMemCreate(&handle, 1, &properties, 0), 1);
  IS(cuMemCreate(&handle, 1ull << 62, &properties, 0), 2);
  p = take(4 * MIB);
  IS(cuMemCreate(&handle, -2 * MIB, &properties, 0), 2);
  cudaFree(p);
  properties.device = 7;
  IS(cuMemCreate(&handle, 2 * MIB, &properties, 0), 101);
  properties.device = 0;
  IS(cuMemCreate(&handle, 2 * MIB, &properties, 0), 0);
  IS(cuMemMap(at + 1, 2 * MIB, 0, handle, 0), 1);
  IS(cuMemMap(at, 4 * MIB, 0, handle, 0), 1);
  IS(cuMemMap(at, 2 * MIB, 0, handle + 1, 0), 1);
  IS(cuMemMap(at, 2 * MIB, 0, 0, 0), 1);
  IS(cuMemMap(at + 4 * MIB, 2 * MIB, 0, handle, 0), 1);
  IS(cuMemUnmap(0, SIZE_MAX), 1);
  IS(cuMemRelease(0), 1);
  IS(cuMemRelease(1ull << 60), 1);
  IS(cuMemAddressFree(12, 2 * MIB), 1);
  IS(cudnnBackendExecute(NULL, &properties, NULL), 2000);
}

static void virtual_memory(void) {
  struct { int kind, types, where, device; char rest[16]; } properties = {1, 0, 1, 0, ""};
  u64 at, other, handle, second, base;
  size_t size;
  IS(cuMemAddressReserve(&at, 40 * MIB, 0, 0, 0), 0);
  IS(cuMemAddressReserve(&other, 2 * MIB, 0, 0, 0), 0);
  IS(at, 0x302000000ull);
  IS(other, at + 40 * MIB);
  IS(vramscope_simulated_used(0), 0);
  IS(cuMemCreate(&handle, 20 * MIB, &properties, 0), 0);
  IS(cuMemCreate(&second, 2 * MIB, &properties, 0), 0);
  IS(vramscope_simulated_used(0), 22 * MIB);
  IS(cuMemMap(at, 20 * MIB, 0, handle, 0), 0);
  IS(cuMemMap(at + 18 * MIB, 2 * MIB, 0, second, 0), 1); /* taken */
  IS(cuMemMap(at + 20 * MIB, 2 * MIB, 0, second, 0), 0);
  IS(cuMemRelease(handle), 0); /* stays while it is mapped */
  IS(vramscope_simulated_used(0), 22 * MIB);
  IS(cuMemGetAddressRange(&base, &size, at + 5), 0);
  IS(base, at);
  IS(size, 20 * MIB);
  IS(cuMemUnmap(at, 20 * MIB), 0);
  IS(vramscope_simulated_used(0), 2 * MIB);
  IS(cuMemUnmap(at + 20 * MIB, 2 * MIB), 0);
  IS(cuMemRelease(second), 0);
  IS(vramscope_simulated_used(0), 0);
  IS(cuMemCreate(&handle, 1000 * MIB, &properties, 0), 0);
  IS(cuMemCreate(&second, 2 * MIB, &properties, 0), 2);
  IS(cuMemRelease(handle), 0);
  IS(cuMemAddressFree(at, 40 * MIB), 0);
}

/* lag=3 */
static void events(void) {
  void *stream, *event, *p = take(MIB);
  IS(cudaStreamCreate(&stream), 0);
  IS(stream, 0x5a0000000300ull);
  IS(cudaEventCreate(&event), 0);
  IS(cudaEventQuery(event), 0); /* never recorded */
  IS(cudaEventRecord(event, stream), 0);
  IS(cudaEventQuery(event), 0); /* nothing came before it */
  IS(cudaMemsetAsync(p, 0, 1, stream), 0);
  IS(cudaEventRecord(event, stream), 0);
  IS(cudaEventQuery(event), 600);
  IS(cudaEventSynchronize(event), 0);
  IS(cudaEventQuery(event), 0);
  IS(cudaMemsetAsync(p, 0, 1, stream), 0);
  IS(cudaEventRecord(event, stream), 0);
  IS(cudaEventQuery(event), 600);
  for (int i = 0; i < 3; i++) cudaMemsetAsync(p, 0, 1, stream);
  IS(cudaEventQuery(event), 0);
  IS(cudaEventDestroy(event), 0);
}

static void graphs(void) {
  void *stream, *second, *event, *graph, *executable, *nodes[8], *p = take(MIB);
  int capturing = 7;
  size_t n = 0;
  cudaStreamCreate(&stream), cudaStreamCreate(&second), cudaEventCreate(&event);
  IS(cudaStreamBeginCapture(NULL, 0), 900);
  IS(cudaStreamEndCapture(stream, &graph), 401);
  IS(cudaStreamBeginCapture(stream, 0), 0);
  IS(cudaStreamBeginCapture(stream, 0), 401);
  IS(cudaMemsetAsync(p, 0, 1, stream), 0);
  IS(cudaEventRecord(event, stream), 0);
  IS(cudaStreamIsCapturing(second, &capturing), 0);
  IS(capturing, 0);
  IS(cudaStreamWaitEvent(second, event, 0), 0);
  IS(cudaStreamIsCapturing(second, &capturing), 0);
  IS(capturing, 1);
  IS(cudaMemsetAsync(p, 0, 1, second), 0);
  IS(cudaStreamEndCapture(stream, &graph), 0);
  IS(cudaStreamIsCapturing(second, &capturing), 0);
  IS(capturing, 0);
  IS(cudaGraphGetNodes(graph, NULL, &n), 0);
  IS(n, 2);
  IS(cudaGraphGetNodes(graph, nodes, &n), 0);
  WANT(nodes[0] && nodes[1] && nodes[0] != nodes[1]);
  IS(cudaGraphInstantiate(&executable, graph, 0), 0);
  IS(cudaGraphLaunch(executable, stream), 0);
}

static void values(void) {
  char *p = take(4 * MIB), *q = take(4 * MIB);
  static char big[70000];
  int in[4] = {1, 2, 3, 4}, out[4] = {9, 9, 9, 9};
  cudaMemcpy(out, p, 16, 2);
  IS(out[0] | out[3], 0);
  cudaMemcpy(p, in, 16, 1);
  cudaMemcpy(out, p, 16, 2);
  IS(memcmp(in, out, 16), 0);
  cudaMemcpy(out, p + 8, 4, 2);
  IS(out[0], 3);
  cudaMemcpy(q + 100, p, 16, 3);
  cudaMemcpy(out, q + 104, 8, 2);
  IS(out[0] == 2 && out[1] == 3, 1);
  IS(vramscope_simulated_known((u64)q + 100, 16), 1);
  IS(vramscope_simulated_known((u64)q + 100, 17) | vramscope_simulated_known((u64)q, 0) | vramscope_simulated_known((u64)p, ~0ull), 0);
  cudaMemset(p + 4, 0x11, 4); /* cuts the copy in three */
  cudaMemcpy(out, p, 16, 2);
  IS(out[0] == 1 && out[1] == 0x11111111 && out[2] == 3 && out[3] == 4, 1);
  vramscope_simulated_forget((u64)p + 4, 4);
  cudaMemcpy(out, p, 16, 2);
  IS(out[0], 0); /* not known as a whole */
  cudaMemcpy(out, p + 8, 8, 2);
  IS(out[0] == 3 && out[1] == 4, 1);
  cudaMemcpy(p, big, sizeof big, 1);
  cudaMemcpy(out, p + 8, 8, 2);
  IS(out[0], 0);
  cudaMemcpy(q + 100, p, 16, 3); /* of what nobody wrote */
  cudaMemcpy(out, q + 100, 16, 2);
  IS(out[0], 0);
  cudaMemcpy(p, in, 16, 1);
  cudaFree(p);
  IS(take(4 * MIB), p);
  cudaMemcpy(out, p, 16, 2);
  IS(out[0], 0);
  char byte = 5;
  cudaMemcpy(&byte, p, 1, 2);
  IS(byte, 0);
  vramscope_simulated_set_bool(1);
  cudaMemcpy(&byte, p, 1, 2);
  IS(byte, 1);
  enum { MANY = 200000 }; /* more than are kept: what is used stays */
  for (int i = 1; i < MANY; i++) {
    cudaMemcpy(q + 8 * i, &i, 4, 1);
    if (i % 1000 == 0) cudaMemcpy(out, q + 8, 4, 2);
  }
  IS(out[0], 1);
  cudaMemcpy(out, q + 8 * (MANY - 1), 4, 2);
  IS(out[0], MANY - 1);
  cudaMemcpy(out, q + 16, 4, 2);
  IS(out[0], 0);
}

/* How PyTorch's allocator says that it hands out an address, or takes it back. */
void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *, int64_t, size_t, size_t, uint16_t);
static void reuse(void) {
  char *p = take(4 * MIB);
  int in[2] = {5, 6}, out[2];
  cudaMemcpy(p + 512, in, 8, 1);
  IS(vramscope_simulated_turn((u64)p + 1024), 0);
  _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(p + 1024, 512, 0, 0, 1);
  u64 turn = vramscope_simulated_turn((u64)p + 1024);
  WANT(turn > 0);
  cudaMemcpy(out, p + 512, 8, 2);
  IS(out[1], 6);
  _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(p, -1024, 0, 0, 1);
  IS(vramscope_simulated_turn((u64)p), 0); /* taken back, never handed out */
  _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(p + 1024, 512, 0, 0, 1);
  WANT(vramscope_simulated_turn((u64)p + 1024) > turn);
  cudaMemcpy(out, p + 512, 8, 2);
  IS(out[1], 0);
  enum { MANY = 50000 }; /* of many blocks each has its own, also after others went */
  char *many = take(64 * MIB);
  u64 first = vramscope_simulated_turn((u64)p + 1024);
  for (int i = 0; i < MANY; i++) _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(many + 512 * i, 512, 0, 0, 1);
  for (int i = 0; i < MANY; i += 3) _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(many + 512 * i, -512, 0, 0, 1);
  for (int i = 0; i < MANY; i++) IS(vramscope_simulated_turn((u64)many + 512 * i), i % 3 ? first + 1 + i : 0);
  IS(vramscope_simulated_turn((u64)p + 1024), first);
  _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(p, INT64_MIN, 0, 0, 1);
  _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(in, 8, 0, 0, 0); /* of the host */
}

static void collectives(void) {
  void *c;
  Id id;
  int in[2] = {5, 6}, out[6];
  char *p = take(MIB);
  memset(&id, 0, sizeof id);
  IS(ncclCommInitRank(&c, 0, id, 0), 4);
  IS(ncclCommInitRank(&c, 3, id, 3), 4);
  IS(ncclCommInitRank(&c, 3, id, 2), 0);
  cudaMemcpy(p, in, 8, 1);
  IS(ncclAllGather(p, p + 1024, 2, 2, c, NULL), 0);
  cudaMemcpy(out, p + 1024, 24, 2);
  IS(out[0] == 5 && out[1] == 6 && out[4] == 5 && out[5] == 6, 1);
  IS(ncclBroadcast(p, p + 4096, 2, 2, 0, c, NULL), 0);
  cudaMemcpy(out, p + 4096, 8, 2);
  IS(out[1], 6);
  IS(ncclGroupStart(), 0); /* a list gathered by broadcasts, this rank's last */
  IS(ncclBroadcast(p + 8192, p + 8192, 2, 2, 0, c, NULL), 0);
  IS(ncclBroadcast(p + 8704, p + 8704, 1, 2, 1, c, NULL), 0);
  IS(ncclBroadcast(p, p + 9216, 2, 2, 2, c, NULL), 0);
  IS(ncclGroupEnd(), 0);
  for (int i = 0; i < 3; i++) cudaMemcpy(out + 2 * i, p + 8192 + 512 * i, 8, 2);
  IS(out[0] == 5 && out[1] == 6 && out[2] == 0 && out[4] == 5 && out[5] == 6, 1);
  IS(ncclAllGather(p, p + 1024, SIZE_MAX, 2, c, NULL), 4);
  void *part;
  int ranks, rank;
  vramscope_simulated_group(256, 1);
  vramscope_simulated_group(8, 3);
  vramscope_simulated_group(0, 0);
  IS(ncclCommSplit(c, 1, 3, &part, NULL), 0); /* the one in which this is the fourth */
  IS(ncclCommCount(part, &ranks) | ncclCommUserRank(part, &rank), 0);
  IS(ranks == 8 && rank == 3, 1);
  IS(ncclCommDestroy(part), 0);
  IS(ncclCommSplit(c, 1, 1, &part, NULL), 0); /* another of the same color */
  IS(ncclCommCount(part, &ranks) | ncclCommUserRank(part, &rank), 0);
  IS(ranks == 256 && rank == 1, 1);
  IS(ncclCommDestroy(part), 0);
  IS(ncclCommSplit(c, 7, 2, &part, NULL), 0); /* nobody said it */
  IS(ncclCommCount(part, &ranks) | ncclCommUserRank(part, &rank), 0);
  IS(ranks == 3 && rank == 2, 1);
  IS(ncclCommDestroy(part), 0);
  IS(ncclCommSplit(c, -1, 0, &part, NULL), 0);
  IS(part, 0);
  IS(ncclCommDestroy(c), 0);
}

static long resident(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return u.ru_maxrss / 1024;
}
static void pinned(void) {
  void *p, *d = take(512 * MIB);
  struct { int type, device; void *on_device, *on_host; char guard[64]; } a;
  char *pageable = malloc(512 * MIB);
  memset(a.guard, 'x', sizeof a.guard);
  IS(cudaHostAlloc(&p, 64ull << 30, 0), 0);
  IS(cudaMemcpy(d, p, 512 * MIB, 1), 0);
  IS(cudaMemcpy((char *)p + 100, d, 512 * MIB, 2), 0);
  IS(cudaMemcpy(pageable, d, 512 * MIB, 2), 0);
  IS(pageable[0] | pageable[300 * MIB] | ((char *)p)[5000], 0);
  WANT(resident() < 100);
  IS(cudaPointerGetAttributes(&a, p), 0);
  IS(a.type, 1);
  IS(cudaPointerGetAttributes(&a, d), 0);
  IS(a.type, 2);
  IS(a.guard[0] == 'x' && a.guard[63] == 'x', 1); /* CUDA 13's structure is larger, and its caller's isn't written */
  IS(cudaPointerGetAttributes(&a, &a), 0);
  IS(a.type, 0);
  IS(cudaFreeHost(p), 0);
}

static void handles(void) {
  int plan = 0;
  void *a, *b, *stream;
  IS(cublasCreate_v2(&a), 0);
  IS(cublasCreate_v2(&b), 0);
  WANT(a != b);
  IS(cublasSetStream_v2(a, (void *)0x5a0000000300ull), 0);
  IS(cublasGetStream_v2(a, &stream), 0);
  IS(stream, 0x5a0000000300ull);
  IS(cublasGetStream_v2(b, &stream), 0);
  IS(stream, 0);
  IS(cublasGetStream_v2(&a, &stream), 0); /* no handle at all */
  IS(cublasGetStream_v2((void *)7, &stream), 0);
  IS(cufftCreate(&plan), 0); /* a number */
  WANT(plan);
  IS(cufftDestroy(plan), 0);
  IS(cublasDestroy_v2(a), 0);
}

static void unknown(void) {
  int bytes = 7, found = 7;
  void *f;
  IS(cusolverDnSpotrf_bufferSize(NULL, 0, 0, NULL, 0, &bytes), 0);
  IS(bytes, 0);
  IS(cudaImportExternalMemory(&f, NULL), 801);
  IS(cuGetProcAddress_v2("cuMemAlloc", &f, 12000, 0, &found), 0);
  WANT(f == dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
  IS(found, 0);
  IS(cuGetProcAddress_v2("cuOfTomorrow\"", &f, 12000, 0, &found), 500);
  IS(found, 1);
  IS(cudaGetDriverEntryPointByVersion("cuOfTomorrow\"", &f, 12000, 0, &found), 0);
  IS(f, 0);
  take(MIB); /* a process that has no device writes no account */
}

static int number(const char *p, int at) {
  int n;
  memcpy(&n, p + at, 4);
  return n;
}
static void properties(void) {
  static char p[2048];
  int value;
  int (*of[3])(void *, int);
  const char *versions[] = {"libcudart.so.11.0", "libcudart.so.12", "libcudart.so.13"};
  int sizes[] = {728, 728, 1008}, processors[] = {388, 388, 384}, l2[] = {616, 616, 596};
  for (int i = 0; i < 3; i++) {
    of[i] = (int (*)(void *, int))dlvsym(RTLD_DEFAULT, "cudaGetDeviceProperties", versions[i]);
    WANT(of[i]);
    memset(p, 'x', sizeof p);
    IS(of[i](p, 0), 0);
    IS(strcmp(p, "Tesla Test"), 0);
    IS(number(p, 360) * 10 + number(p, 364), 86);
    IS(number(p, processors[i]), 84);
    IS(number(p, l2[i]), 6291456);
    IS(p[sizes[i] - 1], 0);
    IS(p[sizes[i]], 'x');
  }
  memset(p, 'x', sizeof p);
  IS(cudaGetDeviceProperties_v2(p, 0), 0);
  IS(number(p, 388), 84);
  IS(p[1031] == 0 && p[1032] == 'x', 1);
  IS(cudaDeviceGetAttribute(&value, 16, 0), 0);
  IS(value, 84);
  IS(cudaDeviceGetAttribute(&value, 81, 0), 0);
  IS(value, 102400);
  IS(cudaDeviceGetAttribute(&value, 16, 1), 101);
  WANT(dlvsym(RTLD_DEFAULT, "cudaGraphAddNode", "libcudart.so.12") != dlvsym(RTLD_DEFAULT, "cudaGraphAddNode",
      "libcudart.so.13"));
}

/* Registers a kernel of a file of code whose images are of some capabilities, and gives what it is said to be compiled for. */
static int compiled_for(const char *kernel, int n, const int *capabilities) {
  static struct { uint32_t magic; uint16_t version, header; u64 bytes; uint32_t images[8][16]; } binary;
  static struct { uint32_t magic, version; const void *data; } wrapper;
  binary.magic = 0xba55ed50;
  binary.header = 16;
  binary.bytes = (u64)n * 64;
  for (int i = 0; i < n; i++) {
    binary.images[i][1] = 64; /* a header, and no code */
    binary.images[i][7] = (uint32_t)capabilities[i];
  }
  wrapper.magic = 0x466243b1;
  wrapper.data = &binary;
  void **handle = __cudaRegisterFatBinary(&wrapper);
  __cudaRegisterFunction(handle, kernel);
  char attributes[256];
  IS(cudaFuncGetAttributes(attributes, kernel), 0);
  IS(number(attributes, 32), number(attributes, 36));
  return number(attributes, 32);
}

static void kernels(void) { /* the card is 8.6 */
  static const char many[5000];
  IS(compiled_for(&many[0], 4, (int[]){75, 80, 90, 100}), 80);
  IS(compiled_for(&many[1], 3, (int[]){80, 86, 89}), 86);
  IS(compiled_for(&many[2], 1, (int[]){90}), 86); /* none that it runs: its own */
  for (int i = 3; i < 5000; i++) IS(compiled_for(&many[i], 1, (int[]){75}), 75);
  char attributes[256];
  IS(cudaFuncGetAttributes(attributes, &many[0]), 0);
  IS(number(attributes, 32), 80);
  IS(cudaFuncGetAttributes(attributes, "never registered"), 0);
  IS(number(attributes, 32), 86);
}

/* count=4, CUDA_VISIBLE_DEVICES=3,1,9,0 */
static void visible(void) {
  int n = 0;
  unsigned all = 0;
  char bus[32];
  u64 memory[3];
  void *h;
  IS(cudaGetDeviceCount(&n), 0);
  IS(n, 2);
  IS(cudaDeviceGetPCIBusId(bus, sizeof bus, 0), 0);
  IS(strcmp(bus, "0000:1c:00.0"), 0);
  IS(cudaSetDevice(1), 0);
  take(4 * MIB);
  IS(vramscope_simulated_used(1), 4 * MIB);
  IS(nvmlInit_v2(), 0);
  IS(nvmlDeviceGetCount_v2(&all), 0);
  IS(all, 4);
  IS(nvmlDeviceGetHandleByIndex_v2(1, &h), 0);
  IS(nvmlDeviceGetMemoryInfo(h, memory), 0);
  IS(memory[2], 28 * MIB);
  IS(nvmlDeviceGetHandleByIndex_v2(2, &h), 0);
  IS(nvmlDeviceGetMemoryInfo(h, memory), 0);
  IS(memory[2], 0);
  IS(nvmlDeviceGetHandleByIndex_v2(4, &h), 2);
}

/* Two at once with the same books: one holds 600 MiB until it is told, the other sees it. */
static void holds(void) {
  take(600 * MIB);
  puts("held");
  fflush(stdout);
  getchar();
}
static void beside(void) {
  void *h, *p;
  unsigned n = 0;
  struct { unsigned pid, pad; u64 bytes; } processes[4];
  IS(left(), 376 * MIB);
  IS(cudaMalloc(&p, 378 * MIB), 2);
  IS(left(), 376 * MIB);
  take(376 * MIB);
  IS(nvmlDeviceGetHandleByIndex_v2(0, &h), 0);
  IS(nvmlDeviceGetComputeRunningProcesses(h, &n, NULL), 7);
  IS(n, 2);
  IS(nvmlDeviceGetComputeRunningProcesses(h, &n, processes), 0);
  IS(processes[0].pid, getpid());
  IS(processes[0].bytes, 400 * MIB);
  IS(processes[1].bytes, 624 * MIB);
}

static void nothing(void) {
  int n = 7;
  void *p = &n;
  IS(cudaGetDeviceCount(&n), 100);
  IS(n, 0);
  IS(cudaMalloc(&p, 1), 100);
}

static void convolution(void) {
  void *operation, *graph, *heuristic, *config, *engine, *plan;
  int64_t n = 0, workspace = 7;
  cudnnBackendCreateDescriptor(10, &operation);
  cudnnBackendCreateDescriptor(15, &graph);
  cudnnBackendCreateDescriptor(4, &heuristic);
  cudnnBackendCreateDescriptor(3, &config);
  cudnnBackendCreateDescriptor(2, &engine);
  cudnnBackendCreateDescriptor(5, &plan);
  IS(cudnnBackendSetAttribute(graph, 801, 15, 1, &operation), 0);
  IS(cudnnBackendSetAttribute(graph, 801, 15, 1ll << 40, &operation), 2000);
  IS(cudnnBackendFinalize(graph), 0);
  IS(cudnnBackendSetAttribute(heuristic, 201, 15, 1, &graph), 0);
  IS(cudnnBackendGetAttribute(heuristic, 202, 15, 0, &n, NULL), 0);
  IS(n, 1);
  IS(cudnnBackendGetAttribute(heuristic, 202, 15, 1, &n, &config), 0);
  IS(cudnnBackendGetAttribute(config, 300, 15, 1, &n, &engine), 0);
  IS(cudnnBackendGetAttribute(engine, 1303, 11, 9, &n, NULL), 0);
  IS(n, 0);
  IS(cudnnBackendSetAttribute(plan, 401, 15, 1, &config), 0);
  IS(cudnnBackendGetAttribute(plan, 402, 3, 1, &n, &workspace), 0);
  IS(workspace, 0);
  IS(cudnnBackendDestroyDescriptor(operation), 0);
  IS(cudnnBackendExecute(NULL, plan, NULL), 0);
  IS(cudnnBackendExecute(NULL, plan, NULL), 0);
  take(MIB);
}

/* Two layers, both directions: every weight lies in the space, none over another. */
static void recurrent(void) {
  void *r, *matrix, *bias, *at, *bias_at;
  size_t bytes = 0, sum = 0;
  static char covered[2 * (4 * 7 * (5 + 7) + 4 * 7 * (14 + 7) + 4 * 7 * 4) * 4];
  cudnnCreateRNNDescriptor(&r);
  cudnnCreateTensorDescriptor(&matrix);
  cudnnCreateTensorDescriptor(&bias);
  IS(cudnnSetRNNDescriptor_v8(r, 0, 2, 2, 1, 0, 0, 0, 0, 5, 7, 7, 2, NULL, 0), 0);
  IS(cudnnGetRNNWeightSpaceSize(NULL, r, &bytes), 0);
  IS(bytes, sizeof covered);
  for (int layer = 0; layer < 4; layer++)
    for (int gate = 0; gate < 8; gate++) {
      int type, n, sizes[3], strides[3];
      IS(cudnnGetRNNWeightParams(NULL, r, layer, bytes, covered, gate, matrix, &at, bias, &bias_at), 0);
      for (int i = 0; i < 2; i++) {
        IS(cudnnGetTensorNdDescriptor(i ? bias : matrix, 3, &type, &n, sizes, strides), 0);
        size_t size = (size_t)sizes[1] * (size_t)sizes[2] * 4;
        char *from = i ? bias_at : at;
        WANT(from >= covered && from + size <= covered + bytes);
        for (size_t b = 0; b < size; b++) WANT(!from[b]++);
        sum += size;
      }
    }
  IS(sum, bytes);
  IS(cudnnGetRNNWeightParams(NULL, r, 4, bytes, covered, 0, matrix, &at, bias, &bias_at), 2000);
}

int main(int argc, char **argv) {
  static const struct { const char *name; void (*run)(void); } checks[] = {
      {"capacity", capacity}, {"pages", pages}, {"fragmentation", fragmentation}, {"absurd", absurd}, {"virtual memory",
          virtual_memory},
      {"events", events}, {"graphs", graphs}, {"values", values}, {"collectives", collectives}, {"pinned", pinned}, {"handles",
          handles},
      {"unknown", unknown}, {"properties", properties}, {"visible", visible}, {"nothing", nothing}, {"convolution", convolution},
      {"recurrent", recurrent}, {"reuse", reuse}, {"holds", holds}, {"beside", beside}, {"kernels", kernels},
  };
  for (size_t i = 0; argc == 2 && i < sizeof checks / sizeof *checks; i++)
    if (!strcmp(checks[i].name, argv[1])) {
      IS(vramscope_simulated(), 1);
      checks[i].run();
      return 0;
    }
  puts("no such check");
  return 1;
}
