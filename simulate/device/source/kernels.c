/* Kernels: registered, asked about, launched, and never run. */
#include "device.h"

typedef struct { unsigned x, y, z; } Dim;

/* kernel<<<…>>> pushes its configuration, and the generated stub pops it. */
#define DEEPEST 8
static __thread struct { Dim grid, block; size_t shared; void *stream; } calls[DEEPEST];
static __thread int depth;

EXPORT unsigned __cudaPushCallConfiguration(Dim grid, Dim block, size_t shared, void *stream) {
  if (depth == DEEPEST) return INVALID_VALUE;
  calls[depth].grid = grid;
  calls[depth].block = block;
  calls[depth].shared = shared;
  calls[depth].stream = stream;
  depth++;
  return SUCCESS;
}
EXPORT status __cudaPopCallConfiguration(Dim *grid, Dim *block, size_t *shared, void *stream) {
  if (!depth) return fail(INVALID_VALUE);
  depth--;
  *grid = calls[depth].grid;
  *block = calls[depth].block;
  *shared = calls[depth].shared;
  *(void **)stream = calls[depth].stream;
  return SUCCESS;
}

/* The GPUs that the kernels of a file of code were compiled for, as the fat binary's entries say: a kernel is what the best of
 * them made it. cub looks the capability of a kernel up among those that it was compiled for. */
#define MAX_IMAGES 32
typedef struct { int n; uint16_t capability[MAX_IMAGES]; } Images;
typedef struct { uint32_t magic, version; const unsigned char *data; } Wrapper;
typedef struct { uint32_t magic; uint16_t version, header; u64 bytes; } FatBinary;
typedef struct { uint16_t kind, version; uint32_t header; u64 bytes; uint32_t packed, options; uint16_t minor, major;
                 uint32_t capability; } Image;

static void read_images(Images *images, const Wrapper *wrapper) {
  if (!wrapper || wrapper->magic != 0x466243b1 || !wrapper->data) return;
  const FatBinary *binary = (const FatBinary *)wrapper->data;
  if (binary->magic != 0xba55ed50 || binary->header < sizeof *binary) return;
  u64 end = binary->header + binary->bytes;
  for (u64 at = binary->header; at + sizeof(Image) <= end && images->n < MAX_IMAGES;) {
    const Image *i = (const Image *)(wrapper->data + at);
    if (i->header < sizeof *i) return;
    images->capability[images->n++] = (uint16_t)i->capability;
    at += i->header + i->bytes;
  }
}

/* best_image is the capability of the image that the GPU runs, its own where none is known. */
static int best_image(const Images *images) {
  int own = gpu.major * 10 + gpu.minor, best = 0;
  for (int i = 0; images && i < images->n; i++)
    if (images->capability[i] <= own && images->capability[i] > best) best = images->capability[i];
  return best ? best : own;
}

/* Which file's code a kernel is of: an open table. */
static struct { const void *function; const Images *images; } *kernels;
static size_t n_kernels, kernels_room;
static pthread_mutex_t registering = PTHREAD_MUTEX_INITIALIZER;

static size_t place_of(const void *function) {
  size_t i = (size_t)((u64)function * 0x9e3779b97f4a7c15ull >> 20) & (kernels_room - 1);
  while (kernels[i].function && kernels[i].function != function) i = (i + 1) & (kernels_room - 1);
  return i;
}

static int more_kernels(void) {
  if (n_kernels * 2 < kernels_room) return 1;
  size_t had = kernels_room;
  __typeof__(kernels) old = kernels, larger = calloc(had ? had * 2 : 4096, sizeof *kernels);
  if (!larger) return 0;
  kernels = larger;
  kernels_room = had ? had * 2 : 4096;
  for (size_t i = 0; i < had; i++)
    if (old[i].function) kernels[place_of(old[i].function)] = old[i];
  free(old);
  return 1;
}

EXPORT void **__cudaRegisterFatBinary(const Wrapper *binary) {
  static void *none[1];
  Images *images = calloc(1, sizeof *images);
  if (!images) return none;
  read_images(images, binary);
  return (void **)images;
}
EXPORT void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }
EXPORT void __cudaUnregisterFatBinary(void **handle) { (void)handle; } /* its kernels may still be asked about */
EXPORT void __cudaRegisterFunction(void **handle, const void *function) {
  pthread_mutex_lock(&registering);
  if (more_kernels()) {
    size_t i = place_of(function);
    if (!kernels[i].function) n_kernels++;
    kernels[i].function = function;
    kernels[i].images = (const Images *)handle;
  }
  pthread_mutex_unlock(&registering);
}
EXPORT void __cudaRegisterVar(void **handle) { (void)handle; }
EXPORT void __cudaRegisterManagedVar(void **handle) { (void)handle; }
EXPORT void __cudaRegisterTexture(void **handle) { (void)handle; }
EXPORT void __cudaRegisterSurface(void **handle) { (void)handle; }
EXPORT char __cudaInitModule(void **handle) { (void)handle; return 1; }
EXPORT status __cudaGetKernel(const void **kernel, const void *function) { *kernel = function; return SUCCESS; }
ALIAS(cudaGetKernel, __cudaGetKernel)

