/* Virtual memory: addresses are reserved, physical memory is created, and one is mapped to the other
 * (expandable segments of PyTorch's allocator). */
#include "device.h"

static Ranges reserved, mapped; /* mapped's tag: the handle */

typedef struct { u64 size; int device, users; } Physical;
static Physical *physical; /* by handle - 1 */
static size_t n_physical, room, first_unused;

#define MOST_PHYSICAL (4u << 20)
enum { ON_DEVICE = 1 };

/* The parts of a CUmemAllocationProp that matter: where. */
typedef struct { int kind, handle_types, location_kind, location; } Properties;

int reserved_device(u64 at, int *device) {
  LOCK();
  Range *row = ranges_find(&mapped, at);
  int known = row || ranges_find(&reserved, at);
  if (device) *device = row ? physical[row->tag - 1].device : current;
  UNLOCK();
  return known;
}

int mapped_range(u64 at, u64 *base, u64 *size) {
  Range *row = ranges_find(&mapped, at);
  if (row) *base = row->at, *size = row->size;
  return row != NULL;
}

EXPORT status cuMemGetAllocationGranularity(size_t *bytes, const void *properties, int which) {
  (void)properties; (void)which;
  *bytes = PAGE;
  return SUCCESS;
}

EXPORT status cuMemAddressReserve(u64 *p, size_t size, size_t align, u64 wanted, u64 flags) {
  (void)flags;
  start();
  if (!p || !size || size > RESERVE_END || align > RESERVE_END || (align & (align - 1))) return INVALID_VALUE;
  if (align < PAGE) align = PAGE;
  size = ROUND_UP(size, PAGE);
  u64 at = 0;
  LOCK();
  if (wanted >= RESERVE_BASE && wanted % PAGE == 0) {
    at = ranges_fit(&reserved, wanted, RESERVE_END, size, PAGE);
    if (at != wanted) at = 0;
  }
  if (!at) at = ranges_fit(&reserved, RESERVE_BASE, RESERVE_END, size, align);
  if (at && !ranges_add(&reserved, at, size, 0)) at = 0;
  LOG("reserve 0x%llx %zu\n", (unsigned long long)at, size);
  UNLOCK();
  if (!at) return OUT_OF_MEMORY;
  *p = at;
  return SUCCESS;
}

EXPORT status cuMemAddressFree(u64 at, size_t size) {
  LOCK();
  Range *row = ranges_find(&reserved, at);
  int known = row && row->at == at;
  if (known) ranges_remove(&reserved, row);
  LOG("unreserve 0x%llx %zu\n", (unsigned long long)at, size);
  UNLOCK();
  return known ? SUCCESS : INVALID_VALUE;
}

static size_t unused_handle(void) {
  size_t i = first_unused;
  while (i < n_physical && physical[i].users) i++;
  if (i == room) {
    size_t more = room ? room * 2 : 256;
    Physical *grown = more > MOST_PHYSICAL ? NULL : realloc(physical, more * sizeof *grown);
    if (!grown) return SIZE_MAX;
    physical = grown;
    room = more;
  }
  if (i == n_physical) n_physical++;
  first_unused = i + 1;
  return i;
}

EXPORT status cuMemCreate(u64 *handle, size_t size, const Properties *properties, u64 flags) {
  (void)flags;
  start();
  if (!handle || !properties || !size || size % PAGE) return INVALID_VALUE;
  int device = properties->location_kind == ON_DEVICE ? properties->location : -1;
  if (device >= n_visible) return INVALID_DEVICE;
  LOCK();
  size_t i = SIZE_MAX;
  int taken = device < 0 || device_take(device, size);
  if (taken) i = unused_handle();
  if (taken && i == SIZE_MAX && device >= 0) device_give(device, size);
  if (i != SIZE_MAX) physical[i] = (Physical){size, device, 1};
  LOG("create %d %zu %zu\n", device, i == SIZE_MAX ? 0 : i + 1, size);
  UNLOCK();
  if (i == SIZE_MAX) return OUT_OF_MEMORY;
  *handle = i + 1;
  return SUCCESS;
}

static int known_handle(u64 handle) { return handle - 1 < n_physical && physical[handle - 1].users; }

static void release(u64 handle) {
  Physical *p = &physical[handle - 1];
  if (--p->users) return;
  if (p->device >= 0) device_give(p->device, p->size);
  if (handle - 1 < first_unused) first_unused = handle - 1;
}

EXPORT status cuMemRelease(u64 handle) {
  LOCK();
  int known = known_handle(handle);
  if (known) release(handle);
  LOG("release %llu\n", (unsigned long long)handle);
  UNLOCK();
  return known ? SUCCESS : INVALID_VALUE;
}

/* Maps [at, at+size), which has to lie in one reservation and to be free. */
EXPORT status cuMemMap(u64 at, size_t size, size_t offset, u64 handle, u64 flags) {
  (void)flags;
  LOCK();
  Range *in = ranges_find(&reserved, at);
  int fits = known_handle(handle) && in && size && size <= in->size - (at - in->at) && at % PAGE == 0 && size % PAGE == 0 &&
             offset <= physical[handle - 1].size && size <= physical[handle - 1].size - offset &&
             ranges_fit(&mapped, at, at + size, size, PAGE) == at && ranges_add(&mapped, at, size, handle);
  if (fits) {
    physical[handle - 1].users++;
    LOG("map %d 0x%llx %zu\n", physical[handle - 1].device, (unsigned long long)at, size);
  }
  UNLOCK();
  return fits ? SUCCESS : INVALID_VALUE;
}

EXPORT status cuMemUnmap(u64 at, size_t size) {
  if (at >= RESERVE_END || size > RESERVE_END - at) return INVALID_VALUE;
  LOCK();
  size_t first = at ? ranges_after(&mapped, at - 1) : 0, last = first;
  while (last < mapped.count && mapped.rows[last].at < at + size) release(mapped.rows[last++].tag);
  memmove(mapped.rows + first, mapped.rows + last, (mapped.count - last) * sizeof *mapped.rows);
  mapped.count -= last - first;
  LOG("unmap 0x%llx %zu\n", (unsigned long long)at, size);
  UNLOCK();
  value_forget(at, size);
  settle();
  return SUCCESS;
}

EXPORT status cuMemSetAccess(u64 at, size_t size, const void *access, size_t n) {
  (void)size; (void)access; (void)n;
  return at >= RESERVE_BASE && at < RESERVE_END ? SUCCESS : INVALID_VALUE;
}

EXPORT status cuMemRetainAllocationHandle(u64 *handle, void *p) {
  LOCK();
  Range *row = ranges_find(&mapped, (u64)p);
  if (row) {
    *handle = row->tag;
    physical[row->tag - 1].users++;
  }
  UNLOCK();
  return row ? SUCCESS : INVALID_VALUE;
}

EXPORT status cuMemGetAllocationPropertiesFromHandle(Properties *properties, u64 handle) {
  LOCK();
  int known = known_handle(handle);
  if (known) {
    memset(properties, 0, 32); /* the structure's size since it came in */
    *properties = (Properties){1, 0, ON_DEVICE, physical[handle - 1].device};
  }
  UNLOCK();
  return known ? SUCCESS : INVALID_VALUE;
}
