/* Device memory by the runtime's calls, pinned memory of the host, and copies between them. */
#include "device.h"

#include <sys/mman.h>

Device devices[MAX_DEVICES];
static Ranges pinned; /* tag: 1 ours, 0 registered by the program */

#define SMALL_PAGES ((DEVICE_SPAN - SMALL_OFFSET) / PAGE)
#define SHARED_BELOW (1ull << 20)

static u64 base_of(int device) { return DEVICE_BASE + (u64)device * DEVICE_SPAN; }
static int device_at(u64 at) { return (int)((at - DEVICE_BASE) / DEVICE_SPAN); }

u64 device_free(int device) {
  publish(device);
  u64 taken = gpu.context + gpu.other + devices[device].used + taken_by_others(device);
  return taken < gpu.total ? gpu.total - taken : 0;
}

/* Told to other processes before it is judged: of two that ask at once for the last bytes, not both get them. */
int device_take(int device, u64 bytes) {
  Device *d = &devices[device];
  d->active = 1;
  if (!bytes) return 1;
  u64 before = d->used;
  if (bytes <= gpu.total) d->used += bytes; /* an absurd size would overflow the sum */
  publish(device);
  if (bytes > gpu.total || gpu.context + gpu.other + d->used + taken_by_others(device) > gpu.total) {
    d->used = before;
    refused(device, bytes, device_free(device));
    return 0;
  }
  if (d->used > d->peak) d->peak = d->used;
  return 1;
}

void device_give(int device, u64 bytes) {
  devices[device].used -= bytes;
  publish(device);
}

static u64 take_large(int device, u64 bytes) {
  Device *d = &devices[device];
  u64 size = ROUND_UP(bytes, PAGE), base = base_of(device);
  if (!device_take(device, size)) return 0;
  u64 at = ranges_fit(&d->large, base, base + SMALL_OFFSET, size, PAGE);
  if (!at || !ranges_add(&d->large, at, size, bytes)) {
    device_give(device, size);
    return 0;
  }
  return at;
}

/* Blocks below 1 MiB share pages, as the driver has them: a page is taken by its first block. */
static u64 take_small(int device, u64 bytes) {
  Device *d = &devices[device];
  u64 size = ROUND_UP(bytes, 512), base = base_of(device) + SMALL_OFFSET, needed = 0;
  if (!d->page_users) d->page_users = calloc(SMALL_PAGES, sizeof *d->page_users);
  u64 at = d->page_users ? ranges_fit(&d->small, base, base + SMALL_PAGES * PAGE, size, 512) : 0;
  if (!at) return 0;
  u64 first = (at - base) / PAGE, last = (at + size - 1 - base) / PAGE;
  for (u64 p = first; p <= last; p++) needed += d->page_users[p] ? 0 : PAGE;
  if (!device_take(device, needed)) return 0;
  if (!ranges_add(&d->small, at, size, bytes)) {
    device_give(device, needed);
    return 0;
  }
  for (u64 p = first; p <= last; p++) d->page_users[p]++;
  return at;
}

static u64 take(int device, u64 bytes) {
  if (bytes > gpu.total) { /* before rounding, which such a size would overflow */
    devices[device].active = 1;
    refused(device, bytes, device_free(device));
    return 0;
  }
  return bytes >= SHARED_BELOW ? take_large(device, bytes) : take_small(device, bytes);
}

static int give(u64 at, int *device, u64 *bytes) {
  if (at < DEVICE_BASE || at >= DEVICE_END) return 0;
  *device = device_at(at);
  Device *d = &devices[*device];
  u64 base = base_of(*device);
  Ranges *table = at - base < SMALL_OFFSET ? &d->large : &d->small;
  Range *row = ranges_find(table, at);
  if (!row || row->at != at) return 0;
  *bytes = row->tag;
  if (table == &d->large) {
    device_give(*device, row->size);
  } else {
    base += SMALL_OFFSET;
    for (u64 p = (at - base) / PAGE; p <= (at + row->size - 1 - base) / PAGE; p++)
      if (!--d->page_users[p]) device_give(*device, PAGE);
  }
  ranges_remove(table, row);
  return 1;
}

