/* The runtime's and the driver's calls about devices, contexts, errors and entry points. */
#define _GNU_SOURCE
#include "device.h"

#include <ctype.h>
#include <dlfcn.h>

#define DRIVER_VERSION 13020 /* newer than any runtime that asks */

/* ---- devices ---- */
EXPORT status cudaGetDeviceCount(int *n) {
  start();
  if (!n) return fail(INVALID_VALUE);
  *n = n_visible;
  return n_visible ? SUCCESS : fail(NO_DEVICE);
}
EXPORT status cudaGetDevice(int *device) {
  start();
  if (!n_visible) return fail(NO_DEVICE);
  *device = current;
  return SUCCESS;
}
EXPORT status cudaSetDevice(int device) {
  start();
  if (!n_visible) return fail(NO_DEVICE);
  if (device < 0 || device >= n_visible) return fail(INVALID_DEVICE);
  current = device;
  devices[device].active = 1;
  return SUCCESS;
}
EXPORT status cudaInitDevice(int device, unsigned flags, unsigned more) {
  (void)flags; (void)more;
  start();
  if (device < 0 || device >= n_visible) return fail(INVALID_DEVICE);
  devices[device].active = 1;
  return SUCCESS;
}
EXPORT status cudaSetValidDevices(int *list, int n) { (void)list; (void)n; return SUCCESS; }
EXPORT status cudaSetDeviceFlags(unsigned flags) { (void)flags; return SUCCESS; }
EXPORT status cudaGetDeviceFlags(unsigned *flags) { *flags = 0; return SUCCESS; }
EXPORT status cudaDeviceReset(void) { return SUCCESS; }
EXPORT status cudaDeviceSynchronize(void) { start(); settle(); return n_visible ? SUCCESS : fail(NO_DEVICE); }
EXPORT status cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return SUCCESS;
}
ALIAS(cuCtxGetStreamPriorityRange, cudaDeviceGetStreamPriorityRange)
EXPORT status cudaDeviceEnablePeerAccess(int peer, unsigned flags) { (void)peer; (void)flags; return SUCCESS; }
EXPORT status cudaDeviceDisablePeerAccess(int peer) { (void)peer; return SUCCESS; }
EXPORT status cudaDeviceGetLimit(size_t *value, int which) { (void)which; *value = 1 << 20; return SUCCESS; }
EXPORT status cudaDeviceSetLimit(int which, size_t value) { (void)which; (void)value; return SUCCESS; }
EXPORT status cudaProfilerStart(void) { return SUCCESS; }
EXPORT status cudaProfilerStop(void) { return SUCCESS; }

EXPORT status cudaDriverGetVersion(int *version) { start(); *version = n_visible ? DRIVER_VERSION : 0; return SUCCESS; }
EXPORT status cudaRuntimeGetVersion(int *version) { *version = cuda_version(); return SUCCESS; }

/* ---- errors ---- */
EXPORT status cudaGetLastError(void) {
  status s = last_error;
  last_error = SUCCESS;
  return s;
}
EXPORT status cudaPeekAtLastError(void) { return last_error; }

