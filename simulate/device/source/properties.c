/* What the GPU says of itself: the settings' figures, and what follows from the compute capability. */
#include "device.h"

int pci_bus(int device) { return 0x19 + visible[device]; }

void uuid_of(int device, unsigned char *uuid) {
  memset(uuid, 0, 16);
  memcpy(uuid, "\xfa\xce\xfa\xce\x00\x00\x40\x00\x80\x00", 10);
  uuid[15] = (unsigned char)visible[device];
}

/* By the numbers of cudaDeviceAttr and CUdevice_attribute, which are the same. */
int attribute(int which, int device) {
  switch (which) {
    case 1: case 2: case 3: return 1024; /* threads of a block: all, x, y */
    case 4: return 64;                   /* z */
    case 5: return 2147483647;           /* grid: x */
    case 6: case 7: return 65535;
    case 8: return 49152;  /* shared memory of a block */
    case 9: return 65536;  /* constant memory */
    case 10: return 32;    /* warp */
    case 11: return 2147483647;
    case 12: return 65536; /* registers of a block */
    case 13: return 1410000;
    case 14: return 512;
    case 15: return 1;
    case 16: return gpu.multiprocessors;
    case 19: return 1; /* maps host memory */
    case 31: return 1; /* concurrent kernels */
    case 32: return 1; /* ECC */
    case 33: return pci_bus(device);
    case 36: return 1215000;
    case 37: return 5120;
    case 38: return gpu.l2;
    case 39: return gpu.threads_per_sm;
    case 40: return 3; /* copy engines */
    case 41: return 1; /* unified addressing */
    case 75: return gpu.major;
    case 76: return gpu.minor;
    case 78: case 79: case 80: return 1; /* stream priorities, caches in L1 */
    case 81: return gpu.shared_per_sm;
    case 82: return 65536;
    case 83: return 1;                  /* managed memory */
    case 85: return device;             /* group of a board */
    case 87: return gpu.major == 8 && gpu.minor ? 64 : gpu.major >= 12 ? 64 : 2; /* single to double precision */
    case 89: case 90: case 91: return 1;
    case 95: return 1;                  /* cooperative launches */
    case 97: return gpu.shared_optin;
    case 99: return 1;                  /* registers host memory */
    case 102: return 1;                 /* virtual memory */
    case 103: return 1;
    case 106: return gpu.blocks_per_sm;
    case 108: return gpu.l2 / 4 * 3;    /* of L2 that can persist */
    case 111: return 1024;              /* shared memory kept by the system */
    case 115: case 116: return 1;       /* memory pools */
    case 120: return gpu.major >= 9;    /* clusters */
    default: return 0;
  }
}

EXPORT status cudaDeviceGetAttribute(int *value, int which, int device) {
  start();
  if (!value) return fail(INVALID_VALUE);
  if (device < 0 || device >= n_visible) return fail(INVALID_DEVICE);
  *value = attribute(which, device);
  return SUCCESS;
}
ALIAS(cuDeviceGetAttribute, cudaDeviceGetAttribute)

/* cudaDeviceProp: where a field lies up to CUDA 12 and in 13, and its bytes. What comes after 728 bytes came in with 12. */
#define FIELDS(F) \
  F(288, 288, 8, gpu.total) F(296, 296, 8, 49152) F(304, 304, 4, 65536) F(308, 308, 4, 32) F(312, 312, 8, 2147483647) \
  F(320, 320, 4, 1024) F(324, 324, 4, 1024) F(328, 328, 4, 1024) F(332, 332, 4, 64) \
  F(336, 336, 4, 2147483647) F(340, 340, 4, 65535) F(344, 344, 4, 65535) F(348, -1, 4, 1410000) \
  F(352, 352, 8, 65536) F(360, 360, 4, gpu.major) F(364, 364, 4, gpu.minor) F(368, 368, 8, 512) F(376, 376, 8, 32) \
  F(388, 384, 4, gpu.multiprocessors) F(400, 392, 4, 1) F(408, 396, 4, 131072) F(568, 552, 8, 512) F(576, 560, 4, 1) \
  F(580, 564, 4, 1) F(584, 568, 4, pci_bus(device)) F(600, 584, 4, 3) F(604, 588, 4, 1) F(608, -1, 4, 1215000) \
  F(612, 592, 4, 5120) F(616, 596, 4, gpu.l2) F(620, 600, 4, gpu.l2 / 4 * 3) F(624, 604, 4, gpu.threads_per_sm) \
  F(628, 608, 4, 1) F(632, 612, 4, 1) F(636, 616, 4, 1) F(640, 624, 8, gpu.shared_per_sm) F(648, 632, 4, 65536) \
  F(652, 636, 4, 1) F(660, 644, 4, device) F(676, 656, 4, 1) F(680, 660, 4, 1) F(684, 664, 4, 1) F(688, 668, 4, 1) \
  F(696, 672, 8, gpu.shared_optin) F(712, 688, 4, gpu.blocks_per_sm) F(716, 692, 4, 134213632) F(720, 696, 8, 1024) \
  F(728, 704, 4, 1) F(744, 720, 4, 1) F(768, 744, 4, 1) F(772, 748, 4, gpu.major >= 9) F(776, 752, 4, 1)