int on_device(const void *p, int *device) {
  u64 at = (u64)p;
  if (at >= DEVICE_BASE && at < DEVICE_END) {
    if (device) *device = device_at(at);
    return 1;
  }
  return at >= RESERVE_BASE && at < RESERVE_END && reserved_device(at, device);
}

EXPORT status cudaMalloc(void **p, size_t bytes) {
  start();
  if (!p) return fail(INVALID_VALUE);
  *p = NULL;
  if (!n_visible) return fail(NO_DEVICE);
  if (!bytes) return SUCCESS;
  LOCK();
  u64 at = take(current, bytes);
  LOG("malloc %d 0x%llx %zu\n", current, (unsigned long long)at, bytes);
  UNLOCK();
  if (!at) return fail(OUT_OF_MEMORY);
  *p = (void *)at;
  return SUCCESS;
}

EXPORT status cudaFree(void *p) {
  start();
  if (!n_visible) return fail(NO_DEVICE);
  if (!p) {
    devices[current].active = 1;
    return SUCCESS;
  }
  int device = 0;
  u64 bytes = 0;
  LOCK();
  int known = give((u64)p, &device, &bytes);
  if (known) LOG("free %d 0x%llx %llu\n", device, (unsigned long long)(u64)p, (unsigned long long)bytes);
  UNLOCK();
  if (!known) return fail(INVALID_VALUE);
  value_forget((u64)p, bytes);
  settle(); /* cudaFree waits for the device */
  return SUCCESS;
}

EXPORT status cudaMallocAsync(void **p, size_t bytes, void *stream) { (void)stream; return cudaMalloc(p, bytes); }
EXPORT status cudaMallocFromPoolAsync(void **p, size_t bytes, void *pool, void *stream) {
  (void)pool; (void)stream;
  return cudaMalloc(p, bytes);
}
EXPORT status cudaFreeAsync(void *p, void *stream) { (void)stream; return cudaFree(p); }

/* A pitch is a multiple of 512 bytes. */
EXPORT status cudaMallocPitch(void **p, size_t *pitch, size_t width, size_t height) {
  if (!pitch || width > LARGEST_TOTAL || (height && width > LARGEST_TOTAL / height)) return fail(OUT_OF_MEMORY);
  *pitch = ROUND_UP(width, 512);
  return cudaMalloc(p, *pitch * height);
}

EXPORT status cudaMemGetInfo(size_t *left, size_t *total) {
  start();
  if (!n_visible) return fail(NO_DEVICE);
  LOCK();
  devices[current].active = 1;
  if (left) *left = device_free(current);
  if (total) *total = gpu.total;
  UNLOCK();
  return SUCCESS;
}

EXPORT status cuMemGetInfo_v2(size_t *left, size_t *total) { return cudaMemGetInfo(left, total); }
ALIAS(cuMemGetInfo, cuMemGetInfo_v2)
EXPORT status cuMemAlloc_v2(u64 *p, size_t bytes) { return cudaMalloc((void **)p, bytes); }
ALIAS(cuMemAlloc, cuMemAlloc_v2)
EXPORT status cuMemFree_v2(u64 p) { return cudaFree((void *)p); }
ALIAS(cuMemFree, cuMemFree_v2)
EXPORT status cuMemAllocAsync(u64 *p, size_t bytes, void *stream) { (void)stream; return cudaMalloc((void **)p, bytes); }
EXPORT status cuMemFreeAsync(u64 p, void *stream) { (void)stream; return cudaFree((void *)p); }
EXPORT status cuMemAllocPitch_v2(u64 *p, size_t *pitch, size_t width, size_t height, unsigned element) {
  (void)element;
  return cudaMallocPitch((void **)p, pitch, width, height);
}

