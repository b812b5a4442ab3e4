/* What the files of the simulated device share. No header of CUDA is needed: types are told by their sizes,
 * which an ABI keeps, and where versions differ the code says so. */
#ifndef VRAMSCOPE_DEVICE_H
#define VRAMSCOPE_DEVICE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define ALIAS(name, of) EXPORT __typeof__(of) name __attribute__((alias(#of)));

typedef uint64_t u64;
typedef int status; /* of the runtime, the driver and every library: 0 is success in all of them */

/* The runtime's and the driver's codes are the same for these. */
enum {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  NO_DEVICE = 100,
  INVALID_DEVICE = 101,
  INVALID_HANDLE = 400,
  ILLEGAL_STATE = 401,
  NOT_FOUND = 500,
  NOT_READY = 600,
  NOT_SUPPORTED = 801,
  CAPTURE_INVALIDATED = 901,
};

#define MAX_DEVICES 16
#define PAGE (2ull << 20) /* the driver's page of device memory */
#define ROUND_UP(x, to) (((x) + (to) - 1) / (to) * (to))

/* Where things lie, the same in every process: below a position-independent program and its libraries, so that host
 * memory never lands there. Nothing is mapped, and a program that reads device memory from the host crashes. */
#define RESERVE_BASE 0x302000000ull     /* cuMemAddressReserve, upwards */
#define RESERVE_END 0x200000000000ull   /* 32 TiB */
#define DEVICE_BASE 0x200000000000ull   /* cudaMalloc, 3 TiB a device */
#define DEVICE_SPAN 0x30000000000ull
#define SMALL_OFFSET 0x28000000000ull   /* blocks below 1 MiB share pages from here */
#define DEVICE_END (DEVICE_BASE + MAX_DEVICES * DEVICE_SPAN)
#define STREAM_BASE 0x5a0000000000ull   /* streams are numbers that nobody dereferences */
#define LARGEST_TOTAL (1ull << 41)

/* ---- settings.c: what VRAMSCOPE_SIMULATED_* say ---- */
typedef struct {
  char name[256];
  int major, minor, multiprocessors, l2, count;
  u64 total, context, other; /* bytes */
  long lag;                  /* launches until an event is complete; 0: at once */
  /* follows from the compute capability */
  int shared_per_sm, shared_optin, threads_per_sm, blocks_per_sm;
} Gpu;
extern Gpu gpu;
extern int visible[MAX_DEVICES], n_visible; /* CUDA_VISIBLE_DEVICES: ordinals of the process as the machine's */
extern int bool_read;                       /* what a byte reads that nobody wrote: .item() of a bool */
void start(void);                           /* reads the settings, once */
int cuda_version(void);                     /* of the runtime that the program has loaded, 12040; 13000 when none */
void *genuine(const char *library, const char *name); /* a function of the real library, where its answer is a constant */

/* ---- one lock for the books ---- */
extern pthread_mutex_t books;
#define LOCK() pthread_mutex_lock(&books)
#define UNLOCK() pthread_mutex_unlock(&books)

/* ---- errors and the current device, of each thread ---- */
extern __thread status last_error;
extern __thread int current;
static inline status fail(status s) {
  last_error = s;
  return s;
}

/* ---- account.c: what is told at the end ---- */
extern FILE *journal;
#define LOG(...) do { if (journal) fprintf(journal, __VA_ARGS__); } while (0)
typedef enum { UNKNOWN, UNCOUNTED } Concern; /* a call without an answer; a workspace that is not counted */
void concern(Concern kind, const char *name);
void convolution_seen(const char *kind);
void refused(int device, u64 bytes, u64 free_bytes);
void write_account(void);

/* ---- sharing.c: other processes on the same GPUs ---- */
void publish(int device);
u64 taken_by_others(int device);
int others(int physical, unsigned *pids, u64 *bytes, int room);

/* ---- ranges.c: sorted, disjoint ---- */
typedef struct { u64 at, size, tag; } Range;
typedef struct { Range *rows; size_t count, room; } Ranges;
size_t ranges_after(const Ranges *r, u64 at);   /* the first row that begins after at */
Range *ranges_find(const Ranges *r, u64 at);    /* the row that holds at */
int ranges_add(Ranges *r, u64 at, u64 size, u64 tag);
void ranges_remove(Ranges *r, Range *row);
u64 ranges_fit(const Ranges *r, u64 low, u64 high, u64 size, u64 align); /* the lowest gap; 0: none */

/* ---- memory.c ---- */
typedef struct {
  Ranges large, small;
  u64 used, peak; /* physical bytes, in pages */
  u64 refusals, largest_refused;
  uint16_t *page_users;
  int active; /* has its context */
} Device;
extern Device devices[MAX_DEVICES];
u64 device_free(int device);
int device_take(int device, u64 bytes); /* of the capacity; 0: refused and told */
void device_give(int device, u64 bytes);
int on_device(const void *p, int *device);
u64 host_block(const void *p, u64 bytes); /* 1 when pinned by us */
status cudaMalloc(void **p, size_t bytes);
status cudaFree(void *p);
status cudaGetSymbolAddress(void **p, const void *symbol);
status copy(void *to, const void *from, size_t bytes);

/* ---- virtual.c ---- */
int reserved_device(u64 at, int *device);
int mapped_range(u64 at, u64 *base, u64 *size);

/* ---- values.c: what the host wrote ---- */
#define REMEMBERED (64u << 10)
void value_put(u64 at, const void *data, size_t bytes);
int value_get(u64 at, void *data, size_t bytes);
void value_forget(u64 at, u64 bytes);
void value_copy(u64 to, u64 from, u64 bytes);

/* ---- turns.c: which block of PyTorch's allocator lies where ---- */
void turn_taken(u64 at, int handed_out);

/* ---- streams.c ---- */
typedef struct { int device, priority, used; u64 capture; } Stream;
void work(u64 stream); /* one launch, copy or library call on it */
void settle(void);     /* the device has done everything */
Stream *stream_of(u64 handle); /* NULL: no such stream */
u64 stream_capture(u64 handle);
void leave_capture(u64 capture); /* all of its streams */

/* ---- graphs.c ---- */
void graph_node(u64 graph); /* one more */

/* The same name with other arguments in another version of CUDA: told apart as the real libraries do it. */
#define IN_CUDA_11(function, name) __asm__(".symver " #function "," #name "@libcudart.so.11.0");
#define IN_CUDA_12(function, name) __asm__(".symver " #function "," #name "@libcudart.so.12");
#define IN_CUDA_13(function, name) __asm__(".symver " #function "," #name "@@libcudart.so.13");

/* ---- kernels.c ---- */
int blocks_per_sm(int threads, size_t shared);

/* ---- properties.c ---- */
int attribute(int which, int device);
int pci_bus(int physical);
void uuid_of(int physical, unsigned char *uuid);

/* ---- libraries.c ---- */
typedef struct { u64 magic, stream; int mode[8]; } Handle;
Handle *handle_of(void *handle); /* never NULL: a wrong handle has one that nobody reads */
Handle *new_handle(void); /* each its own, as PyTorch keys workspaces by it */
void drop_handle(void *handle);

#endif