static void put(char *to, int at, int bytes, u64 value, int size) {
  if (at >= 0 && at + bytes <= size) memcpy(to + at, &value, (size_t)bytes);
}

static status describe(char *to, int device, int cuda, int size) {
  start();
  if (!to) return fail(INVALID_VALUE);
  if (device < 0 || device >= n_visible) return fail(INVALID_DEVICE);
  memset(to, 0, (size_t)size);
  memcpy(to, gpu.name, sizeof gpu.name);
  uuid_of(device, (unsigned char *)to + 256);
#define F(in_12, in_13, bytes, value) put(to, cuda >= 13 ? in_13 : in_12, bytes, (u64)(value), size);
  FIELDS(F)
  return SUCCESS;
}

EXPORT status vramscope_properties_11(char *to, int device) { return describe(to, device, 11, 728); }
ALIAS(vramscope_properties_12, vramscope_properties_11) /* under this name, CUDA 12 still has the structure of 11 */
EXPORT status cudaGetDeviceProperties_v2(char *to, int device) { return describe(to, device, 12, 1032); }
EXPORT status vramscope_properties_13(char *to, int device) { return describe(to, device, 13, 1008); }
IN_CUDA_11(vramscope_properties_11, cudaGetDeviceProperties)
IN_CUDA_12(vramscope_properties_12, cudaGetDeviceProperties)
IN_CUDA_13(vramscope_properties_13, cudaGetDeviceProperties)

EXPORT status cudaDeviceGetPCIBusId(char *text, int length, int device) {
  start();
  if (!text || length < 1) return fail(INVALID_VALUE);
  if (device < 0 || device >= n_visible) return fail(INVALID_DEVICE);
  snprintf(text, (size_t)length, "0000:%02x:00.0", pci_bus(device));
  return SUCCESS;
}
ALIAS(cuDeviceGetPCIBusId, cudaDeviceGetPCIBusId)
EXPORT status cudaDeviceGetByPCIBusId(int *device, const char *text) {
  unsigned domain, bus, slot;
  start();
  if (!text || sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3) return fail(INVALID_VALUE);
  for (int d = 0; d < n_visible; d++)
    if ((unsigned)pci_bus(d) == bus) return *device = d, SUCCESS;
  return fail(INVALID_DEVICE);
}
ALIAS(cuDeviceGetByPCIBusId, cudaDeviceGetByPCIBusId)

EXPORT status cuDeviceGetName(char *text, int length, int device) {
  start();
  if (!text || length < 1) return INVALID_VALUE;
  if (device < 0 || device >= n_visible) return INVALID_DEVICE;
  snprintf(text, (size_t)length, "%s", gpu.name);
  return SUCCESS;
}
EXPORT status cuDeviceGetUuid(unsigned char *uuid, int device) {
  start();
  if (device < 0 || device >= n_visible) return INVALID_DEVICE;
  uuid_of(device, uuid);
  return SUCCESS;
}
ALIAS(cuDeviceGetUuid_v2, cuDeviceGetUuid)
EXPORT status cuDeviceTotalMem_v2(size_t *bytes, int device) {
  start();
  if (device < 0 || device >= n_visible) return INVALID_DEVICE;
  *bytes = gpu.total;
  return SUCCESS;
}
ALIAS(cuDeviceTotalMem, cuDeviceTotalMem_v2)
EXPORT status cuDeviceComputeCapability(int *major, int *minor, int device) {
  start();
  if (device < 0 || device >= n_visible) return INVALID_DEVICE;
  *major = gpu.major;
  *minor = gpu.minor;
  return SUCCESS;
}
EXPORT status cudaDeviceCanAccessPeer(int *can, int a, int b) { *can = a != b; return SUCCESS; }
ALIAS(cuDeviceCanAccessPeer, cudaDeviceCanAccessPeer)
EXPORT status cudaDeviceGetP2PAttribute(int *value, int which, int a, int b) { (void)which; *value = a != b; return SUCCESS; }
ALIAS(cuDeviceGetP2PAttribute, cudaDeviceGetP2PAttribute)