/* ---- pools: memory comes from cudaMalloc, so a pool keeps nothing ---- */
EXPORT status cudaDeviceGetDefaultMemPool(void **pool, int device) {
  start();
  if (device < 0 || device >= n_visible) return fail(INVALID_DEVICE);
  *pool = (void *)(u64)(0x1000 + device);
  return SUCCESS;
}
ALIAS(cudaDeviceGetMemPool, cudaDeviceGetDefaultMemPool)
ALIAS(cuDeviceGetDefaultMemPool, cudaDeviceGetDefaultMemPool)
ALIAS(cuDeviceGetMemPool, cudaDeviceGetDefaultMemPool)
EXPORT status cudaMemPoolGetAttribute(void *pool, int which, void *value) {
  u64 device = (u64)pool - 0x1000;
  if (device >= MAX_DEVICES) return fail(INVALID_VALUE);
  if (which >= 5) *(u64 *)value = which == 6 || which == 8 ? devices[device].peak : devices[device].used;
  else if (which == 4) *(u64 *)value = 0; /* the release threshold */
  else *(int *)value = 1;
  return SUCCESS;
}
EXPORT status cudaDeviceGetGraphMemAttribute(int device, int which, void *value) {
  (void)device; (void)which;
  *(u64 *)value = 0;
  return SUCCESS;
}

/* ---- pinned memory of the host: mapped lazily, so that gigabytes cost nothing until they are touched ---- */
static status pin(void **p, size_t bytes) {
  start();
  if (!p) return fail(INVALID_VALUE);
  *p = NULL;
  if (bytes > LARGEST_TOTAL) return fail(OUT_OF_MEMORY);
  size_t size = ROUND_UP(bytes ? bytes : 1, 4096);
  void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return fail(OUT_OF_MEMORY);
  LOCK();
  int kept = ranges_add(&pinned, (u64)at, size, 1);
  LOG("host_alloc 0x%llx %zu\n", (unsigned long long)(u64)at, bytes);
  UNLOCK();
  if (!kept) {
    munmap(at, size);
    return fail(OUT_OF_MEMORY);
  }
  *p = at;
  return SUCCESS;
}
EXPORT status cudaHostAlloc(void **p, size_t bytes, unsigned flags) { (void)flags; return pin(p, bytes); }
EXPORT status cudaMallocHost(void **p, size_t bytes) { return pin(p, bytes); }
EXPORT status cudaMallocManaged(void **p, size_t bytes, unsigned flags) {
  (void)flags;
  concern(UNKNOWN, "cudaMallocManaged"); /* lies in the host's memory here, and isn't counted on the device */
  return pin(p, bytes);
}
EXPORT status cuMemHostAlloc(void **p, size_t bytes, unsigned flags) { (void)flags; return pin(p, bytes); }
EXPORT status cuMemAllocHost_v2(void **p, size_t bytes) { return pin(p, bytes); }
EXPORT status cuMemAllocManaged(u64 *p, size_t bytes, unsigned flags) { return cudaMallocManaged((void **)p, bytes, flags); }

EXPORT status cudaFreeHost(void *p) {
  if (!p) return SUCCESS;
  LOCK();
  Range *row = ranges_find(&pinned, (u64)p);
  u64 size = row && row->at == (u64)p && row->tag ? row->size : 0;
  if (size) ranges_remove(&pinned, row);
  LOG("host_free 0x%llx\n", (unsigned long long)(u64)p);
  UNLOCK();
  if (!size) return fail(INVALID_VALUE);
  munmap(p, size);
  return SUCCESS;
}
EXPORT status cuMemFreeHost(void *p) { return cudaFreeHost(p); }

