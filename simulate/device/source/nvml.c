/* NVML: who asks which GPUs the machine has. It doesn't know of CUDA_VISIBLE_DEVICES. */
#include "device.h"

#include <unistd.h>

enum { NVML_INVALID = 2, NVML_NOT_SUPPORTED = 3, NVML_TOO_SMALL = 7 };
#define OTHER_PROCESS 4242u
enum { MOST_OTHERS = 64 };

static int device_of(void *h) {
  u64 d = (u64)h - 0x6000;
  return d < (u64)gpu.count ? (int)d : -1;
}
/* As the process numbers it; -1: not visible, so nothing of it is used here. */
static int ordinal_of(int physical) {
  for (int d = 0; d < n_visible; d++)
    if (visible[d] == physical) return d;
  return -1;
}
static u64 free_of(int physical) {
  unsigned pids[MOST_OTHERS];
  u64 bytes[MOST_OTHERS], taken = gpu.other;
  int d = ordinal_of(physical);
  if (d >= 0 && devices[d].active) return device_free(d);
  for (int n = others(physical, pids, bytes, MOST_OTHERS); n-- > 0;) taken += bytes[n];
  return taken < gpu.total ? gpu.total - taken : 0;
}

EXPORT status nvmlInit_v2(void) { start(); return gpu.count ? SUCCESS : 9; }
ALIAS(nvmlInit, nvmlInit_v2)
EXPORT status nvmlInitWithFlags(unsigned flags) { (void)flags; return nvmlInit_v2(); }
EXPORT status nvmlShutdown(void) { return SUCCESS; }
EXPORT const char *nvmlErrorString(status s) {
  switch (s) {
    case 0: return "Success";
    case NVML_INVALID: return "Invalid Argument";
    case NVML_NOT_SUPPORTED: return "Not Supported";
    case NVML_TOO_SMALL: return "Insufficient Size";
    case 9: return "Driver Not Loaded";
    default: return "Unknown Error";
  }
}
EXPORT status nvmlSystemGetDriverVersion(char *to, unsigned room) { snprintf(to, room, "580.00.00"); return SUCCESS; }
EXPORT status nvmlSystemGetNVMLVersion(char *to, unsigned room) { snprintf(to, room, "13.580.00.00"); return SUCCESS; }
EXPORT status nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 13020; return SUCCESS; }
ALIAS(nvmlSystemGetCudaDriverVersion, nvmlSystemGetCudaDriverVersion_v2)
EXPORT status nvmlDeviceGetCount_v2(unsigned *n) { start(); *n = (unsigned)gpu.count; return SUCCESS; }
ALIAS(nvmlDeviceGetCount, nvmlDeviceGetCount_v2)
EXPORT status nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) {
  start();
  if (i >= (unsigned)gpu.count) return NVML_INVALID;
  *h = (void *)(u64)(0x6000 + i);
  return SUCCESS;
}
ALIAS(nvmlDeviceGetHandleByIndex, nvmlDeviceGetHandleByIndex_v2)
EXPORT status nvmlDeviceGetHandleByPciBusId_v2(const char *text, void **h) {
  unsigned domain, bus, slot;
  if (!text || sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3 || bus < 0x19) return NVML_INVALID;
  return nvmlDeviceGetHandleByIndex_v2(bus - 0x19, h);
}
ALIAS(nvmlDeviceGetHandleByPciBusId, nvmlDeviceGetHandleByPciBusId_v2)
EXPORT status nvmlDeviceGetHandleByUUID(const char *text, void **h) {
  const char *digits = text ? strrchr(text, '-') : NULL;
  return digits ? nvmlDeviceGetHandleByIndex_v2((unsigned)strtoul(digits + 1, NULL, 16), h) : NVML_INVALID;
}
EXPORT status nvmlDeviceGetIndex(void *h, unsigned *i) {
  if (device_of(h) < 0) return NVML_INVALID;
  *i = (unsigned)device_of(h);
  return SUCCESS;
}
EXPORT status nvmlDeviceGetMinorNumber(void *h, unsigned *i) { return nvmlDeviceGetIndex(h, i); }
EXPORT status nvmlDeviceGetUUID(void *h, char *to, unsigned room) {
  if (device_of(h) < 0) return NVML_INVALID;
  snprintf(to, room, "GPU-faceface-0000-4000-8000-%012x", (unsigned)device_of(h));
  return SUCCESS;
}
EXPORT status nvmlDeviceGetName(void *h, char *to, unsigned room) {
  if (device_of(h) < 0) return NVML_INVALID;
  snprintf(to, room, "%s", gpu.name);
  return SUCCESS;
}
EXPORT status nvmlDeviceGetCudaComputeCapability(void *h, int *major, int *minor) {
  if (device_of(h) < 0) return NVML_INVALID;
  *major = gpu.major;
  *minor = gpu.minor;
  return SUCCESS;
}
EXPORT status nvmlDeviceGetMemoryInfo(void *h, u64 *total_free_used) {
  if (device_of(h) < 0) return NVML_INVALID;
  total_free_used[0] = gpu.total;
  total_free_used[1] = free_of(device_of(h));
  total_free_used[2] = gpu.total - total_free_used[1];
  return SUCCESS;
}
typedef struct { unsigned version; u64 total, reserved, left, used; } Memory;
EXPORT status nvmlDeviceGetMemoryInfo_v2(void *h, Memory *m) {
  if (device_of(h) < 0) return NVML_INVALID;
  u64 left = free_of(device_of(h));
  *m = (Memory){m->version, gpu.total, 0, left, gpu.total - left};
  return SUCCESS;
}