EXPORT status cudaLaunchKernel(const void *kernel, Dim grid, Dim block, void **arguments, size_t shared, void *stream) {
  (void)kernel; (void)grid; (void)block; (void)arguments; (void)shared;
  start();
  if (!n_visible) return fail(NO_DEVICE);
  work((u64)stream);
  return SUCCESS;
}
ALIAS(__cudaLaunchKernel, cudaLaunchKernel)
ALIAS(cudaLaunchCooperativeKernel, cudaLaunchKernel)

typedef struct { Dim grid, block; size_t shared; void *stream; } Launch; /* how a cudaLaunchConfig_t begins */
EXPORT status cudaLaunchKernelExC(const Launch *launch) {
  start();
  if (!n_visible) return fail(NO_DEVICE);
  work((u64)launch->stream);
  return SUCCESS;
}

EXPORT status cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                             unsigned shared,
                             void *stream) {
  (void)f; (void)gx; (void)gy; (void)gz; (void)bx; (void)by; (void)bz; (void)shared;
  work((u64)stream);
  return SUCCESS;
}
ALIAS(cuLaunchCooperativeKernel, cuLaunchKernel)
typedef struct { unsigned grid[3], block[3], shared; void *stream; } DriverLaunch; /* how a CUlaunchConfig begins */
EXPORT status cuLaunchKernelEx(const DriverLaunch *launch) {
  work((u64)launch->stream);
  return SUCCESS;
}

/* The beginning of a cudaFuncAttributes, the same in every version; CUDA 12 has 88 bytes more. */
typedef struct {
  size_t shared, constant, local;
  int max_threads, registers, ptx, binary, cache_mode_ca, max_dynamic_shared, carveout;
} FunctionAttributes;
EXPORT status cudaFuncGetAttributes(FunctionAttributes *a, const void *function) {
  start();
  memset(a, 0, cuda_version() >= 12000 ? 144 : 56);
  a->max_threads = 1024;
  a->registers = 32;
  pthread_mutex_lock(&registering);
  a->ptx = a->binary = best_image(kernels_room ? kernels[place_of(function)].images : NULL);
  pthread_mutex_unlock(&registering);
  a->max_dynamic_shared = gpu.shared_optin;
  a->carveout = -1;
  return SUCCESS;
}
EXPORT status cudaFuncSetAttribute(const void *function, int which, int value) {
  (void)function;
  start();
  return which == 8 && value > gpu.shared_optin ? fail(INVALID_VALUE) : SUCCESS; /* dynamic shared memory */
}
EXPORT status cudaFuncSetCacheConfig(const void *function, int config) { (void)function; (void)config; return SUCCESS; }
EXPORT status cudaKernelSetAttributeForDevice(const void *f, int which, int value, int d) {
  (void)f; (void)which; (void)value; (void)d;
  return SUCCESS;
}

EXPORT status cuFuncGetAttribute(int *value, int which, void *function) {
  (void)function;
  start();
  *value = which == 0 ? 1024 : which == 4 ? 32 : which == 5 || which == 6 ? gpu.major * 10 + gpu.minor : 0;
  return SUCCESS;
}
EXPORT status cuKernelGetAttribute(int *value, int which, void *kernel, int device) {
  (void)device;
  return cuFuncGetAttribute(value, which, kernel);
}
EXPORT status cuFuncSetAttribute(void *f, int which, int value) { return cudaFuncSetAttribute(f, which, value); }
EXPORT status cuKernelSetAttribute(int which, int value, void *kernel, int device) {
  (void)device;
  return cudaFuncSetAttribute(kernel, which, value);
}
EXPORT status cuFuncSetCacheConfig(void *f, int config) { (void)f; (void)config; return SUCCESS; }
EXPORT status cuFuncLoad(void *f) { (void)f; return SUCCESS; }