EXPORT status cudaHostRegister(void *p, size_t bytes, unsigned flags) {
  (void)flags;
  start();
  if (!p || !bytes || bytes > LARGEST_TOTAL) return fail(INVALID_VALUE);
  LOCK();
  int kept = ranges_add(&pinned, (u64)p, bytes, 0);
  UNLOCK();
  return kept ? SUCCESS : fail(OUT_OF_MEMORY);
}
ALIAS(cuMemHostRegister_v2, cudaHostRegister)
EXPORT status cudaHostUnregister(void *p) {
  LOCK();
  Range *row = ranges_find(&pinned, (u64)p);
  int known = row && !row->tag;
  if (known) ranges_remove(&pinned, row);
  UNLOCK();
  return known ? SUCCESS : fail(INVALID_VALUE);
}
ALIAS(cuMemHostUnregister, cudaHostUnregister)
EXPORT status cudaHostGetDevicePointer(void **device, void *host, unsigned flags) {
  (void)flags;
  *device = host;
  return SUCCESS;
}
ALIAS(cuMemHostGetDevicePointer_v2, cudaHostGetDevicePointer)
EXPORT status cudaHostGetFlags(unsigned *flags, void *p) { (void)p; *flags = 0; return SUCCESS; }

u64 host_block(const void *p, u64 bytes) {
  LOCK();
  Range *row = ranges_find(&pinned, (u64)p);
  u64 ours = row && row->tag && (u64)p - row->at + bytes <= row->size;
  UNLOCK();
  return ours;
}

/* CUDA 13 has 64 bytes more at the end of this structure: writing them would run over a caller of CUDA 12. */
typedef struct { int type, device; void *on_device, *on_host; } Pointer;
enum { UNREGISTERED, HOST, DEVICE };

EXPORT status cudaPointerGetAttributes(Pointer *a, const void *p) {
  start();
  if (!a) return fail(INVALID_VALUE);
  int device = 0;
  if (on_device(p, &device)) {
    *a = (Pointer){DEVICE, device, (void *)p, NULL};
    return SUCCESS;
  }
  LOCK();
  int known = ranges_find(&pinned, (u64)p) != NULL;
  UNLOCK();
  if (known) *a = (Pointer){HOST, current, (void *)p, (void *)p};
  else *a = (Pointer){UNREGISTERED, -2, NULL, NULL};
  return SUCCESS;
}

static int block_at(u64 at, u64 *base, u64 *size) {
  if (at >= DEVICE_BASE && at < DEVICE_END) {
    int device = device_at(at);
    Range *row = ranges_find(at - base_of(device) < SMALL_OFFSET ? &devices[device].large : &devices[device].small, at);
    if (row) *base = row->at, *size = row->size;
    return row != NULL;
  }
  return mapped_range(at, base, size);
}

EXPORT status cuMemGetAddressRange_v2(u64 *base, size_t *size, u64 at) {
  u64 b = 0, s = 0;
  LOCK();
  int known = block_at(at, &b, &s);
  UNLOCK();
  if (!known) return NOT_FOUND;
  if (base) *base = b;
  if (size) *size = s;
  return SUCCESS;
}
ALIAS(cuMemGetAddressRange, cuMemGetAddressRange_v2)

EXPORT status cuPointerGetAttribute(void *value, int which, u64 at) {
  start();
  Pointer a;
  u64 base = at, size = 0;
  cudaPointerGetAttributes(&a, (void *)at);
  if (a.type == UNREGISTERED || !value) return INVALID_VALUE;
  if (a.type == DEVICE) cuMemGetAddressRange_v2(&base, &size, at);
  switch (which) {
    case 1: *(void **)value = (void *)(u64)(0x4000 + a.device); break; /* the context */
    case 2: *(unsigned *)value = a.type == DEVICE ? 2 : 1; break;     /* the kind of memory */
    case 3: *(u64 *)value = at; break;
    case 4: if (a.type == DEVICE) return INVALID_VALUE; *(u64 *)value = at; break;
    case 7: *(u64 *)value = base; break; /* the buffer's number */
    case 8: *(unsigned char *)value = 0; break; /* managed */
    case 9: *(int *)value = a.device; break;
    case 10: case 13: *(unsigned char *)value = 0; break; /* legacy IPC, mapped */
    case 11: *(u64 *)value = base; break;
    case 12: *(u64 *)value = size; break;
    default: *(int *)value = 0;
  }
  return SUCCESS;
}