/* The other process of the settings, this one once it has a context, and those that share the machine. Records grew: a pid,
 * bytes, then instances. */
static status processes(void *h, unsigned *n, char *to, size_t record) {
  unsigned pids[MOST_OTHERS + 2];
  u64 bytes[MOST_OTHERS + 2];
  int physical = device_of(h), d = ordinal_of(physical), have = 0;
  if (physical < 0 || !n) return NVML_INVALID;
  if (gpu.other) pids[have] = OTHER_PROCESS, bytes[have++] = gpu.other;
  if (d >= 0 && devices[d].active) pids[have] = (unsigned)getpid(), bytes[have++] = gpu.context + devices[d].used;
  have += others(physical, pids + have, bytes + have, MOST_OTHERS);
  unsigned room = *n;
  *n = (unsigned)have;
  if (room < (unsigned)have) return NVML_TOO_SMALL;
  for (int i = 0; i < have; i++) {
    memset(to + (size_t)i * record, 0xff, record);
    memcpy(to + (size_t)i * record, &pids[i], 4);
    memcpy(to + (size_t)i * record + 8, &bytes[i], 8);
  }
  return SUCCESS;
}
EXPORT status nvmlDeviceGetComputeRunningProcesses(void *h, unsigned *n, char *to) { return processes(h, n, to, 16); }
EXPORT status nvmlDeviceGetComputeRunningProcesses_v2(void *h, unsigned *n, char *to) { return processes(h, n, to, 24); }
EXPORT status nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *n, char *to) { return processes(h, n, to, 24); }
EXPORT status nvmlDeviceGetGraphicsRunningProcesses_v3(void *h, unsigned *n, char *to) {
  (void)h; (void)to;
  *n = 0;
  return SUCCESS;
}

EXPORT status nvmlDeviceGetUtilizationRates(void *h, unsigned *gpu_memory) {
  (void)h;
  gpu_memory[0] = gpu_memory[1] = 0;
  return SUCCESS;
}
EXPORT status nvmlDeviceGetTemperature(void *h, int sensor, unsigned *t) { (void)h; (void)sensor; *t = 30; return SUCCESS; }
EXPORT status nvmlDeviceGetPersistenceMode(void *h, int *on) { (void)h; *on = 1; return SUCCESS; }
EXPORT status nvmlDeviceGetMigMode(void *h, unsigned *now, unsigned *next) {
  (void)h; (void)now; (void)next;
  return NVML_NOT_SUPPORTED;
}
EXPORT status nvmlDeviceGetNvLinkRemoteDeviceType(void *h, unsigned link, unsigned *type) {
  (void)h; (void)link; (void)type;
  return NVML_NOT_SUPPORTED;
}
EXPORT status nvmlDeviceGetNvLinkRemotePciInfo_v2(void *h, unsigned link, void *info) {
  (void)h; (void)link; (void)info;
  return NVML_NOT_SUPPORTED;
}
EXPORT status nvmlDeviceGetNvLinkState(void *h, unsigned link, unsigned *on) {
  (void)h; (void)link; (void)on;
  return NVML_NOT_SUPPORTED;
}
EXPORT status nvmlDeviceGetGpuFabricInfoV(void *h, void *info) { /* its state stays "not supported" */
  (void)h; (void)info;
  return SUCCESS;
}
EXPORT status nvmlDeviceGetP2PStatus(void *a, void *b, int which, int *s) {
  (void)a; (void)b; (void)which;
  *s = 0;
  return SUCCESS;
}
typedef struct { char legacy[16]; unsigned domain, bus, slot, device, subsystem; char text[32]; } Pci;
EXPORT status nvmlDeviceGetPciInfo_v3(void *h, Pci *p) {
  int d = device_of(h);
  if (d < 0) return NVML_INVALID;
  memset(p, 0, sizeof *p);
  p->bus = 0x19 + (unsigned)d;
  snprintf(p->legacy, sizeof p->legacy, "0000:%02X:00.0", p->bus & 0xff);
  snprintf(p->text, sizeof p->text, "00000000:%02X:00.0", p->bus & 0xff);
  return SUCCESS;
}
