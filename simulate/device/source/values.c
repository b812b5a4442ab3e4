/* What the host wrote to the device, remembered up to a bound: the order of DDP's buckets, shapes, indices.
 * A kernel writes nothing here, so bytes of a copy stay until a copy, a memset or a free of the same addresses; PyTorch's
 * allocator tells when it hands out an address again. */
#include "device.h"

#define MOST_VALUES 65536u
#define MOST_BYTES (64ull << 20)

typedef struct { u64 at, bytes, age; unsigned char *data; } Value;
static Value *rows; /* sorted, disjoint */
static size_t n_rows, room;
static u64 held, ages;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void before_fork(void) { pthread_mutex_lock(&mutex); }
static void after_fork(void) { pthread_mutex_unlock(&mutex); }
__attribute__((constructor)) static void keep_forks_whole(void) { pthread_atfork(before_fork, after_fork, after_fork); }

static size_t after(u64 at) { /* the first row that ends after at */
  size_t low = 0, high = n_rows;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (rows[middle].at + rows[middle].bytes <= at) low = middle + 1; else high = middle;
  }
  return low;
}

static void drop(size_t i) {
  held -= rows[i].bytes;
  free(rows[i].data);
  memmove(rows + i, rows + i + 1, (n_rows - i - 1) * sizeof *rows);
  n_rows--;
}

static int insert(size_t i, u64 at, u64 bytes, u64 age, const void *data) {
  if (n_rows == room) {
    size_t more = room ? room * 2 : 256;
    Value *grown = realloc(rows, more * sizeof *rows);
    if (!grown) return 0;
    rows = grown;
    room = more;
  }
  unsigned char *own = malloc(bytes);
  if (!own) return 0;
  memcpy(own, data, bytes);
  memmove(rows + i + 1, rows + i, (n_rows - i) * sizeof *rows);
  rows[i] = (Value){at, bytes, age, own};
  n_rows++;
  held += bytes;
  return 1;
}

/* Takes [at, at+bytes) out; what a row has on either side stays. */
static void cut(u64 at, u64 bytes) {
  u64 end = at + bytes;
  for (size_t i = after(at); i < n_rows && rows[i].at < end;) {
    Value v = rows[i];
    u64 tail = v.at + v.bytes > end ? v.at + v.bytes - end : 0;
    if (tail) insert(i + 1, end, tail, v.age, v.data + (v.bytes - tail));
    if (v.at < at) {
      held -= v.bytes - (at - v.at);
      rows[i++].bytes = at - v.at;
    } else {
      drop(i);
    }
    if (tail) break;
  }
}

static int by_age(const void *a, const void *b) {
  u64 x = *(const u64 *)a, y = *(const u64 *)b;
  return (x > y) - (x < y);
}

/* The half that was written or read longest ago goes when there is too much. */
static void thin(void) {
  u64 limit = ~0ull, *each = malloc(n_rows * sizeof *each);
  if (each) {
    for (size_t i = 0; i < n_rows; i++) each[i] = rows[i].age;
    qsort(each, n_rows, sizeof *each, by_age);
    limit = each[n_rows / 2];
  }
  free(each);
  size_t kept = 0;
  for (size_t i = 0; i < n_rows; i++) {
    if (rows[i].age >= limit) {
      rows[kept++] = rows[i];
      continue;
    }
    held -= rows[i].bytes;
    free(rows[i].data);
  }
  n_rows = kept;
}

void value_put(u64 at, const void *data, size_t bytes) {
  pthread_mutex_lock(&mutex);
  cut(at, bytes);
  if (bytes <= REMEMBERED) {
    if (n_rows >= MOST_VALUES || held > MOST_BYTES) thin();
    insert(after(at), at, bytes, ++ages, data);
  }
  pthread_mutex_unlock(&mutex);
}

int value_get(u64 at, void *data, size_t bytes) {
  if (bytes > 16 * REMEMBERED) return 0;
  pthread_mutex_lock(&mutex);
  size_t first = after(at);
  u64 reached = at, end = at + bytes;
  for (size_t i = first; i < n_rows && rows[i].at <= reached && reached < end; i++) reached = rows[i].at + rows[i].bytes;
  int known = reached >= end;
  for (size_t i = first; known && i < n_rows && rows[i].at < end; i++) {
    u64 from = rows[i].at > at ? rows[i].at : at, to = rows[i].at + rows[i].bytes < end ? rows[i].at + rows[i].bytes : end;
    memcpy((char *)data + (from - at), rows[i].data + (from - rows[i].at), to - from);
    rows[i].age = ++ages;
  }
  pthread_mutex_unlock(&mutex);
  return known;
}

void value_forget(u64 at, u64 bytes) {
  pthread_mutex_lock(&mutex);
  cut(at, bytes);
  pthread_mutex_unlock(&mutex);
}

EXPORT int vramscope_simulated_known(u64 at, u64 bytes) {
  unsigned char *b = bytes && bytes <= REMEMBERED ? malloc(bytes) : NULL;
  int known = b && value_get(at, b, bytes);
  free(b);
  return known;
}

void value_copy(u64 to, u64 from, u64 bytes) {
  unsigned char *b = bytes <= REMEMBERED ? malloc(bytes) : NULL;
  if (b && value_get(from, b, bytes)) value_put(to, b, bytes);
  else value_forget(to, bytes);
  free(b);
}

/* PyTorch's allocator calls this function of libc10 for each block that it hands out (bytes > 0) or takes back: what was
 * remembered of an earlier tensor there is not what the new one reads. Then it goes where it was going. */
#define REPORT _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
#define QUOTED(x) #x
#define NAME(x) QUOTED(x)
typedef void (*Report)(void *at, int64_t bytes, size_t allocated, size_t reserved, uint16_t device);

static Report profiler;
static void find_profiler(void) { profiler = (Report)genuine("libc10.so", NAME(REPORT)); }

EXPORT void REPORT(void *at, int64_t bytes, size_t allocated, size_t reserved, uint16_t device) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  u64 size = bytes < 0 ? -(u64)bytes : (u64)bytes;
  if ((u64)at >= RESERVE_BASE && (u64)at < DEVICE_END && size <= LARGEST_TOTAL) {
    value_forget((u64)at, size);
    turn_taken((u64)at, bytes > 0);
  }
  pthread_once(&once, find_profiler);
  if (profiler) profiler(at, bytes, allocated, reserved, device);
}
