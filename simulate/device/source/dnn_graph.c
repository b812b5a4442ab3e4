/* cuDNN's graph API: descriptors keep what is set in them, a heuristic finds one engine, and its plan needs no workspace.
 * The real engines of convolutions do: what was executed is counted, so that the answer says what isn't in it. */
#include "device.h"

enum { DNN_BAD_PARAM = 2000, DNN_ALLOC_FAILED = 1003, DNN_NOT_SUPPORTED = 3000 };

enum { /* kinds of descriptors */
  ENGINE = 2,
  CONVOLUTION_FORWARD = 10,
  CONVOLUTION_FILTER = 11,
  CONVOLUTION_DATA = 12,
};

enum { /* attributes that are answered */
  HEURISTIC_RESULTS = 202,
  CONFIG_ENGINE = 300,
  CONFIG_WORKSPACE = 303,
  CONFIG_SHARED = 304,
  PLAN_WORKSPACE = 402,
  GRAPH_ENGINES = 802,
  ENGINE_INDEX = 1301,
};

enum { TYPE_DESCRIPTOR = 15 };

typedef struct Attribute { struct Attribute *next; int name, type; int64_t count; char data[]; } Attribute;
typedef struct { u64 magic; int kind; unsigned has; Attribute *attributes; } Descriptor;
#define DESCRIPTOR_MAGIC 0x6e6e6475632d736dull
enum { MOST_ELEMENTS = 1 << 16 };

/* What a descriptor's graph computes, handed up from operations to plans. */
enum { FORWARD = 1, FILTER = 2, DATA = 4, OTHER = 8 };

static Descriptor *known(void *d) {
  Descriptor *x = d;
  return x && x->magic == DESCRIPTOR_MAGIC ? x : NULL;
}

static size_t width(int type) {
  switch (type) {
    case 0: case 3: case 5: case 6: case TYPE_DESCRIPTOR: return 8;
    case 2: case 24: return 1;
    case 26: return 16;
    default: return 4;
  }
}

static unsigned computes(int kind) {
  switch (kind) {
    case CONVOLUTION_FORWARD: return FORWARD;
    case CONVOLUTION_FILTER: return FILTER;
    case CONVOLUTION_DATA: return DATA;
    default: return kind == 19 || kind >= 40 ? OTHER : 0; /* products, and what came in later: attention */
  }
}

static void clear(Descriptor *d) {
  while (d->attributes) {
    Attribute *a = d->attributes;
    d->attributes = a->next;
    free(a);
  }
}

static Attribute *find(const Descriptor *d, int name) {
  Attribute *a = d->attributes;
  while (a && a->name != name) a = a->next;
  return a;
}

static int set(Descriptor *d, int name, int type, int64_t count, const void *data) {
  size_t bytes = (size_t)count * width(type);
  Attribute *a = malloc(sizeof *a + bytes);
  if (!a) return 0;
  *a = (Attribute){NULL, name, type, count};
  if (bytes) memcpy(a->data, data, bytes);
  for (Attribute **at = &d->attributes; *at; at = &(*at)->next)
    if ((*at)->name == name) {
      Attribute *old = *at;
      *at = old->next;
      free(old);
      break;
    }
  a->next = d->attributes;
  d->attributes = a;
  return 1;
}

static status copy_into(Descriptor *to, const Descriptor *from) {
  clear(to);
  to->has = from->has;
  for (const Attribute *a = from->attributes; a; a = a->next)
    if (!set(to, a->name, a->type, a->count, a->data)) return DNN_ALLOC_FAILED;
  return SUCCESS;
}

EXPORT status cudnnBackendCreateDescriptor(int kind, void **to) {
  start();
  if (!to) return DNN_BAD_PARAM;
  Descriptor *d = calloc(1, sizeof *d);
  if (!d) return DNN_ALLOC_FAILED;
  *d = (Descriptor){.magic = DESCRIPTOR_MAGIC, .kind = kind, .has = computes(kind)};
  *to = d;
  return SUCCESS;
}