/* ---- copies ---- */

/* Whether [at, end) is private memory of nobody's file, whose pages read as zeros once they are given back. */
static int anonymous(u64 at, u64 end) {
  FILE *maps = fopen("/proc/self/maps", "re");
  char line[512];
  int yes = 0;
  while (maps && fgets(line, sizeof line, maps)) {
    unsigned long long low, high, inode;
    char mode[8];
    if (sscanf(line, "%llx-%llx %7s %*s %*s %llu", &low, &high, mode, &inode) != 4 || high <= at) continue;
    yes = low <= at && high >= end && !strcmp(mode, "rw-p") && inode == 0;
    break;
  }
  if (maps) fclose(maps);
  return yes;
}

/* Device memory that nobody wrote reads as zeros; a large target loses its pages instead of being written. */
static void zeros(void *to, size_t bytes) {
  u64 at = (u64)to, end = at + bytes;
  u64 first = ROUND_UP(at, 4096), last = end / 4096 * 4096;
  if (bytes < 1 << 20 || !(host_block(to, bytes) || anonymous(first, last))) {
    memset(to, 0, bytes);
    return;
  }
  memset(to, 0, first - at);
  madvise((void *)first, last - first, MADV_DONTNEED);
  memset((void *)last, 0, end - last);
}

status copy(void *to, const void *from, size_t bytes) {
  start();
  if (!bytes) return SUCCESS;
  if (!to || !from || bytes > LARGEST_TOTAL) return fail(INVALID_VALUE);
  int into = on_device(to, NULL), out = on_device(from, NULL);
  if (into && out) value_copy((u64)to, (u64)from, bytes);
  else if (into) value_put((u64)to, from, bytes);
  else if (!out) memmove(to, from, bytes);
  else if (!value_get((u64)from, to, bytes)) {
    if (bytes == 1) *(char *)to = (char)bool_read;
    else zeros(to, bytes);
  }
  return SUCCESS;
}

static status copy_on(void *to, const void *from, size_t bytes, void *stream) {
  work((u64)stream);
  return copy(to, from, bytes);
}

static status copy_rows(char *to, size_t to_pitch, const char *from, size_t from_pitch, size_t width, size_t height) {
  if (height > 1 && (width > to_pitch || width > from_pitch)) return fail(INVALID_VALUE);
  status s = SUCCESS;
  if (width == to_pitch && width == from_pitch) return copy(to, from, width * height);
  for (size_t i = 0; i < height && !s; i++) s = copy(to + i * to_pitch, from + i * from_pitch, width);
  return s;
}

EXPORT status cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream) {
  (void)kind;
  return copy_on(to, from, bytes, stream);
}
EXPORT status cudaMemcpy(void *to, const void *from, size_t bytes, int kind) {
  (void)kind;
  status s = copy_on(to, from, bytes, NULL);
  settle();
  return s;
}
EXPORT status cudaMemcpyPeerAsync(void *to, int d, const void *from, int s, size_t bytes, void *stream) {
  (void)d; (void)s;
  return copy_on(to, from, bytes, stream);
}
EXPORT status cudaMemcpyPeer(void *to, int d, const void *from, int s, size_t bytes) {
  return cudaMemcpyPeerAsync(to, d, from, s, bytes, NULL);
}
EXPORT status cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                                int kind, void *stream) {
  (void)kind;
  work((u64)stream);
  return copy_rows(to, to_pitch, from, from_pitch, width, height);
}
EXPORT status cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                           int kind) {
  return cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, NULL);
}
/* Symbols have no memory of their own here. */
EXPORT status cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset, int kind) {
  (void)symbol; (void)from; (void)bytes; (void)offset; (void)kind;
  return SUCCESS;
}
EXPORT status cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t bytes, size_t offset, int kind, void *stream) {
  (void)stream;
  return cudaMemcpyToSymbol(symbol, from, bytes, offset, kind);
}
EXPORT status cudaGetSymbolAddress(void **p, const void *symbol) {
  (void)symbol;
  *p = (void *)(base_of(current) + DEVICE_SPAN - PAGE);
  return SUCCESS;
}