static const struct { int code; const char *runtime, *driver, *text; } errors[] = {
    {0, "cudaSuccess", "CUDA_SUCCESS", "no error"},
    {1, "cudaErrorInvalidValue", "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "cudaErrorInitializationError", "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {100, "cudaErrorNoDevice", "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "cudaErrorInvalidDevice", "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {400, "cudaErrorInvalidResourceHandle", "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {401, "cudaErrorIllegalState", "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {500, "cudaErrorSymbolNotFound", "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "cudaErrorNotReady", "CUDA_ERROR_NOT_READY", "device not ready"},
    {704, "cudaErrorPeerAccessAlreadyEnabled", "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {801, "cudaErrorNotSupported", "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {900, "cudaErrorStreamCaptureUnsupported", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        "operation not permitted when stream is capturing"},
    {999, "cudaErrorUnknown", "CUDA_ERROR_UNKNOWN", "unknown error"},
};
static int error_row(status s) {
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    if (errors[i].code == s) return (int)i;
  return -1;
}
EXPORT const char *cudaGetErrorString(status s) {
  int i = error_row(s);
  return i < 0 ? "unrecognized error code" : errors[i].text;
}
EXPORT const char *cudaGetErrorName(status s) {
  int i = error_row(s);
  return i < 0 ? "unrecognized error code" : errors[i].runtime;
}
EXPORT status cuGetErrorString(status s, const char **text) {
  int i = error_row(s);
  *text = i < 0 ? NULL : errors[i].text;
  return i < 0 ? INVALID_VALUE : SUCCESS;
}
EXPORT status cuGetErrorName(status s, const char **text) {
  int i = error_row(s);
  *text = i < 0 ? NULL : errors[i].driver;
  return i < 0 ? INVALID_VALUE : SUCCESS;
}

/* ---- the driver's devices and contexts: a context is a number, one for each device ---- */
static void *context_of(int device) { return (void *)(u64)(0x4000 + device); }
static int device_of(void *context) {
  u64 d = (u64)context - 0x4000;
  return d < (u64)n_visible ? (int)d : -1;
}

EXPORT status cuInit(unsigned flags) { (void)flags; start(); return n_visible ? SUCCESS : NO_DEVICE; }
EXPORT status cuDriverGetVersion(int *version) { return cudaDriverGetVersion(version); }
EXPORT status cuDeviceGet(int *device, int ordinal) {
  start();
  if (ordinal < 0 || ordinal >= n_visible) return INVALID_DEVICE;
  *device = ordinal;
  return SUCCESS;
}
EXPORT status cuDeviceGetCount(int *n) { start(); *n = n_visible; return SUCCESS; }
EXPORT status cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
  start();
  if (device < 0 || device >= n_visible) return INVALID_DEVICE;
  *flags = 0;
  *active = devices[device].active;
  return SUCCESS;
}
EXPORT status cuDevicePrimaryCtxRetain(void **context, int device) {
  start();
  if (device < 0 || device >= n_visible) return INVALID_DEVICE;
  devices[device].active = 1;
  *context = context_of(device);
  return SUCCESS;
}
EXPORT status cuDevicePrimaryCtxRelease_v2(int device) { (void)device; return SUCCESS; }
ALIAS(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2)
EXPORT status cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags) { (void)device; (void)flags; return SUCCESS; }
EXPORT status cuDevicePrimaryCtxReset_v2(int device) { (void)device; return SUCCESS; }
EXPORT status cuCtxGetCurrent(void **context) {
  start();
  *context = n_visible && devices[current].active ? context_of(current) : NULL;
  return SUCCESS;
}
EXPORT status cuCtxSetCurrent(void *context) {
  start();
  int device = device_of(context);
  if (!context) return SUCCESS;
  if (device < 0) return INVALID_VALUE;
  current = device;
  devices[device].active = 1;
  return SUCCESS;
}
EXPORT status cuCtxPushCurrent_v2(void *context) { return cuCtxSetCurrent(context); }
ALIAS(cuCtxPushCurrent, cuCtxPushCurrent_v2)
EXPORT status cuCtxPopCurrent_v2(void **context) {
  if (context) *context = context_of(current);
  return SUCCESS;
}
ALIAS(cuCtxPopCurrent, cuCtxPopCurrent_v2)
EXPORT status cuCtxCreate_v2(void **context, unsigned flags, int device) {
  (void)flags;
  return cuDevicePrimaryCtxRetain(context, device);
}
EXPORT status cuCtxCreate_v3(void **context, void *affinity, int n, unsigned flags, int device) {
  (void)affinity; (void)n;
  return cuCtxCreate_v2(context, flags, device);
}
EXPORT status cuCtxCreate_v4(void **context, void *parameters, unsigned flags, int device) {
  (void)parameters;
  return cuCtxCreate_v2(context, flags, device);
}
EXPORT status cuCtxDestroy_v2(void *context) { (void)context; return SUCCESS; }
EXPORT status cuCtxGetDevice(int *device) { start(); *device = current; return n_visible ? SUCCESS : 201; }
EXPORT status cuCtxGetApiVersion(void *context, unsigned *version) { (void)context; *version = DRIVER_VERSION; return SUCCESS; }
EXPORT status cuCtxGetFlags(unsigned *flags) { *flags = 0; return SUCCESS; }
EXPORT status cuCtxSynchronize(void) { settle(); return SUCCESS; }
EXPORT status cuCtxSetLimit(int which, size_t value) { (void)which; (void)value; return SUCCESS; }
EXPORT status cuCtxGetLimit(size_t *value, int which) { (void)which; *value = 1 << 20; return SUCCESS; }
EXPORT status cuCtxSetCacheConfig(int config) { (void)config; return SUCCESS; }
EXPORT status cuCtxEnablePeerAccess(void *context, unsigned flags) { (void)context; (void)flags; return SUCCESS; }
EXPORT status cuCtxGetId(void *context, u64 *id) { *id = (u64)context; return SUCCESS; }

/* Asked for at the start to learn what there is, so a refusal concerns nobody. */
EXPORT status cuLogsRegisterCallback(void *call, void *with, void **handle) {
  (void)call; (void)with; (void)handle;
  return NOT_SUPPORTED;
}
EXPORT status cuLogsUnregisterCallback(void *handle) { (void)handle; return NOT_SUPPORTED; }

/* ---- entry points by name: this library's, in the newest version that it has ---- */
static void *entry(const char *name) {
  static void *self;
  Dl_info own;
  char versioned[128];
  static const char *const suffixes[] = {"_v4", "_v3", "_v2", ""};
  if (!self && dladdr((void *)cudaGetDeviceCount, &own)) self = dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  if (!self || strlen(name) > 100 || strncmp(name, "cu", 2)) return NULL;
  for (int i = 0; i < 4; i++) {
    snprintf(versioned, sizeof versioned, "%s%s", name, suffixes[i]);
    void *found = dlsym(self, versioned);
    if (found) return found;
  }
  return NULL;
}

#define KEPT_NAMES 64 /* of unknown entry points, as the account needs a name that stays */
static const char *kept(const char *name) {
  static char names[KEPT_NAMES][104];
  LOCK();
  int i = 0;
  while (i < KEPT_NAMES && names[i][0] && strcmp(names[i], name)) i++;
  if (i < KEPT_NAMES && !names[i][0])
    for (int j = 0; name[j] && j < 100; j++) names[i][j] = isalnum((unsigned char)name[j]) || name[j] == '_' ? name[j] : '?';
  UNLOCK();
  return i < KEPT_NAMES ? names[i] : "other entry points";
}

/* found: 0, or 1 when there is none of this name */
static status find_entry(const char *name, void **function, int *found) {
  start();
  if (!name || !function) return INVALID_VALUE;
  *function = entry(name);
  if (found) *found = *function ? 0 : 1;
  if (!*function) concern(UNKNOWN, kept(name));
  return *function ? SUCCESS : NOT_FOUND;
}
EXPORT status cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version, u64 flags, int *found) {
  (void)version; (void)flags;
  status s = find_entry(name, function, found);
  return s == NOT_FOUND ? SUCCESS : s; /* the runtime tells it by *found alone */
}
EXPORT status cudaGetDriverEntryPoint(const char *name, void **function, u64 flags, int *found) {
  return cudaGetDriverEntryPointByVersion(name, function, 0, flags, found);
}
EXPORT status cuGetProcAddress_v2(const char *name, void **function, int version, u64 flags, int *found) {
  (void)version; (void)flags;
  return find_entry(name, function, found);
}
EXPORT status cuGetProcAddress(const char *name, void **function, int version, u64 flags) {
  (void)version; (void)flags;
  return find_entry(name, function, NULL);
}
/* What a runtime that is linked into a program asks for: this driver has no private tables. */
EXPORT status cuGetExportTable(const void **table, const void *id) {
  (void)id;
  concern(UNKNOWN, "cuGetExportTable");
  *table = NULL;
  return NOT_FOUND;
}