EXPORT status cudnnBackendDestroyDescriptor(void *of) {
  Descriptor *d = known(of);
  if (!d) return DNN_BAD_PARAM;
  clear(d);
  d->magic = 0;
  free(d);
  return SUCCESS;
}

EXPORT status cudnnBackendInitialize(void *of) { (void)of; return SUCCESS; }
EXPORT status cudnnBackendFinalize(void *of) { return known(of) ? SUCCESS : DNN_BAD_PARAM; }

EXPORT status cudnnBackendSetAttribute(void *of, int name, int type, int64_t count, const void *data) {
  Descriptor *d = known(of);
  if (!d || count < 0 || count > MOST_ELEMENTS || (count && !data)) return DNN_BAD_PARAM;
  for (int64_t i = 0; type == TYPE_DESCRIPTOR && i < count; i++) {
    Descriptor *part = known(((void *const *)data)[i]);
    if (part) d->has |= part->has;
  }
  return set(d, name, type, count, data) ? SUCCESS : DNN_ALLOC_FAILED;
}

static status number(int64_t value, int64_t wanted, int64_t *got, int64_t *to) {
  if (got) *got = 1;
  if (wanted > 0 && to) *to = value;
  return SUCCESS;
}

/* Descriptors come back as copies into those that the caller made. */
static status give(const Attribute *a, int64_t wanted, int64_t *got, void *to) {
  if (got) *got = a->count;
  if (!to) return SUCCESS;
  int64_t n = wanted < a->count ? wanted : a->count;
  if (n <= 0) return SUCCESS;
  if (a->type != TYPE_DESCRIPTOR) {
    memcpy(to, a->data, (size_t)n * width(a->type));
    return SUCCESS;
  }
  for (int64_t i = 0; i < n; i++) {
    Descriptor *from = known(((void *const *)a->data)[i]), *into = known(((void **)to)[i]);
    if (from && into && copy_into(into, from)) return DNN_ALLOC_FAILED;
  }
  return SUCCESS;
}

static status one_result(const Descriptor *heuristic, int64_t wanted, int64_t *got, void **to) {
  if (got) *got = 1;
  if (wanted < 1 || !to) return SUCCESS;
  Descriptor *config = known(to[0]);
  if (!config) return DNN_BAD_PARAM;
  config->has = heuristic->has;
  return SUCCESS;
}

EXPORT status cudnnBackendGetAttribute(void *of, int name, int type, int64_t wanted, int64_t *got, void *to) {
  (void)type;
  Descriptor *d = known(of);
  if (!d) return DNN_BAD_PARAM;
  switch (name) {
    case HEURISTIC_RESULTS: return one_result(d, wanted, got, to);
    case PLAN_WORKSPACE: case CONFIG_WORKSPACE: return number(0, wanted, got, to);
    case CONFIG_SHARED: return number(0, wanted, got, to);
    case GRAPH_ENGINES: return number(1, wanted, got, to);
  }
  Attribute *a = find(d, name);
  if (a) return give(a, wanted, got, to);
  if (name == CONFIG_ENGINE) return got ? (*got = 1, SUCCESS) : SUCCESS;
  if (name == ENGINE_INDEX) return number(0, wanted, got, to);
  if (got) *got = 0; /* notes, knobs, layouts: none */
  return SUCCESS;
}

EXPORT status cudnnBackendExecute(void *handle, void *plan, void *pack) {
  (void)handle; (void)pack;
  Descriptor *d = known(plan);
  if (!d) return DNN_BAD_PARAM;
  work(0);
  if (d->has & FORWARD) convolution_seen("forward");
  if (d->has & FILTER) convolution_seen("backward of weights");
  if (d->has & DATA) convolution_seen("backward of inputs");
  if (!(d->has & (FORWARD | FILTER | DATA)) && d->has & OTHER) concern(UNCOUNTED, "cudnnBackendExecute");
  return SUCCESS;
}