EXPORT status cuMemcpyHtoD_v2(u64 to, const void *from, size_t bytes) { return copy_on((void *)to, from, bytes, NULL); }
EXPORT status cuMemcpyHtoDAsync_v2(u64 to, const void *from, size_t bytes, void *s) {
  return copy_on((void *)to, from, bytes, s);
}
EXPORT status cuMemcpyDtoH_v2(void *to, u64 from, size_t bytes) { return copy_on(to, (void *)from, bytes, NULL); }
EXPORT status cuMemcpyDtoHAsync_v2(void *to, u64 from, size_t bytes, void *s) { return copy_on(to, (void *)from, bytes, s); }
EXPORT status cuMemcpyDtoD_v2(u64 to, u64 from, size_t bytes) { return copy_on((void *)to, (void *)from, bytes, NULL); }
EXPORT status cuMemcpyDtoDAsync_v2(u64 to, u64 from, size_t bytes, void *s) {
  return copy_on((void *)to, (void *)from, bytes, s);
}
EXPORT status cuMemcpy(u64 to, u64 from, size_t bytes) { return copy_on((void *)to, (void *)from, bytes, NULL); }
EXPORT status cuMemcpyAsync(u64 to, u64 from, size_t bytes, void *s) { return copy_on((void *)to, (void *)from, bytes, s); }

/* A memset of what is small enough is remembered like a copy. */
static status fill(void *to, const void *unit, size_t width, size_t count, void *stream) {
  start();
  work((u64)stream);
  if (!count) return SUCCESS;
  if (count > LARGEST_TOTAL / width) return fail(INVALID_VALUE);
  size_t bytes = width * count;
  int into = on_device(to, NULL);
  if (into && bytes > REMEMBERED) {
    value_forget((u64)to, bytes);
    return SUCCESS;
  }
  char *b = into ? malloc(bytes) : to;
  if (!b) return fail(OUT_OF_MEMORY);
  for (size_t i = 0; i < count; i++) memcpy(b + i * width, unit, width);
  if (!into) return SUCCESS;
  value_put((u64)to, b, bytes);
  free(b);
  return SUCCESS;
}
EXPORT status cudaMemsetAsync(void *to, int value, size_t bytes, void *stream) {
  unsigned char c = (unsigned char)value;
  return fill(to, &c, 1, bytes, stream);
}
EXPORT status cudaMemset(void *to, int value, size_t bytes) { return cudaMemsetAsync(to, value, bytes, NULL); }
EXPORT status cuMemsetD8Async(u64 to, unsigned char v, size_t n, void *stream) { return fill((void *)to, &v, 1, n, stream); }
EXPORT status cuMemsetD8_v2(u64 to, unsigned char v, size_t n) { return fill((void *)to, &v, 1, n, NULL); }
EXPORT status cuMemsetD16Async(u64 to, uint16_t v, size_t n, void *stream) { return fill((void *)to, &v, 2, n, stream); }
EXPORT status cuMemsetD32Async(u64 to, unsigned v, size_t n, void *stream) { return fill((void *)to, &v, 4, n, stream); }
EXPORT status cuMemsetD32_v2(u64 to, unsigned v, size_t n) { return fill((void *)to, &v, 4, n, NULL); }
EXPORT status cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height, void *stream) {
  status s = SUCCESS;
  for (size_t i = 0; i < height && !s; i++) s = cudaMemsetAsync((char *)to + i * pitch, value, width, stream);
  return s;
}