/* ---- occupancy ---- */
int blocks_per_sm(int threads, size_t shared) {
  int n = threads > 0 ? gpu.threads_per_sm / threads : gpu.blocks_per_sm;
  if (n > gpu.blocks_per_sm) n = gpu.blocks_per_sm;
  if (shared) {
    size_t by_shared = (size_t)gpu.shared_per_sm / (shared + 1024);
    if (by_shared < (size_t)n) n = (int)by_shared;
  }
  return n < 1 ? 1 : n;
}
EXPORT status cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *f, int threads, size_t shared) {
  (void)f;
  start();
  *n = blocks_per_sm(threads, shared);
  return SUCCESS;
}
ALIAS(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, cudaOccupancyMaxActiveBlocksPerMultiprocessor)
ALIAS(cuOccupancyMaxActiveBlocksPerMultiprocessor, cudaOccupancyMaxActiveBlocksPerMultiprocessor)
ALIAS(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, cudaOccupancyMaxActiveBlocksPerMultiprocessor)
EXPORT status cuOccupancyMaxActiveClusters(int *n, void *f, const void *launch) {
  (void)f; (void)launch;
  start();
  *n = gpu.multiprocessors;
  return SUCCESS;
}
ALIAS(cudaOccupancyMaxActiveClusters, cuOccupancyMaxActiveClusters)
EXPORT status cuOccupancyMaxPotentialBlockSize(int *blocks, int *threads, void *f) {
  (void)f;
  start();
  *blocks = gpu.multiprocessors;
  *threads = 1024;
  return SUCCESS;
}

/* ---- modules and libraries: handles that any name is found in ---- */
static const char module[1], function[1];
EXPORT status cuModuleLoadData(const void **m, const void *image) { (void)image; *m = module; return SUCCESS; }
ALIAS(cuModuleLoadDataEx, cuModuleLoadData)
ALIAS(cuModuleLoadFatBinary, cuModuleLoadData)
EXPORT status cuModuleLoad(const void **m, const char *path) { (void)path; *m = module; return SUCCESS; }
EXPORT status cuModuleGetFunction(const void **f, void *m, const char *name) {
  (void)m; (void)name;
  *f = function;
  return SUCCESS;
}
EXPORT status cuModuleGetGlobal_v2(u64 *at, size_t *bytes, void *m, const char *name) {
  (void)m; (void)name;
  if (at) cudaGetSymbolAddress((void **)at, NULL);
  if (bytes) *bytes = 8;
  return SUCCESS;
}
EXPORT status cuModuleUnload(void *m) { (void)m; return SUCCESS; }
EXPORT status cuModuleGetLoadingMode(int *mode) { *mode = 2; return SUCCESS; } /* lazily */
EXPORT status cuLibraryLoadData(const void **l, const void *code) { (void)code; *l = module; return SUCCESS; }
EXPORT status cuLibraryLoadFromFile(const void **l, const char *path) { (void)path; *l = module; return SUCCESS; }
EXPORT status cuLibraryGetKernel(const void **k, void *l, const char *name) {
  (void)l; (void)name;
  *k = function;
  return SUCCESS;
}
EXPORT status cuLibraryGetModule(const void **m, void *l) { (void)l; *m = module; return SUCCESS; }
EXPORT status cuLibraryUnload(void *l) { (void)l; return SUCCESS; }
EXPORT status cuKernelGetFunction(const void **f, const void *k) { *f = k; return SUCCESS; }
ALIAS(cudaLibraryLoadData, cuLibraryLoadData)
ALIAS(cudaLibraryLoadFromFile, cuLibraryLoadFromFile)
ALIAS(cudaLibraryGetKernel, cuLibraryGetKernel)
ALIAS(cudaLibraryUnload, cuLibraryUnload)
EXPORT status cudaLibraryGetKernelCount(unsigned *n, void *l) { (void)l; *n = 0; return SUCCESS; }
EXPORT status cudaLibraryGetGlobal(void **at, size_t *bytes, void *l, const char *name) {
  return cuModuleGetGlobal_v2((u64 *)at, bytes, l, name);
}
EXPORT status cudaLibraryGetManaged(void **at, size_t *bytes, void *l, const char *name) {
  return cuModuleGetGlobal_v2((u64 *)at, bytes, l, name);
}
EXPORT status cudaLibraryGetUnifiedFunction(const void **f, void *l, const char *name) { return cuLibraryGetKernel(f, l, name); }

/* Linking at run time makes an image that nobody looks into. */
EXPORT status cuLinkCreate_v2(unsigned n, void *options, void **values, const void **state) {
  (void)n; (void)options; (void)values;
  *state = module;
  return SUCCESS;
}
EXPORT status cuLinkAddData_v2(void *state) { (void)state; return SUCCESS; }
EXPORT status cuLinkAddFile_v2(void *state) { (void)state; return SUCCESS; }
EXPORT status cuLinkComplete(void *state, const void **image, size_t *bytes) {
  (void)state;
  *image = module;
  if (bytes) *bytes = sizeof module;
  return SUCCESS;
}
EXPORT status cuLinkDestroy(void *state) { (void)state; return SUCCESS; }
EXPORT status cuTensorMapEncodeTiled(void *map) { memset(map, 0, 128); return SUCCESS; }
ALIAS(cuTensorMapEncodeIm2col, cuTensorMapEncodeTiled)
EXPORT status cuTensorMapReplaceAddress(void *map, void *at) { (void)map; (void)at; return SUCCESS; }
